#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "ops/spooler_state.h"

enum {
	RIGHT_US = 3 * 1000 * 1000, /* to feed; lengthened each … */
	KEEP_MS = 1000,             /* … */
	TRY_MS = 1000,              /* for the right that another has; with jitter of a half */
	FULL_MS = 50,
	AHEAD_LEAST = 16,
};

static void submit(struct spooling *spooling);
static void open_again(struct spooling *spooling);

static void end_job(struct spooling *spooling, const char *why)
{
	struct job_call *call = &spooling->call;
	log_error("warm.failed", LOG_TEXT("job", spooling->name), LOG_TEXT("why", why));
	*call = (struct job_call){ .verb = JOB_END, .id = spooling->id, .end = JOB_FAILED };
	snprintf(call->why, sizeof(call->why), "%s", why);
	spooling->over = true;
	submit(spooling);
}

static void start_spool(struct spooling *spooling)
{
	struct spooler *spooler = spooling->spooler;
	const struct config *config = *spooler->options.config;
	const struct warm_policy *plan = spooler_plan(spooler, spooling->name);
	char path[SPOOL_PATH_MAX];
	spooling->spool_id = ++spooler->serial ^ spooler->options.token;
	spooling->fed = 0;
	if (!plan || !spooling_path(spooling, spooling->spool_id, path)) {
		end_job(spooling, "its plan is not configured any more");
		return;
	}
	const struct spool_source source = { .dsn = config->origin.dsn,
					     .query = plan->query,
					     .timeout_us = plan->timeout_us,
					     .file = plan->file };
	spooling->spool = spool_start(&source, path, &spooler->told);
	if (spooling->spool)
		log_info("warm.spool", LOG_TEXT("job", spooling->name));
	else
		spooling->due_ms = uv_now(spooler->loop) + TRY_MS;
}

void spooling_take_spool(struct spooling *spooling)
{
	const char *error;
	int64_t keys;
	if (!spooling->spool || spooling->calling || !spool_is_done(spooling->spool, &keys, &error))
		return;
	if (error[0]) {
		char why[SPOOL_ERROR_MAX];
		snprintf(why, sizeof(why), "%s", error);
		spooling_drop_spool(spooling);
		end_job(spooling, why);
		return;
	}
	spooling_drop_spool(spooling);
	if (!spooling_open_file(spooling)) {
		end_job(spooling, "its file of keys is gone");
		return;
	}
	spooling->keys_total = keys;
	spooling->due_ms = 0;
	log_info("warm.spooled", LOG_TEXT("job", spooling->name), LOG_INT("keys", keys),
		 LOG_INT("bytes", spooling->size));
}

/* ---- feeding ----------------------------------------------------------------------------- */

/* Reads what comes next in the spool; of a local file, that was written lately. */
static ssize_t read_part(struct spooling *spooling, char *to, size_t size)
{
	if (!spooling->keys)
		return pread(spooling->fd, to, size, spooling->fed);
	size_t left = spooling->keys_len - (size_t)spooling->fed;
	size_t len = left < size ? left : size;
	memcpy(to, spooling->keys + spooling->fed, len);
	return (ssize_t)len;
}

/* Puts the next chunk into the call. False: the spool can't be read. */
static bool cut_chunk(struct spooling *spooling)
{
	/* A whole key fits, whatever its length. */
	enum { ROOM = 2 * CHUNK_BYTES_MAX };
	struct job_call *call = &spooling->call;
	const char *text;
	uint32_t len;
	size_t step;
	int64_t size = spooling->keys ? spooling->keys_len : spooling->size;
	if (!spooling->chunk)
		spooling->chunk = mem_alloc(ROOM);
	ssize_t got = spooling->chunk ? read_part(spooling, spooling->chunk, ROOM) : -1;
	if (got < 0)
		return false;
	while (call->keys < CHUNK_KEYS_MAX &&
	       (step = chunk_next(spooling->chunk + call->len, (size_t)got - call->len, &text,
				  &len)) > 0) {
		if (call->keys > 0 && call->len + step > CHUNK_BYTES_MAX)
			break;
		call->len += (uint32_t)step;
		call->keys++;
	}
	if (call->keys == 0 && spooling->fed < size)
		return false;
	call->bytes = spooling->chunk;
	call->to = call->from + call->len;
	call->last = call->to >= size;
	return true;
}

static uint32_t ahead_max(const struct spooler *spooler)
{
	uint32_t fleet = (uint32_t)(*spooler->options.config)->origin.fleet;
	uint32_t ahead = 2 * fleet > AHEAD_LEAST ? 2 * fleet : AHEAD_LEAST;
	return ahead < JOB_AHEAD_MAX ? ahead : JOB_AHEAD_MAX;
}

void spooling_feed(struct spooling *spooling)
{
	struct job_call *call = &spooling->call;
	bool has_spool = spooling->keys || spooling->fd >= 0;
	if (spooling->lost && spooling->ours) {
		open_again(spooling);
		return;
	}
	*call = (struct job_call){ .verb = JOB_FEED,
				   .id = spooling->id,
				   .token = spooling->spooler->options.token,
				   .length_us = RIGHT_US,
				   .spool = spooling->spool_id,
				   .from = spooling->fed,
				   .to = spooling->fed,
				   .total = spooling->keys ? spooling->keys_count
					    : has_spool && spooling->keys_total > 0
						    ? spooling->keys_total
						    : -1,
				   .ahead_max = ahead_max(spooling->spooler) };
	if (spooling->keys)
		call->ahead_max = JOB_AHEAD_MAX; /* that they are fed soon */
	if (spooling->ours && has_spool && !spooling->all && !cut_chunk(spooling))
		end_job(spooling, "its file of keys can't be read");
	else
		submit(spooling);
}

/* The keyspace's, of those that this daemon counts. */
static void take_hot_keys(struct spooling *spooling, const char *keyspace)
{
	struct spooler *spooler = spooling->spooler;
	struct engine *engine = spooler->options.warmer->options.pump->engine;
	struct hotlist *hot = &engine->hotlist;
	const size_t name_len = strlen(keyspace),
		     room = hot->used * (CHUNK_HEAD + HOT_KEY_BYTES) + 1;
	struct hot_rank *ranks = mem_alloc((hot->used + 1) * sizeof(*ranks));
	spooling->keys = mem_alloc(room);
	if (!ranks || !spooling->keys) {
		mem_free(ranks);
		end_job(spooling, "there is no memory for its keys");
		return;
	}
	uint32_t count = hotlist_top(hot, pump_now_us(spooler->options.warmer->options.pump), ranks,
				     hot->used);
	for (uint32_t i = 0; i < count; i++) {
		const struct hot_rank *rank = &ranks[i];
		if (rank->len < name_len || memcmp(rank->bytes, keyspace, name_len) != 0 ||
		    (rank->len > name_len && rank->bytes[name_len] != ':'))
			continue;
		spooling->keys_len += (uint32_t)chunk_put(spooling->keys + spooling->keys_len,
							  room - spooling->keys_len, rank->bytes,
							  (uint32_t)rank->len);
		spooling->keys_count++;
	}
	mem_free(ranks);
	spooling->spool_id = ++spooler->serial ^ spooler->options.token;
}

/* The one that was fed last, if this daemon has it from before; else another. */
static void find_spool(struct spooling *spooling)
{
	spooling->spool_id = spooling->call.of;
	if (spooling->call.fed > 0 && spooling_open_file(spooling))
		spooling->fed = spooling->call.fed;
	else
		start_spool(spooling);
}

/* What is ours to feed, and where it was left. */
static void take_right(struct spooling *spooling)
{
	const char *spec = spooling->spec;
	spooling->ours = true;
	if (spooling->all || spooling->keys || spooling->spool || spooling->fd >= 0)
		return;
	if (spooling_is_of(spec, "hot"))
		take_hot_keys(spooling, strrchr(spec, ' ') + 1);
	else if (spooling_is_of(spec, "keys"))
		end_job(spooling, "the daemon that was asked is gone, and with it the keys");
	else
		find_spool(spooling);
}

/* It is ours: to feed, or, where all is fed, to watch over until it has ended. */
static void take_turn(struct spooling *spooling, const struct job_call *call)
{
	uint64_t now_ms = uv_now(spooling->spooler->loop);
	spooling->lost = false;
	if (call->len > 0 || call->last) {
		/* Not where we believed it to be: all anew. */
		bool good = call->fed == call->to && call->of == call->spool;
		spooling->fed = good ? call->fed : 0;
		spooling->all = call->last && good;
		spooling->due_ms = spooling->all ? now_ms + KEEP_MS : 0;
		return;
	}
	spooling->all = call->job.all;
	spooling->due_ms = now_ms + KEEP_MS;
	take_right(spooling);
	if (!spooling->all && (spooling->keys || spooling->fd >= 0))
		spooling->due_ms = 0;
}

/* The store was emptied. Who fed it opens it again; others give it time to, and then take its
   place. */
static void lose(struct spooling *spooling)
{
	uint64_t now_ms = uv_now(spooling->spooler->loop);
	bool again = spooling->lost || spooling->ours;
	if (spooling_is_of(spooling->spec, "keys") && !spooling->keys) {
		spooling->over = true; /* nobody here knows them */
		return;
	}
	spooling->lost = true;
	spooling->ours |= again;
	spooling->all = false;
	spooling->fed = 0;
	spooling->due_ms = again ? 0 : now_ms + RIGHT_US / 1000 + spooling->id % TRY_MS;
}

static void open_again(struct spooling *spooling)
{
	struct job_call *call = &spooling->call;
	log_warning("warm.anew", LOG_TEXT("job", spooling->name));
	*call = (struct job_call){ .verb = JOB_OPEN,
				   .id = spooling->id,
				   .interval_us = spooling->interval_us };
	memcpy(call->spec, spooling->spec, sizeof(call->spec));
	submit(spooling);
}

static void take_opened(struct spooling *spooling, const struct job_call *call)
{
	bool good = call->outcome == JOB_OK;
	spooling->lost = !good;
	spooling->over = good && call->job.id != spooling->id;
	spooling->due_ms = good ? 0 : uv_now(spooling->spooler->loop) + TRY_MS;
}

static void take_answer(struct spooling *spooling, const struct job_call *call)
{
	uint64_t now_ms = uv_now(spooling->spooler->loop);
	switch (call->outcome) {
	case JOB_OK:
		take_turn(spooling, call);
		return;
	case JOB_FULL:
		spooling->due_ms = now_ms + FULL_MS;
		return;
	case JOB_HELD:
		/* Whoever has it may be gone the next moment. */
		spooling->ours = spooling->lost = false;
		spooling_drop_spool(spooling);
		spooling_drop_file(spooling);
		spooling->due_ms = now_ms + TRY_MS / 2 + spooling->id % TRY_MS;
		return;
	case JOB_GONE:
		spooling->over = true;
		return;
	case JOB_LOST:
		lose(spooling);
		return;
	case JOB_AWAY:
		spooling->due_ms = now_ms + TRY_MS;
		return;
	}
}

static void on_called(struct job_call *call)
{
	struct spooling *spooling = container_of(call, struct spooling, call);
	spooling->calling = false;
	if (call->verb == JOB_FEED)
		take_answer(spooling, call);
	else if (call->verb == JOB_OPEN)
		take_opened(spooling, call);
	if (!spooling->calling && !spooling->over && spooling->due_ms == 0 &&
	    !spooling->spooler->closing)
		spooling_feed(spooling);
}

static void submit(struct spooling *spooling)
{
	struct job_call *call = &spooling->call;
	CHECK(!spooling->calling);
	memcpy(call->name, spooling->name, sizeof(call->name));
	call->done = on_called;
	spooling->calling = true;
	spooling->spooler->options.jobs.submit(spooling->spooler->options.jobs.impl, call);
}
