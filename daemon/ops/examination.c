#include "ops/examination.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "doctor/doctor.h"

enum { EXAMINATIONS_MAX = 4 }; /* threads, abandoned ones included */

/* ---- in the thread ------------------------------------------------------------------------- */

struct visit {
	struct doctor_report report;
	char config_path[]; /* a copy: the thread may outlive the daemon's */
};

static void visit_run(void *arg)
{
	struct visit *visit = arg;
	doctor_examine(visit->config_path, &visit->report);
}

static struct aside *visit_start(const char *config_path, uv_async_t *tell)
{
	static struct aside_quota quota = { .max = EXAMINATIONS_MAX };
	static const struct aside_call call = { visit_run, free, &quota };
	size_t size = strlen(config_path) + 1;
	struct visit *visit = malloc(sizeof(*visit) + size);
	if (!visit)
		return NULL;
	memcpy(visit->config_path, config_path, size);
	return aside_start(&call, visit, tell);
}

/* ---- on the loop ---------------------------------------------------------------------------- */

static void tell(struct list *askers, const struct doctor_report *report, const char *why)
{
	struct list_node *node;
	while ((node = list_pop_front(askers))) {
		struct server_examination *asker =
			container_of(node, struct server_examination, node);
		asker->report = report;
		asker->why = why;
		asker->done(asker);
	}
}

static void on_no_thread(uv_timer_t *timer);

static void begin(struct examination *examination)
{
	struct list_node *node;
	while ((node = list_pop_front(&examination->waiting)))
		list_push_back(&examination->asking, node);
	examination->running = visit_start(examination->config_path, &examination->told);
	if (!examination->running) /* told on the loop's next turn, as everything is */
		CHECK(uv_timer_start(&examination->retry, on_no_thread, 0, 0) == 0);
}

static void end(struct examination *examination, const struct doctor_report *report,
		const char *why)
{
	tell(&examination->asking, report, why);
	aside_free(examination->running);
	examination->running = NULL;
	if (!examination->closing && !list_empty(&examination->waiting))
		begin(examination);
}

static void on_told(uv_async_t *async)
{
	struct examination *examination = async->data;
	struct visit *visit = examination->running ? aside_result(examination->running) : NULL;
	if (visit)
		end(examination, &visit->report, NULL);
}

static void on_no_thread(uv_timer_t *timer)
{
	end(timer->data, NULL, "there is no thread for the doctor");
}

void examination_ask(struct examination *examination, struct server_examination *asker)
{
	list_push_back(&examination->waiting, &asker->node);
	if (!examination->closing && list_empty(&examination->asking))
		begin(examination);
}

void examination_init(struct examination *examination, uv_loop_t *loop, const char *config_path)
{
	*examination = (struct examination){ .config_path = config_path };
	list_init(&examination->asking);
	list_init(&examination->waiting);
	CHECK(uv_async_init(loop, &examination->told, on_told) == 0);
	CHECK(uv_timer_init(loop, &examination->retry) == 0);
	examination->told.data = examination->retry.data = examination;
	uv_unref((uv_handle_t *)&examination->told);
	uv_unref((uv_handle_t *)&examination->retry);
}

void examination_close(struct examination *examination)
{
	CHECK(!examination->closing);
	examination->closing = true;
	aside_free(examination->running);
	examination->running = NULL;
	tell(&examination->asking, NULL, "the daemon is stopping");
	tell(&examination->waiting, NULL, "the daemon is stopping");
	uv_close((uv_handle_t *)&examination->told, NULL);
	uv_close((uv_handle_t *)&examination->retry, NULL);
}
