#include "ops/reload.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"

enum { READ_MS = 10 * 1000, READINGS_MAX = 4 };

/* ---- reading, in the thread ---------------------------------------------------------------- */

struct reading {
	char *path;                  /* owned */
	reload_check_fn *check;      /* static */
	struct config *config;       /* owned; NULL: it cannot be read, or has errors */
	struct config_errors errors; /* of the file */
	const char *why;             /* static; what else is wrong with the configuration */
};

static void reading_run(void *arg)
{
	struct reading *reading = arg;

	if (config_load(reading->path, &reading->config, &reading->errors) == 0)
		reading->why = reading->check(reading->config);
}

static void reading_drop(void *arg)
{
	struct reading *reading = arg;

	config_free(reading->config);
	free(reading->path);
	free(reading);
}

static struct aside *reading_start(const char *path, reload_check_fn *check, uv_async_t *tell)
{
	static struct aside_quota quota = { .max = READINGS_MAX };
	static const struct aside_call call = { reading_run, reading_drop, &quota };
	struct reading *reading = calloc(1, sizeof(*reading));

	if (!reading || !(reading->path = strdup(path))) {
		free(reading);
		return NULL;
	}
	reading->check = check;
	return aside_start(&call, reading, tell);
}

/* ---- what is wrong ------------------------------------------------------------------------- */

/* A text that grows, and is cut where it no longer fits. */
struct excuse {
	char *text;
	size_t size, len;
};

static void excuse_add(struct excuse *excuse, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void excuse_add(struct excuse *excuse, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int n = vsnprintf(excuse->text + excuse->len, excuse->size - excuse->len, format, args);
	va_end(args);
	if (n > 0)
		excuse->len += (size_t)n;
	if (excuse->len >= excuse->size)
		excuse->len = excuse->size - 1;
}

static void say_place(const struct config_errors *errors, const struct config_finding *finding,
		      char *ret_place, size_t size)
{
	if (finding->place.line == 0)
		snprintf(ret_place, size, "%s", errors->path);
	else
		snprintf(ret_place, size, "%s:%d:%d", errors->path, finding->place.line,
			 finding->place.column);
}

static void log_findings(const struct config_errors *errors, const struct config_findings *findings,
			 const char *what)
{
	char place[4200];

	for (size_t i = 0; i < findings->count; i++) {
		say_place(errors, &findings->items[i], place, sizeof(place));
		log_warning("config.finding", LOG_TEXT("kind", what), LOG_TEXT("at", place),
			    LOG_TEXT("text", findings->items[i].text));
	}
}

static void excuse_findings(struct excuse *excuse, const struct config_errors *errors)
{
	const struct config_findings *findings = &errors->errors;
	char place[4200];

	for (size_t i = 0; i < findings->count; i++) {
		say_place(errors, &findings->items[i], place, sizeof(place));
		excuse_add(excuse, "%s%s: %s", i > 0 ? "; " : "", place, findings->items[i].text);
	}
	if (findings->more > 0)
		excuse_add(excuse, "; and %zu more", findings->more);
}

static void note_fixed(void *arg, const char *key, bool is_live)
{
	struct excuse *excuse = arg;

	if (!is_live)
		excuse_add(excuse, "%s%s", excuse->len > 0 ? ", " : "", key);
}

/* ---- taking or refusing -------------------------------------------------------------------- */

/* What came of a reading; `ret_counts` if it is taken. True: taken, and the config is not the
   reading's any more. */
static bool take(struct reload *reload, struct reading *reading, struct server_reload *ret_counts)
{
	const struct reload_host *host = &reload->host;
	struct excuse excuse = { reload->why, sizeof(reload->why), 0 };

	reload->why[0] = '\0';
	log_findings(&reading->errors, &reading->errors.errors, "error");
	log_findings(&reading->errors, &reading->errors.warnings, "warning");
	excuse_findings(&excuse, &reading->errors);
	if (!reading->config)
		return false;
	if (reading->why) {
		excuse_add(&excuse, "%s: %s", reading->path, reading->why);
		return false;
	}
	config_compare(host->current(host->impl), reading->config, note_fixed, &excuse);
	if (excuse.len > 0) {
		excuse_add(&excuse, ": changed, which takes a restart");
		return false;
	}
	const char *why = host->take(host->impl, reading->config, ret_counts);
	if (why) {
		excuse_add(&excuse, "%s", why);
		return false;
	}
	reading->config = NULL;
	return true;
}

/* Once; `result` has all but who asks. */
static void tell(struct list *askers, const struct server_reload *result)
{
	struct list_node *node;

	while ((node = list_pop_front(askers))) {
		struct server_reload *asker = container_of(node, struct server_reload, node);
		asker->why = result->why;
		asker->status = result->status;
#define X(name) asker->name = result->name;
		SERVER_RELOAD_MAP(X)
#undef X
		asker->done(asker);
	}
}

static void begin(struct reload *reload);

static void end(struct reload *reload, const struct server_reload *result)
{
	uv_timer_stop(&reload->patience);
	aside_free(reload->reading);
	reload->reading = NULL;
	if (result->why)
		log_error("config.refused", LOG_TEXT("why", result->why),
			  LOG_TEXT("then", "the configuration in force stays"));
	reload->host.ended(reload->host.impl, result->why);
	tell(&reload->asking, result);
	if (!reload->closing && (reload->again || !list_empty(&reload->waiting)))
		begin(reload);
}

static void on_told(uv_async_t *async)
{
	struct reload *reload = async->data;
	struct reading *reading = reload->reading ? aside_result(reload->reading) : NULL;
	struct server_reload result = { .status = STATUS_BAD_REQUEST };

	if (!reading)
		return;
	if (!take(reload, reading, &result))
		result.why = reload->why;
	end(reload, &result);
}

static void refuse(struct reload *reload, const char *why)
{
	snprintf(reload->why, sizeof(reload->why), "%s", why);
	end(reload, &(struct server_reload){ .status = STATUS_UNAVAILABLE, .why = reload->why });
}

static void on_patience(uv_timer_t *timer)
{
	struct reload *reload = timer->data;

	refuse(reload, reload->reading ? "the configuration file could not be read in 10 s"
				       : "there is no thread to read the configuration file in");
}

static void begin(struct reload *reload)
{
	const struct config *current = reload->host.current(reload->host.impl);
	struct list_node *node;

	reload->again = false;
	while ((node = list_pop_front(&reload->waiting)))
		list_push_back(&reload->asking, node);
	reload->host.begins(reload->host.impl);
	reload->reading = reading_start(current->path, reload->host.check, &reload->told);
	/* Without a thread that is told on the loop's next turn, as everything is. */
	uv_timer_start(&reload->patience, on_patience, reload->reading ? READ_MS : 0, 0);
}

void reload_ask(struct reload *reload, struct server_reload *asker)
{
	if (asker)
		list_push_back(&reload->waiting, &asker->node);
	else
		reload->again = true;
	if (!reload->closing && !uv_is_active((uv_handle_t *)&reload->patience))
		begin(reload);
}

/* ---- life ---------------------------------------------------------------------------------- */

void reload_init(struct reload *reload, uv_loop_t *loop, const struct reload_host *host)
{
	*reload = (struct reload){ .host = *host };
	list_init(&reload->asking);
	list_init(&reload->waiting);
	CHECK(uv_async_init(loop, &reload->told, on_told) == 0);
	CHECK(uv_timer_init(loop, &reload->patience) == 0);
	reload->told.data = reload->patience.data = reload;
	uv_unref((uv_handle_t *)&reload->told);
	uv_unref((uv_handle_t *)&reload->patience);
}

void reload_close(struct reload *reload)
{
	const struct server_reload result = { .status = STATUS_UNAVAILABLE,
					      .why = "the daemon is stopping" };

	CHECK(!reload->closing);
	reload->closing = true;
	aside_free(reload->reading);
	reload->reading = NULL;
	tell(&reload->asking, &result);
	tell(&reload->waiting, &result);
	uv_close((uv_handle_t *)&reload->told, NULL);
	uv_close((uv_handle_t *)&reload->patience, NULL);
}
