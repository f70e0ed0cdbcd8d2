#include "ops/warmup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "ops/service.h"
#include "proto/key.h"
#include "store/jobs.h"

enum {
	GATE_MS = 500, /* between two looks at the plan that it waits for */
	PARTS = 2,     /* the warmer, the spooler */
};

/* ---- the warmer's host -------------------------------------------------------------------- */

static int64_t host_now_us(void *impl)
{
	return stores_now_us(((struct warmup *)impl)->options.stores);
}

static void on_timer(uv_timer_t *timer)
{
	warmer_turn(&((struct warmup *)timer->data)->warmer);
}

static void host_wake_at(void *impl, int64_t at_us)
{
	struct warmup *warmup = impl;
	if (at_us == INT64_MAX) {
		uv_timer_stop(&warmup->timer);
		return;
	}
	int64_t in_us = at_us - host_now_us(warmup);
	uint64_t in_ms = in_us > 0 ? (uint64_t)(in_us + 999) / 1000 : 0;
	if (in_ms > 0)
		uv_update_time(warmup->options.loop);
	uv_timer_start(&warmup->timer, on_timer, in_ms, 0);
}

static void part_is_over(struct warmup *warmup);

static void host_stopped(void *impl)
{
	part_is_over(impl);
}

static void on_spooler_closed(void *arg)
{
	part_is_over(arg);
}

/* ---- what clients ask --------------------------------------------------------------------- */

static void tell(struct server_warm *warm, enum status status, const char *why)
{
	struct warmup *warmup = warm->work;
	warm->status = status;
	warm->why = why;
	warmup->asks--;
	warm->done(warm);
	part_is_over(warmup);
}

static void on_opened(struct server_warm *warm)
{
	struct warmup *warmup = warm->work;
	const struct job_call *call = &warm->call;
	warm->joined = call->joined;
	snprintf(warm->name, sizeof(warm->name), "%s", call->name);
	log_info("warm.begin", LOG_TEXT("job", call->name), LOG_INT("joined", call->joined));
	bool feeds = !call->joined && !warmup->ending;
	if (feeds && spooler_begin(&warmup->spooler, call, warm->keys, warm->keys_len,
				   warm->keys_count) != 0) {
		tell(warm, STATUS_OVERLOADED, "there is no memory for its keys");
		return;
	}
	warmer_hurry(&warmup->warmer);
	tell(warm, STATUS_OK, NULL);
}

static void on_answered(struct job_call *call)
{
	struct server_warm *warm = container_of(call, struct server_warm, call);
	switch (call->outcome) {
	case JOB_OK:
		break;
	case JOB_GONE:
		if (call->verb == JOB_LOOK &&
		    spooler_knows(&((struct warmup *)warm->work)->spooler, call->name)) {
			tell(warm, STATUS_UNAVAILABLE,
			     "the shared store has lost the warm-up, which begins anew");
			return;
		}
		tell(warm, STATUS_BAD_REQUEST,
		     call->verb == JOB_END ? "no such job runs" : "there is no such job");
		return;
	case JOB_FULL:
		tell(warm, STATUS_OVERLOADED, "too many warm-ups run already");
		return;
	case JOB_HELD:
	case JOB_LOST:
	case JOB_AWAY:
		tell(warm, STATUS_UNAVAILABLE, "the shared store did not answer");
		return;
	}
	if (call->verb == JOB_OPEN) {
		on_opened(warm);
		return;
	}
	warm->job = call->job;
	warm->failures = call->data;
	warm->failures_len = call->data_len;
	if (call->verb == JOB_END)
		log_info("warm.cancelled", LOG_TEXT("job", call->name));
	tell(warm, STATUS_OK, NULL);
}

static const struct warm_policy *plan_of(const struct warmup *warmup, const char *name)
{
	const struct config *config = *warmup->options.config;
	for (size_t i = 0; i < config->warm_count; i++)
		if (strcmp(config->warm[i].name, name) == 0)
			return &config->warm[i];
	return NULL;
}

/* FNV-1a (Fowler, Noll, Vo): who asks for the same keys meanwhile joins. */
static uint64_t digest_of(const char *bytes, uint32_t len)
{
	uint64_t digest = 0xcbf29ce484222325u;
	for (uint32_t i = 0; i < len; i++)
		digest = (digest ^ (unsigned char)bytes[i]) * 0x100000001b3u;
	return digest;
}

/* NULL, or what is wrong. */
static const char *compose_start(struct warmup *warmup, struct server_warm *warm)
{
	struct job_call *call = &warm->call;
	double rate = warm->rate_per_s;
	call->verb = JOB_OPEN;
	call->id = warmup->options.token + ++warmup->serial;
	if (warm->what == WARM_START_KEYS) {
		snprintf(call->name, sizeof(call->name), "keys-%016" PRIx64,
			 digest_of(warm->keys, warm->keys_len));
		spooler_spec(SPOOLER_KEYS, WARMER_RETRIES_USUAL, NULL, call->spec);
	} else if (warm->what == WARM_START_HOT) {
		snprintf(call->name, sizeof(call->name), "hot:%.64s", warm->name);
		spooler_spec(SPOOLER_HOT, WARMER_RETRIES_USUAL, warm->name, call->spec);
	} else {
		const struct warm_policy *plan = plan_of(warmup, warm->name);
		if (!plan)
			return "there is no such plan";
		snprintf(call->name, sizeof(call->name), "%s", plan->name);
		spooler_spec(plan->keyspace ? SPOOLER_HOT : SPOOLER_PLAN, (uint32_t)plan->retries,
			     plan->keyspace, call->spec);
		rate = rate > 0 ? rate : plan->rate_per_s;
	}
	call->interval_us = rate > 0 ? (int64_t)(1e6 / rate) : 0;
	return NULL;
}

static void on_refused(struct job_call *call)
{
	tell(container_of(call, struct server_warm, call), STATUS_BAD_REQUEST, call->why);
}

void warmup_ask(struct warmup *warmup, struct server_warm *warm)
{
	struct job_call *call = &warm->call;
	const char *why = NULL;
	*call = (struct job_call){ .done = on_answered };
	warm->work = warmup;
	warmup->asks++;
	switch (warm->what) {
	case WARM_START_PLAN:
	case WARM_START_KEYS:
	case WARM_START_HOT:
		why = compose_start(warmup, warm);
		break;
	case WARM_STATUS:
		call->verb = JOB_LOOK;
		memcpy(call->name, warm->name, sizeof(call->name));
		break;
	case WARM_CANCEL:
		call->verb = JOB_END;
		call->end = JOB_CANCELLED;
		memcpy(call->name, warm->name, sizeof(call->name));
		break;
	}
	if (why) {
		/* Looked up for nothing, so that the answer comes later all the same. */
		call->verb = JOB_LIST;
		call->done = on_refused;
		snprintf(call->why, sizeof(call->why), "%s", why);
	}
	warmup->jobs.submit(warmup->jobs.impl, call);
}

bool warmup_job(const struct warmup *warmup, uint32_t n, struct server_job *ret_job)
{
	if (!warmup->open)
		return false;
	list_foreach (&warmup->warmer.jobs, node) {
		const struct warmer_job *job = container_of(node, struct warmer_job, node);
		if (!job->known || job->over || n-- > 0)
			continue;
		*ret_job = (struct server_job){ .name = job->name, .job = &job->job };
		return true;
	}
	return false;
}

void warmup_put_stats(const struct warmup *warmup, struct stat_sink *sink)
{
	if (!warmup->open)
		return;
	sink->put(sink, "warm_jobs", (int64_t)warmup->warmer.jobs.count);
	sink->put(sink, "warm_under_way", warmup->warmer.statements);
#define X(name, text) sink->put(sink, "warm_" #name, (int64_t)warmup->warmer.counters.name);
	WARMER_COUNTER_MAP(X)
#undef X
}

/* ---- ready -------------------------------------------------------------------------------- */

static void open_gate(struct warmup *warmup, const char *why)
{
	log_info("warm.ready", LOG_TEXT("why", why));
	uv_timer_stop(&warmup->gate);
	warmup->is_ready = true;
	warmup->options.ready(warmup->options.arg);
}

static void on_gate_told(struct server_warm *warm)
{
	struct warmup *warmup = container_of(warm, struct warmup, gate_ask);
	warmup->gate_asking = false;
	if (warmup->is_ready || warmup->ending)
		return;
	/* Asked in vain it is asked again: until its time is up. */
	if (warm->status != STATUS_OK)
		return;
	if (warm->what == WARM_START_PLAN)
		warm->what = WARM_STATUS;
	else if (warm->job.state != JOB_RUNNING)
		open_gate(warmup,
			  warm->job.state == JOB_DONE ? "the plan is done" : "the plan has ended");
}

static void on_gate(uv_timer_t *timer)
{
	struct warmup *warmup = timer->data;
	if (uv_now(warmup->options.loop) >= warmup->gate_until_ms) {
		open_gate(warmup, "its time is up");
		return;
	}
	service_is_starting("warming up", 2 * GATE_MS + 10000);
	if (warmup->gate_asking)
		return;
	warmup->gate_asking = true;
	warmup_ask(warmup, &warmup->gate_ask);
}

static void open_ready(struct warmup *warmup)
{
	const struct ready_policy *ready = &(*warmup->options.config)->ready;
	warmup->is_ready = !ready->plan;
	if (warmup->is_ready)
		return;
	warmup->gate_until_ms = uv_now(warmup->options.loop) + (uint64_t)(ready->timeout_us / 1000);
	warmup->gate_ask = (struct server_warm){ .what = WARM_START_PLAN, .done = on_gate_told };
	snprintf(warmup->gate_ask.name, sizeof(warmup->gate_ask.name), "%s", ready->plan);
	CHECK(uv_timer_start(&warmup->gate, on_gate, 0, GATE_MS) == 0);
}

/* ---- keys --------------------------------------------------------------------------------- */

static bool read_key(char *bytes, uint32_t *len, uint32_t *ret_keyspace_len, const char **ret_why)
{
	static char scratch[KEY_TEXT_MAX];
	static struct wire_error error;
	struct wire_key key;
	if (key_parse(bytes, *len, scratch, &key, &error) != STATUS_OK) {
		*ret_why = error.text;
		return false;
	}
	/* Whoever spools makes it canonical. */
	*ret_why = "it is not in canonical form";
	if (key.len > *len)
		return false;
	memmove(bytes, key.text, key.len);
	*len = (uint32_t)key.len;
	*ret_keyspace_len = (uint32_t)key.keyspace_len;
	return true;
}

/* ---- life --------------------------------------------------------------------------------- */

static int64_t own_now_us(void *arg)
{
	return host_now_us(arg);
}

static void open_jobs(struct warmup *warmup)
{
	struct redis_store *redis = warmup->options.stores->redis;
	warmup->has_own = !redis;
	if (redis) {
		warmup->jobs = redis_store_jobs(redis);
		return;
	}
	warmup->own.now_us = own_now_us;
	warmup->own.arg = warmup;
	own_jobs_open(&warmup->own, warmup->options.loop);
	warmup->jobs = own_jobs_iface(&warmup->own);
}

void warmup_open(struct warmup *warmup, const struct warmup_options *options)
{
	const struct origin_policy *origin = &(*options->config)->origin;
	*warmup = (struct warmup){ .options = *options, .open = true, .parts = PARTS };
	CHECK(uv_timer_init(options->loop, &warmup->timer) == 0);
	CHECK(uv_timer_init(options->loop, &warmup->gate) == 0);
	warmup->timer.data = warmup->gate.data = warmup;
	open_jobs(warmup);
	warmer_init(&warmup->warmer,
		    &(struct warmer_options){
			    .pump = options->pump,
			    .read_key = read_key,
			    .jobs = warmup->jobs,
			    .host = { warmup, host_now_us, host_wake_at, host_stopped },
			    .concurrency = (uint32_t)origin->concurrency,
			    .fleet = (uint32_t)origin->fleet,
			    .alone = warmup->has_own,
			    .token = options->token });
	spooler_open(&warmup->spooler, options->loop,
		     &(struct spooler_options){ .config = options->config,
						.jobs = warmup->jobs,
						.warmer = &warmup->warmer,
						.token = options->token });
	warmer_turn(&warmup->warmer);
	open_ready(warmup);
}

/* The last one out: nothing is asked of the stores any more. */
static void part_is_over(struct warmup *warmup)
{
	if (!warmup->ending)
		return;
	if (warmup->warmer.stopped && warmup->parts == PARTS)
		warmup->parts--;
	if (warmup->spooler.handles == 0 && warmup->parts == PARTS - 1 && warmup->warmer.stopped)
		warmup->parts--;
	if (warmup->parts > 0 || warmup->asks > 0 || !warmup->open)
		return;
	warmup->open = false;
	if (warmup->has_own)
		own_jobs_close(&warmup->own);
	uv_close((uv_handle_t *)&warmup->timer, NULL);
	uv_close((uv_handle_t *)&warmup->gate, NULL);
	warmup->options.over(warmup->options.arg);
}

void warmup_end(struct warmup *warmup)
{
	if (!warmup->open || warmup->ending)
		return;
	warmup->ending = true;
	uv_timer_stop(&warmup->gate);
	/* First: it is not to take what the warmer gives up for over. */
	spooler_close(&warmup->spooler, on_spooler_closed, warmup);
	warmer_stop(&warmup->warmer);
}
