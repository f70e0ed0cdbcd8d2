#include "ops/spooler.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "ops/spooler_state.h"

enum { TICK_MS = 100 };

/* ---- names ------------------------------------------------------------------------------- */

void spooler_spec(enum spooler_kind kind, uint32_t retries, const char *keyspace,
		  char ret_spec[JOB_SPEC_MAX])
{
	static const char *const kinds[] = {
		[SPOOLER_PLAN] = "plan", [SPOOLER_KEYS] = "keys", [SPOOLER_HOT] = "hot"
	};
	snprintf(ret_spec, JOB_SPEC_MAX, "%s %u%s%s", kinds[kind], (unsigned)retries,
		 kind == SPOOLER_HOT ? " " : "", kind == SPOOLER_HOT ? keyspace : "");
}

bool spooling_is_of(const char *spec, const char *kind)
{
	size_t len = strlen(kind);
	return strncmp(spec, kind, len) == 0 && spec[len] == ' ';
}

const struct warm_policy *spooler_plan(const struct spooler *spooler, const char *name)
{
	const struct config *config = *spooler->options.config;
	for (size_t i = 0; i < config->warm_count; i++)
		if (strcmp(config->warm[i].name, name) == 0)
			return &config->warm[i];
	return NULL;
}

static struct spooling *find(const struct spooler *spooler, const char *name, uint64_t id)
{
	list_foreach (&spooler->spoolings, node) {
		struct spooling *spooling = container_of(node, struct spooling, node);
		if (spooling->id == id && strcmp(spooling->name, name) == 0)
			return spooling;
	}
	return NULL;
}

static struct spooling *add(struct spooler *spooler, const char *name, uint64_t id)
{
	struct spooling *spooling = mem_zalloc(sizeof(*spooling));
	if (!spooling)
		return NULL;
	list_node_init(&spooling->node);
	spooling->spooler = spooler;
	snprintf(spooling->name, sizeof(spooling->name), "%s", name);
	spooling->id = id;
	spooling->fd = -1;
	list_push_back(&spooler->spoolings, &spooling->node);
	return spooling;
}

/* ---- which jobs there are ---------------------------------------------------------------- */

static void remove_spooling(struct spooling *spooling)
{
	spooling_drop_spool(spooling);
	list_remove(&spooling->spooler->spoolings, &spooling->node);
	mem_free(spooling->keys);
	mem_free(spooling->chunk);
	mem_free(spooling);
}

/* Jobs that run, which this daemon may feed. */
static void look_for_jobs(struct spooler *spooler)
{
	list_foreach (&spooler->options.warmer->jobs, node) {
		const struct warmer_job *job = container_of(node, struct warmer_job, node);
		struct spooling *spooling = find(spooler, job->name, job->job.id);
		if (!job->known || job->over)
			continue;
		bool can =
			!spooling_is_of(job->job.spec, "plan") || spooler_plan(spooler, job->name);
		if (spooling || !can)
			continue;
		spooling = add(spooler, job->name, job->job.id);
		if (!spooling)
			continue;
		memcpy(spooling->spec, job->job.spec, sizeof(spooling->spec));
		spooling->interval_us = job->job.interval_us;
	}
}

static bool all_known(const struct warmer *warmer)
{
	list_foreach (&warmer->jobs, node) {
		const struct warmer_job *job = container_of(node, struct warmer_job, node);
		if (!job->known && !job->over)
			return false;
	}
	return warmer->listed;
}

static void on_timer(uv_timer_t *timer)
{
	struct spooler *spooler = timer->data;
	struct list_node *next;
	look_for_jobs(spooler);
	for (struct list_node *node = list_first(&spooler->spoolings); node; node = next) {
		struct spooling *spooling = container_of(node, struct spooling, node);
		next = node->next != &spooler->spoolings.head ? node->next : NULL;
		if (spooling->calling)
			continue;
		if (spooling->over) {
			spooling_drop_file(spooling);
			remove_spooling(spooling);
			continue;
		}
		spooling_take_spool(spooling);
		if (!spooling->calling && uv_now(spooler->loop) >= spooling->due_ms)
			spooling_feed(spooling);
	}
	if (!spooler->swept && all_known(spooler->options.warmer))
		spooler_sweep(spooler);
}

static void on_told(uv_async_t *async)
{
	struct spooler *spooler = async->data;
	list_foreach (&spooler->spoolings, node)
		spooling_take_spool(container_of(node, struct spooling, node));
}

/* ---- life -------------------------------------------------------------------------------- */

void spooler_open(struct spooler *spooler, uv_loop_t *loop, const struct spooler_options *options)
{
	*spooler = (struct spooler){ .options = *options, .loop = loop, .handles = 2 };
	list_init(&spooler->spoolings);
	CHECK(uv_timer_init(loop, &spooler->timer) == 0);
	CHECK(uv_async_init(loop, &spooler->told, on_told) == 0);
	spooler->timer.data = spooler->told.data = spooler;
	CHECK(uv_timer_start(&spooler->timer, on_timer, TICK_MS, TICK_MS) == 0);
}

int spooler_begin(struct spooler *spooler, const struct job_call *opened, const char *keys,
		  uint32_t len, uint32_t count)
{
	if (find(spooler, opened->name, opened->id))
		return 0;
	struct spooling *spooling = add(spooler, opened->name, opened->id);
	if (!spooling)
		return -ENOMEM;
	memcpy(spooling->spec, opened->spec, sizeof(spooling->spec));
	spooling->interval_us = opened->interval_us;
	if (keys) {
		spooling->keys = mem_alloc(len + 1);
		if (!spooling->keys) {
			remove_spooling(spooling);
			return -ENOMEM;
		}
		memcpy(spooling->keys, keys, len);
		spooling->keys_len = len;
		spooling->keys_count = count;
	}
	spooling_feed(spooling);
	return 0;
}

bool spooler_knows(const struct spooler *spooler, const char *name)
{
	list_foreach (&spooler->spoolings, node) {
		const struct spooling *spooling = container_of(node, struct spooling, node);
		if (!spooling->over && strcmp(spooling->name, name) == 0)
			return true;
	}
	return false;
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct spooler *spooler = handle->data;
	if (--spooler->handles > 0)
		return;
	struct list_node *node;
	while ((node = list_first(&spooler->spoolings)))
		remove_spooling(container_of(node, struct spooling, node));
	spooler->closed(spooler->arg);
}

static bool is_calling(const struct spooler *spooler)
{
	list_foreach (&spooler->spoolings, node)
		if (container_of(node, struct spooling, node)->calling)
			return true;
	return false;
}

/* Calls under way come back: the store answers all. */
static void on_closing(uv_timer_t *timer)
{
	struct spooler *spooler = timer->data;
	if (is_calling(spooler))
		return;
	uv_close((uv_handle_t *)&spooler->timer, on_handle_closed);
	uv_close((uv_handle_t *)&spooler->told, on_handle_closed);
}

void spooler_close(struct spooler *spooler, void (*closed)(void *arg), void *arg)
{
	spooler->closing = true;
	spooler->closed = closed;
	spooler->arg = arg;
	list_foreach (&spooler->spoolings, node) {
		struct spooling *spooling = container_of(node, struct spooling, node);
		spool_end(spooling->spool);
		spooling->spool = NULL;
	}
	CHECK(uv_timer_start(&spooler->timer, on_closing, 0, 10) == 0);
}
