#include "ops/hot_keys.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/key.h"

enum {
	FETCH_MS = 5, /* between two looks at how many are under way */
	TRUST_MS = 3000,
	AWAY_MS = 1000,     /* between two tries, where the store is away */
	WRITES_MAX = 2,     /* threads that write, hanging ones included */
	BUILD_LEAST_MS = 1, /* between two builds */
};

/* ---- writing ------------------------------------------------------------------------------- */

struct write_job {
	struct hot_file file;
	char *path; /* owned */
	int error;
};

static void write_run(void *arg)
{
	struct write_job *job = arg;
	job->error = hot_file_write(&job->file, job->path, ".new");
}

static void write_drop(void *arg)
{
	struct write_job *job = arg;
	hot_file_close(&job->file);
	free(job->path);
	mem_free(job);
}

static bool is_young(const struct hot_keys *hot)
{
	return (int64_t)uv_now(hot->timer.loop) - hot->begun_ms < HOT_KEPT_MS;
}

/* False: the text is no key of a keyspace that is served. */
static bool read_key(const struct hot_keys *hot, const char *text, size_t len, struct key *ret_key)
{
	static char scratch[KEY_TEXT_MAX];
	const struct engine *engine = hot->pump->engine;
	struct wire_key read;
	struct wire_error error;
	if (key_parse(text, len, scratch, &read, &error) != STATUS_OK || read.text != text)
		return false;
	struct keyspace *keyspace = engine_keyspace(engine, text, read.keyspace_len);
	if (keyspace)
		engine_key(engine, keyspace, text, len, ret_key);
	return keyspace != NULL;
}

/* Whether it has a value here. What a flood of made-up keys asks for is hot, too, and worth no
   build after a restart. */
static bool has_value(const struct hot_keys *hot, const struct hot_rank *rank)
{
	struct key key;
	const struct near_entry *ne = read_key(hot, rank->bytes, rank->len, &key)
					      ? near_find(&hot->pump->engine->near, &key)
					      : NULL;
	return ne && !ne->entry.absent;
}

/* What is hot, and behind it what was. False when memory is missing. */
static bool compose(struct hot_keys *hot, struct hot_file *ret_file)
{
	struct engine *engine = hot->pump->engine;
	struct hot_rank *ranks = mem_alloc((hot->keys_max + 1) * sizeof(*ranks));
	if (!ranks || !hot_file_begin(ret_file, hot->keys_max)) {
		mem_free(ranks);
		return false;
	}
	uint32_t count =
		hotlist_top(&engine->hotlist, pump_now_us(hot->pump), ranks, hot->keys_max);
	for (uint32_t i = 0; i < count; i++)
		if (has_value(hot, &ranks[i]))
			hot_file_add(ret_file, ranks[i].bytes, ranks[i].len);
	size_t at = 0, len;
	const char *key;
	while (is_young(hot) && ret_file->count < hot->keys_max &&
	       (key = hot_file_next(&hot->list, &at, &len)))
		if (!hotlist_has(&engine->hotlist, engine_hash(engine, key, len), key, len))
			hot_file_add(ret_file, key, len);
	hot_file_seal(ret_file);
	mem_free(ranks);
	return true;
}

static void note_written(struct hot_keys *hot, int error)
{
	hot->writes += error == 0;
	hot->write_errors += error != 0;
	if (error)
		log_warning("hot.write", LOG_TEXT("path", hot->path),
			    LOG_TEXT("error", strerror(-error)));
}

static void on_written(uv_async_t *async)
{
	struct hot_keys *hot = async->data;
	const struct write_job *job = hot->writing ? aside_result(hot->writing) : NULL;
	if (!job)
		return;
	note_written(hot, job->error);
	aside_free(hot->writing);
	hot->writing = NULL;
}

static void on_write_timer(uv_timer_t *timer);

static void write_in(struct hot_keys *hot, uint64_t ms)
{
	hot->write_ms = ms < HOT_WRITE_MOST_MS ? ms : HOT_WRITE_MOST_MS;
	uv_timer_start(&hot->write_timer, on_write_timer, hot->write_ms, 0);
}

static void on_write_timer(uv_timer_t *timer)
{
	static struct aside_quota quota = { .max = WRITES_MAX };
	static const struct aside_call call = { write_run, write_drop, &quota };
	struct hot_keys *hot = timer->data;
	struct write_job *job = hot->writing ? NULL : mem_zalloc(sizeof(*job));
	write_in(hot, 2 * hot->write_ms);
	if (!job)
		return; /* the disk is slow: the next time */
	job->path = strdup(hot->path);
	if (!job->path || !compose(hot, &job->file)) {
		write_drop(job);
		note_written(hot, -ENOMEM);
		return;
	}
	hot->writing = aside_start(&call, job, &hot->written);
	if (!hot->writing)
		note_written(hot, -EAGAIN);
}

/* ---- bringing them back -------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer);

static void go_on_in(struct hot_keys *hot, uint64_t ms)
{
	if (!hot->stopping)
		uv_timer_start(&hot->timer, on_timer, ms, 0);
}

static bool is_here(const struct hot_keys *hot, const struct key *key, int64_t now_us)
{
	const struct near_entry *ne = engine_near(hot->pump->engine, key);
	return ne && entry_phase(&ne->entry, now_us) == ENTRY_FRESH;
}

/* The next key that is not near and fresh. */
static bool next_key(struct hot_keys *hot, struct key *ret_key)
{
	int64_t now_us = pump_now_us(hot->pump);
	const char *text;
	size_t len;
	while ((text = hot_file_next(&hot->list, &hot->at, &len)))
		if (read_key(hot, text, len, ret_key) && !is_here(hot, ret_key, now_us))
			return true;
	return false;
}

/* How many keys are near and fresh. */
static uint32_t count_here(const struct hot_keys *hot)
{
	int64_t now_us = pump_now_us(hot->pump);
	uint32_t count = 0;
	size_t at = 0, len;
	const char *text;
	struct key key;
	while ((text = hot_file_next(&hot->list, &at, &len)))
		count += read_key(hot, text, len, &key) && is_here(hot, &key, now_us);
	return count;
}

static void finish(struct hot_keys *hot)
{
	hot->phase = HOT_DONE;
	log_info("hot.done", LOG_UINT("keys", hot->listed), LOG_UINT("found", hot->found),
		 LOG_UINT("built", hot->built), LOG_UINT("failed", hot->failed));
}

static bool is_late(const struct hot_keys *hot)
{
	return (int64_t)uv_now(hot->timer.loop) - hot->begun_ms > HOT_FOR_MS;
}

/* What comes before the store's first sign of life has to be looked up once more: that is waited
   for, though not for long. */
static bool is_too_early(const struct hot_keys *hot)
{
	return !hot->pump->engine->trusted &&
	       (int64_t)uv_now(hot->timer.loop) - hot->begun_ms < TRUST_MS;
}

static void fetch(struct hot_keys *hot)
{
	struct engine *engine = hot->pump->engine;
	struct key key;
	bool more = true;
	if (is_too_early(hot)) {
		go_on_in(hot, FETCH_MS);
		return;
	}
	while (engine->fetching < HOT_FETCHES && (more = next_key(hot, &key)))
		pump_fetch(hot->pump, &key);
	if (more || engine->fetching > 0) {
		go_on_in(hot, FETCH_MS);
		return;
	}
	hot->at = 0;
	hot->found = count_here(hot);
	if (engine->away && !is_late(hot)) {
		go_on_in(hot, AWAY_MS);
		return;
	}
	log_info("hot.fetched", LOG_UINT("keys", hot->listed), LOG_UINT("found", hot->found));
	hot->phase = HOT_BUILDING;
	go_on_in(hot, 0);
}

static uint64_t interval_ms(const struct hot_keys *hot)
{
	double ms = 1000 / hot->refresh_per_s;
	return ms > BUILD_LEAST_MS ? (uint64_t)ms : BUILD_LEAST_MS;
}

static void on_warmed(struct warming *warming)
{
	struct hot_keys *hot = container_of(warming, struct hot_keys, warming);
	struct warming_key *key = &warming->keys[0];
	uint64_t pause_ms = interval_ms(hot);
	hot->is_warming = false;
	if (warming->later) {
		/* Not its turn yet: the same key once more. */
		hot->at -= 2 + key->key.len;
		pause_ms = (uint64_t)warming->retry_us / 1000 + 1;
	} else {
		hot->built += key->result == WARM_BUILT;
		hot->failed += key->result == WARM_FAILED;
		hot->missed |= key->result == WARM_AGAIN || key->result == WARM_APART;
		if (key->result == WARM_FAILED)
			value_unref(key->failure.text);
	}
	go_on_in(hot, pause_ms);
}

static void build(struct hot_keys *hot)
{
	struct key key;
	if (hot->is_warming)
		return;
	if (is_late(hot)) {
		finish(hot);
		return;
	}
	if (next_key(hot, &key)) {
		hot->is_warming = true;
		hot->warming.keys[0] = (struct warming_key){ .key = key };
		hot->warming.count = 1;
		hot->warming.done = on_warmed;
		pump_warm(hot->pump, &hot->warming);
		return;
	}
	if (!hot->missed) {
		finish(hot);
		return;
	}
	/* Another was at it, or had the lock: it may be in the store by now. */
	hot->missed = false;
	hot->at = 0;
	hot->phase = HOT_FETCHING;
	go_on_in(hot, AWAY_MS);
}

static void on_timer(uv_timer_t *timer)
{
	struct hot_keys *hot = timer->data;
	if (hot->phase == HOT_FETCHING)
		fetch(hot);
	else if (hot->phase == HOT_BUILDING)
		build(hot);
}

/* ---- life ---------------------------------------------------------------------------------- */

void hot_keys_init(struct hot_keys *hot, uv_loop_t *loop, const struct config *config)
{
	char path[PATH_MAX];
	*hot = (struct hot_keys){ .keys_max = (uint32_t)config->near.hot,
				  .refresh_per_s = config->near.hot_refresh_per_s };
	if (config->state_dir && hot->keys_max > 0 &&
	    snprintf(path, sizeof(path), "%s/hot", config->state_dir) < (int)sizeof(path))
		hot->path = strdup(path);
	uv_timer_init(loop, &hot->timer);
	uv_timer_init(loop, &hot->write_timer);
	CHECK(uv_async_init(loop, &hot->written, on_written) == 0);
	hot->timer.data = hot->write_timer.data = hot->written.data = hot;
}

void hot_keys_open(struct hot_keys *hot, struct pump *pump)
{
	hot->pump = pump;
	hot->begun_ms = (int64_t)uv_now(hot->timer.loop);
	if (!hot->path)
		return;
	const char *why = hot_file_read(hot->path, &hot->list);
	if (why)
		log_warning("hot.file", LOG_TEXT("path", hot->path), LOG_TEXT("ignored", why));
	hot->listed = hot->list.count;
	write_in(hot, HOT_WRITE_FIRST_MS);
	if (hot->listed == 0)
		return;
	hot->phase = HOT_FETCHING;
	go_on_in(hot, 0);
}

void hot_keys_stop(struct hot_keys *hot)
{
	struct hot_file file = { 0 };
	hot->stopping = true;
	uv_timer_stop(&hot->timer);
	uv_timer_stop(&hot->write_timer);
	if (!hot->path || !hot->pump)
		return;
	/* By another name: one that is being written may still be on its way. */
	note_written(hot, compose(hot, &file) ? hot_file_write(&file, hot->path, ".end") : -ENOMEM);
	hot_file_close(&file);
}

void hot_keys_close(struct hot_keys *hot)
{
	CHECK(!hot->is_warming);
	aside_free(hot->writing);
	hot->writing = NULL;
	uv_close((uv_handle_t *)&hot->timer, NULL);
	uv_close((uv_handle_t *)&hot->write_timer, NULL);
	uv_close((uv_handle_t *)&hot->written, NULL);
	hot_file_close(&hot->list);
	free(hot->path);
	hot->path = NULL;
}
