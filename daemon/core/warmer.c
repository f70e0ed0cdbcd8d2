#include "core/warmer.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum {
	LIST_US = 1000 * 1000,
	LEASE_US = 5 * 1000 * 1000, /* a claim; kept by a report each … */
	REPORT_US = 1000 * 1000,    /* … */
	AGAIN_US = 500 * 1000,      /* after a call without an answer */
	CLAIM_FIRST_US = 50 * 1000, /* where there is no chunk now, doubling … */
	CLAIM_DOUBLINGS = 4,
	LOOK_BURST_US = 20 * 1000,
	LOOKS_PER_S = 20000,     /* over the fleet, but … */
	LOOKS_PER_S_LEAST = 200, /* … of one daemon so many */
	REST_US = 200 * 1000,    /* a key that another is at is looked at again after this */
	AWAY_US = 1000 * 1000,
	RETRY_LEAST_US = 100 * 1000,
	RETRY_MOST_US = 60 * 1000 * 1000,
	ASKING_US = 2 * 1000,   /* a permit's answer is looked for so often */
	FAILURE_TEXT_MAX = 200, /* of each that is listed */
	FAILURES_OF_CHUNK = 16 * 1024,
};

/* A look, or a statement's key: which. */
struct place {
	struct warm_chunk *chunk;
	uint32_t item;
};

struct warmer_look {
	struct look look;
	struct warmer *warmer;
	struct place place;
};

struct statement {
	struct warming warming;
	struct warmer *warmer;
	struct warmer_job *job;
	struct place places[BATCH_KEYS_MAX];
};

static void arm(struct warmer *warmer);

static int64_t now(const struct warmer *warmer)
{
	return warmer->options.host.now_us(warmer->options.host.impl);
}

/* To be looked at soon. */
static void kick(struct warmer *warmer)
{
	warmer->options.host.wake_at(warmer->options.host.impl, 0);
}

static int64_t jittered(struct warmer *warmer, int64_t us)
{
	return rng_between(&warmer->rng, us / 2, us + us / 2);
}

uint32_t warmer_retries(const struct job *job)
{
	uint32_t retries = 0;
	const char *at = strchr(job->spec, ' ');
	if (!at)
		return WARMER_RETRIES_USUAL;
	while (*++at >= '0' && *at <= '9' && retries <= WARM_RETRIES_MAX)
		retries = retries * 10 + (uint32_t)(*at - '0');
	return retries <= WARM_RETRIES_MAX ? retries : WARM_RETRIES_MAX;
}

/* ---- chunks ------------------------------------------------------------------------------ */

static struct warm_chunk *chunk_create(struct warmer_job *job, const struct job_call *call,
				       int64_t now_us)
{
	struct warm_chunk *chunk = mem_zalloc(sizeof(*chunk) + call->data_len);
	const char *text;
	uint32_t len;
	size_t at = 0, step;
	if (!chunk)
		return NULL;
	list_node_init(&chunk->node);
	chunk->job = job;
	chunk->seq = call->next;
	chunk->reported_us = now_us;
	memcpy(chunk->bytes, call->data, call->data_len);
	while (chunk->count < CHUNK_KEYS_MAX &&
	       (step = chunk_next(chunk->bytes + at, call->data_len - at, &text, &len)) > 0) {
		chunk->items[chunk->count++] =
			(struct warm_item){ .at = (uint32_t)(text - chunk->bytes), .len = len };
		at += step;
	}
	chunk->to_look = chunk->count;
	list_push_back(&job->chunks, &chunk->node);
	return chunk;
}

/* Frees it where nobody knows it any more. */
static void chunk_release(struct warm_chunk *chunk)
{
	struct warmer_job *job = chunk->job;
	if (!chunk->given_up || chunk->under_way > 0 || job->reporting == chunk)
		return;
	list_remove(&job->chunks, &chunk->node);
	mem_free(chunk->failures);
	mem_free(chunk);
}

static void chunk_give_up(struct warm_chunk *chunk)
{
	chunk->given_up = true;
	chunk_release(chunk);
}

static void give_up_all(struct warmer_job *job)
{
	struct list_node *next;
	for (struct list_node *node = list_first(&job->chunks); node; node = next) {
		next = node->next != &job->chunks.head ? node->next : NULL;
		chunk_give_up(container_of(node, struct warm_chunk, node));
	}
}

static void item_move(struct warm_chunk *chunk, uint32_t index, enum warm_item_state state)
{
	struct warm_item *item = &chunk->items[index];
	CHECK(item->state != ITEM_DONE);
	chunk->to_look -= item->state == ITEM_TO_LOOK;
	chunk->to_look += state == ITEM_TO_LOOK;
	chunk->done += state == ITEM_DONE;
	item->state = (uint8_t)state;
}

static void item_rest(struct warm_chunk *chunk, uint32_t index, int64_t until_us)
{
	chunk->items[index].due_us = until_us;
	item_move(chunk, index, ITEM_RESTING);
}

static void item_fresh(struct warm_chunk *chunk, uint32_t index)
{
	chunk->counts.fresh++;
	chunk->job->warmer->counters.fresh++;
	item_move(chunk, index, ITEM_DONE);
}

/* Notes the key and why, if there is room. */
static void note_failure(struct warm_chunk *chunk, const struct warm_item *item, const char *text,
			 uint32_t len)
{
	if (!chunk->failures)
		chunk->failures = mem_alloc(FAILURES_OF_CHUNK);
	if (!chunk->failures || chunk->failures_count >= JOB_FAILURES_MAX)
		return;
	char *to = chunk->failures + chunk->failures_len;
	size_t room = FAILURES_OF_CHUNK - chunk->failures_len;
	size_t key = chunk_put(to, room, chunk->bytes + item->at, item->len);
	if (len > FAILURE_TEXT_MAX)
		len = FAILURE_TEXT_MAX;
	size_t why = key ? chunk_put(to + key, room - key, text, len) : 0;
	if (!why)
		return;
	chunk->failures_len += (uint32_t)(key + why);
	chunk->failures_count++;
}

static void item_fail_for_good(struct warm_chunk *chunk, uint32_t index, const char *text,
			       uint32_t len)
{
	chunk->counts.failed++;
	chunk->job->warmer->counters.failed++;
	note_failure(chunk, &chunk->items[index], text, len);
	item_move(chunk, index, ITEM_DONE);
}

/* It failed; it may be tried some times more, not before the failure is forgotten. */
static void item_fail(struct warm_chunk *chunk, uint32_t index, const struct failure *failure,
		      int64_t now_us)
{
	struct warmer *warmer = chunk->job->warmer;
	struct warm_item *item = &chunk->items[index];
	if (item->tries >= warmer_retries(&chunk->job->job)) {
		const char *why = failure->why ? failure->why : status_text(failure->status);
		if (failure->text)
			item_fail_for_good(chunk, index, failure->text->bytes,
					   (uint32_t)failure->text->len);
		else
			item_fail_for_good(chunk, index, why, (uint32_t)strlen(why));
		return;
	}
	int64_t wait_us =
		failure->until_us > now_us ? failure->until_us - now_us : failure->retry_in_us;
	if (wait_us < RETRY_LEAST_US)
		wait_us = RETRY_LEAST_US;
	if (wait_us > RETRY_MOST_US)
		wait_us = RETRY_MOST_US;
	item->tries++;
	warmer->counters.retries++;
	item_rest(chunk, index, now_us + wait_us + rng_between(&warmer->rng, 0, wait_us / 4));
}

/* ---- looking ----------------------------------------------------------------------------- */

static void on_looked(struct look *look)
{
	struct warmer_look *mine = container_of(look, struct warmer_look, look);
	struct warmer *warmer = mine->warmer;
	struct warm_chunk *chunk = mine->place.chunk;
	uint32_t index = mine->place.item;
	int64_t now_us = now(warmer);
	warmer->looks--;
	chunk->under_way--;
	switch (look->outcome) {
	case LOOK_FRESH:
		item_fresh(chunk, index);
		break;
	case LOOK_MISSING:
		item_move(chunk, index, ITEM_TO_BUILD);
		break;
	case LOOK_FAILED:
		item_fail(chunk, index, &look->failure, now_us);
		break;
	case LOOK_AWAY:
		item_rest(chunk, index, now_us + jittered(warmer, AWAY_US));
		break;
	}
	value_unref(look->failure.text);
	mem_free(mine);
	chunk_release(chunk);
	kick(warmer);
}

/* The item's key, if it is one that can be built; else it has failed. */
static bool find_key(struct warmer *warmer, struct warm_chunk *chunk, uint32_t index,
		     struct key *ret_key)
{
	struct warm_item *item = &chunk->items[index];
	struct pump *pump = warmer->options.pump;
	char *bytes = chunk->bytes + item->at, text[ERROR_TEXT_MAX];
	uint32_t name_len;
	const char *why;
	if (warmer->options.read_key(bytes, &item->len, &name_len, &why)) {
		struct keyspace *keyspace = engine_keyspace(pump->engine, bytes, name_len);
		why = "there is no such keyspace";
		if (keyspace) {
			engine_key(pump->engine, keyspace, bytes, item->len, ret_key);
			why = text;
			if (!pump->origin.check_key ||
			    pump->origin.check_key(pump->origin.impl, ret_key, text,
						   sizeof(text)) == STATUS_OK)
				return true;
		}
	}
	item_fail_for_good(chunk, index, why, (uint32_t)strlen(why));
	return false;
}

static void look_at(struct warmer *warmer, struct warm_chunk *chunk, uint32_t index)
{
	struct key key;
	if (!find_key(warmer, chunk, index, &key))
		return;
	struct warmer_look *mine = mem_zalloc(sizeof(*mine));
	if (!mine)
		return; /* the next turn tries again */
	mine->warmer = warmer;
	mine->place = (struct place){ chunk, index };
	mine->look = (struct look){ .key = key, .alone = warmer->options.alone, .done = on_looked };
	item_move(chunk, index, ITEM_LOOKING);
	chunk->under_way++;
	warmer->looks++;
	warmer->counters.looks++;
	pump_look(warmer->options.pump, &mine->look);
}

static bool may_look(struct warmer *warmer, int64_t now_us)
{
	if (warmer->looks >= WARMER_LOOKS_MAX || warmer->look_next_us > now_us)
		return false;
	if (warmer->look_next_us < now_us - LOOK_BURST_US)
		warmer->look_next_us = now_us - LOOK_BURST_US;
	warmer->look_next_us += warmer->look_interval_us;
	return true;
}

static void look_around(struct warmer *warmer, struct warmer_job *job, int64_t now_us)
{
	list_foreach (&job->chunks, node) {
		struct warm_chunk *chunk = container_of(node, struct warm_chunk, node);
		for (uint32_t i = 0; i < chunk->count && !chunk->given_up; i++) {
			struct warm_item *item = &chunk->items[i];
			if (item->state == ITEM_RESTING && now_us >= item->due_us)
				item_move(chunk, i, ITEM_TO_LOOK);
			if (item->state != ITEM_TO_LOOK)
				continue;
			if (!may_look(warmer, now_us))
				return;
			look_at(warmer, chunk, i);
		}
	}
}

/* ---- building ---------------------------------------------------------------------------- */

static void take_key(struct warmer *warmer, struct statement *statement, uint32_t n, int64_t now_us)
{
	struct warming_key *key = &statement->warming.keys[n];
	struct warm_chunk *chunk = statement->places[n].chunk;
	uint32_t index = statement->places[n].item;
	switch (key->result) {
	case WARM_PENDING:
		item_move(chunk, index, ITEM_TO_BUILD);
		break;
	case WARM_BUILT:
		chunk->counts.built++;
		warmer->counters.built++;
		item_move(chunk, index, ITEM_DONE);
		break;
	case WARM_FRESH:
		item_fresh(chunk, index);
		break;
	case WARM_FAILED:
		item_fail(chunk, index, &key->failure, now_us);
		break;
	case WARM_AGAIN:
		item_rest(chunk, index, now_us + jittered(warmer, REST_US));
		break;
	case WARM_APART:
		chunk->items[index].alone = true;
		item_move(chunk, index, ITEM_TO_BUILD);
		break;
	}
	value_unref(key->failure.text);
	chunk->under_way--;
	chunk_release(chunk);
}

/* What the origin is to be thought of after it. */
static void judge(struct warmer *warmer, const struct warming *warming, int64_t now_us)
{
	uint32_t good = 0, apart = 0;
	for (uint32_t i = 0; i < warming->count; i++) {
		good += warming->keys[i].result == WARM_BUILT;
		apart += warming->keys[i].result == WARM_APART;
	}
	if (warming->later || warming->took_us == 0)
		return;
	uint32_t kind = 2 * warming->keys[0].key.keyspace->index + (warming->count > 1);
	if (good > 0)
		warm_pace_went_well(&warmer->pace, kind, warming->took_us, now_us);
	else if (apart == 0)
		warm_pace_failed(&warmer->pace, now_us);
}

static void on_warmed(struct warming *warming)
{
	struct statement *statement = container_of(warming, struct statement, warming);
	struct warmer *warmer = statement->warmer;
	int64_t now_us = now(warmer);
	warmer->statements--;
	if (warmer->asking == warming)
		warmer->asking = NULL;
	warmer->counters.later += warming->later;
	warmer->counters.statements += warming->took_us > 0;
	if (warming->later)
		statement->job->ask_us = now_us + warming->retry_us;
	judge(warmer, warming, now_us);
	for (uint32_t i = 0; i < warming->count; i++)
		take_key(warmer, statement, i, now_us);
	mem_free(statement);
	kick(warmer);
}

/* Whether the item's key may go with the statement, which it then does. */
static bool take_along(struct warmer *warmer, struct statement *statement, struct warm_chunk *chunk,
		       uint32_t index, uint32_t *seats)
{
	struct warming *warming = &statement->warming;
	struct key key;
	if (warming->count > 0 && chunk->items[index].alone)
		return false;
	if (!find_key(warmer, chunk, index, &key))
		return false;
	const struct batch_policy *batch = &key.keyspace->policy->batch;
	if (warming->count == 0)
		*seats = batch->query && !chunk->items[index].alone ? (uint32_t)batch->max : 1;
	else if (warming->keys[0].key.keyspace != key.keyspace)
		return false;
	for (uint32_t i = 0; i < warming->count; i++)
		if (warming->keys[i].key.hash == key.hash)
			return false; /* it is there twice: the next look will find it */
	warming->keys[warming->count] = (struct warming_key){ .key = key };
	statement->places[warming->count++] = (struct place){ chunk, index };
	return true;
}

/* The keys that are to be built, as many as go together. */
static uint32_t gather(struct warmer *warmer, struct warmer_job *job, struct statement *statement)
{
	uint32_t seats = BATCH_KEYS_MAX;
	list_foreach (&job->chunks, node) {
		struct warm_chunk *chunk = container_of(node, struct warm_chunk, node);
		for (uint32_t i = 0; i < chunk->count && !chunk->given_up; i++) {
			if (chunk->items[i].state == ITEM_TO_BUILD)
				take_along(warmer, statement, chunk, i, &seats);
			if (statement->warming.count == seats)
				return seats;
		}
	}
	return seats;
}

/* Whether more keys of the job may be found missing soon: a statement waits for them to be full. */
static bool has_more_to_come(const struct warmer_job *job)
{
	bool claims = !job->over && (job->calling || job->misses == 0);
	uint32_t chunks = 0;
	list_foreach (&job->chunks, node) {
		const struct warm_chunk *chunk = container_of(node, struct warm_chunk, node);
		chunks += !chunk->given_up;
		if (chunk->given_up)
			continue;
		if (chunk->to_look > 0)
			return true;
		for (uint32_t i = 0; i < chunk->count; i++)
			if (chunk->items[i].state == ITEM_LOOKING)
				return true;
	}
	return claims && chunks < WARMER_CHUNKS_MAX;
}

static bool build_one(struct warmer *warmer, struct warmer_job *job)
{
	struct statement *statement = mem_zalloc(sizeof(*statement));
	if (!statement)
		return false;
	struct warming *warming = &statement->warming;
	uint32_t seats = gather(warmer, job, statement);
	if (warming->count == 0 || (warming->count < seats && has_more_to_come(job))) {
		mem_free(statement);
		return false;
	}
	statement->warmer = warmer;
	statement->job = job;
	warming->pace = (struct pace){ job->job.id, job->job.interval_us };
	warming->done = on_warmed;
	for (uint32_t i = 0; i < warming->count; i++) {
		item_move(statement->places[i].chunk, statement->places[i].item, ITEM_BUILDING);
		statement->places[i].chunk->under_way++;
	}
	warmer->statements++;
	warmer->asking = warming;
	pump_warm(warmer->options.pump, warming);
	return true;
}

static void build(struct warmer *warmer, struct warmer_job *job, int64_t now_us)
{
	if (warmer->asking && !warming_is_asking(warmer->asking))
		warmer->asking = NULL;
	if (!warmer->asking && now_us >= job->ask_us &&
	    warm_pace_admits(&warmer->pace, warmer->statements, now_us))
		build_one(warmer, job);
}

/* ---- the job's calls --------------------------------------------------------------------- */

static void job_free(struct warmer_job *job)
{
	CHECK(list_empty(&job->chunks) && !job->calling);
	list_remove(&job->warmer->jobs, &job->node);
	mem_free(job);
}

static void job_ends(struct warmer_job *job)
{
	job->over = true;
	give_up_all(job);
}

static void take_report(struct warmer_job *job, struct job_call *call)
{
	struct warm_chunk *chunk = job->reporting;
	bool answered = call->outcome == JOB_OK;
	job->reporting = NULL;
	if (!chunk)
		return;
	if (answered && call->lost)
		job->warmer->counters.chunks_lost++;
	else if (answered && call->final)
		job->warmer->counters.chunks++;
	if (answered && (call->lost || call->final))
		chunk->given_up = true;
	chunk_release(chunk);
}

static void take_claim(struct warmer_job *job, const struct job_call *call, int64_t now_us)
{
	uint32_t doublings = job->misses < CLAIM_DOUBLINGS ? job->misses : CLAIM_DOUBLINGS;
	if (!call->wants)
		return;
	if (call->next != 0) {
		job->misses = 0;
		job->claim_us = 0;
		if (!chunk_create(job, call, now_us))
			job->claim_us = now_us + AGAIN_US;
		return;
	}
	job->misses++;
	job->claim_us = now_us + jittered(job->warmer, (int64_t)CLAIM_FIRST_US << doublings);
}

static void on_worked(struct job_call *call)
{
	struct warmer_job *job = container_of(call, struct warmer_job, call);
	struct warmer *warmer = job->warmer;
	int64_t now_us = now(warmer);
	job->calling = false;
	job->heard_us = now_us;
	take_report(job, call);
	if (call->outcome == JOB_OK) {
		job->known = true;
		job->job = call->job;
		if (!warmer->stopping && call->job.state == JOB_RUNNING)
			take_claim(job, call, now_us);
		if (call->job.state != JOB_RUNNING)
			job_ends(job);
	} else if (call->outcome == JOB_GONE) {
		job_ends(job);
	} else {
		job->call_us = now_us + jittered(warmer, AGAIN_US);
	}
	kick(warmer);
}

/* What is most worth telling: a chunk that is done, then one whose claim is to be kept. */
static struct warm_chunk *chunk_to_report(const struct warmer_job *job, int64_t now_us)
{
	struct warm_chunk *due = NULL;
	list_foreach (&job->chunks, node) {
		struct warm_chunk *chunk = container_of(node, struct warm_chunk, node);
		if (chunk->given_up)
			continue;
		if (chunk->done == chunk->count)
			return chunk;
		if (now_us - chunk->reported_us >= REPORT_US && !due)
			due = chunk;
	}
	return due;
}

static bool wants_more(const struct warmer_job *job, int64_t now_us)
{
	uint32_t chunks = 0, fodder = 0;
	list_foreach (&job->chunks, node) {
		const struct warm_chunk *chunk = container_of(node, struct warm_chunk, node);
		chunks += !chunk->given_up;
		if (chunk->given_up || chunk->done == chunk->count)
			continue;
		for (uint32_t i = 0; i < chunk->count; i++)
			fodder += chunk->items[i].state == ITEM_TO_LOOK ||
				  chunk->items[i].state == ITEM_LOOKING ||
				  chunk->items[i].state == ITEM_TO_BUILD;
	}
	return now_us >= job->claim_us && chunks < WARMER_CHUNKS_MAX && fodder < BATCH_KEYS_MAX &&
	       !job->warmer->stopping;
}

static void work(struct warmer *warmer, struct warmer_job *job, int64_t now_us)
{
	if (job->calling || job->over || now_us < job->call_us)
		return;
	struct warm_chunk *chunk = chunk_to_report(job, now_us);
	bool wants = wants_more(job, now_us);
	bool idle = now_us - job->heard_us >= LIST_US;
	if (!chunk && !wants && !idle)
		return;
	struct job_call *call = &job->call;
	*call = (struct job_call){ .verb = JOB_WORK,
				   .done = on_worked,
				   .id = job->job.id,
				   .token = warmer->options.token,
				   .length_us = LEASE_US,
				   .wants = wants };
	memcpy(call->name, job->name, sizeof(call->name));
	if (chunk) {
		call->seq = chunk->seq;
		call->counts = chunk->counts;
		call->final = chunk->done == chunk->count;
		chunk->reported_us = now_us;
		if (call->final) {
			call->failures = chunk->failures;
			call->failures_len = chunk->failures_len;
			call->failures_count = chunk->failures_count;
		}
	}
	job->reporting = chunk;
	job->calling = true;
	warmer->options.jobs.submit(warmer->options.jobs.impl, call);
}

/* ---- which jobs there are ---------------------------------------------------------------- */

const struct warmer_job *warmer_job(const struct warmer *warmer, const char *name)
{
	list_foreach (&warmer->jobs, node) {
		const struct warmer_job *job = container_of(node, struct warmer_job, node);
		if (!job->over && strcmp(job->name, name) == 0)
			return job;
	}
	return NULL;
}

static void on_identified(struct job_call *call)
{
	struct warmer_job *job = container_of(call, struct warmer_job, call);
	job->calling = false;
	job->heard_us = now(job->warmer);
	if (call->outcome == JOB_OK && call->job.state == JOB_RUNNING) {
		job->known = true;
		job->job = call->job;
	} else {
		job->over = true;
	}
	kick(job->warmer);
}

static void add_job(struct warmer *warmer, const char *name, uint32_t len)
{
	if (warmer->jobs.count >= 2 * JOBS_MAX)
		return;
	struct warmer_job *job = mem_zalloc(sizeof(*job));
	if (!job)
		return;
	list_node_init(&job->node);
	list_init(&job->chunks);
	job->warmer = warmer;
	memcpy(job->name, name, len);
	list_push_back(&warmer->jobs, &job->node);
	job->call = (struct job_call){ .verb = JOB_LOOK, .done = on_identified };
	memcpy(job->call.name, job->name, sizeof(job->name));
	job->calling = true;
	warmer->options.jobs.submit(warmer->options.jobs.impl, &job->call);
}

static void on_listed(struct job_call *call)
{
	struct warmer *warmer = container_of(call, struct warmer, list_call);
	char name[JOB_NAME_MAX];
	const char *text;
	uint32_t len;
	size_t at = 0, step;
	warmer->listing = false;
	warmer->list_us = now(warmer) + jittered(warmer, LIST_US);
	warmer->listed |= call->outcome == JOB_OK;
	while (!warmer->stopping && call->outcome == JOB_OK &&
	       (step = chunk_next(call->data + at, call->data_len - at, &text, &len)) > 0) {
		at += step;
		if (len >= JOB_NAME_MAX)
			continue;
		memcpy(name, text, len);
		name[len] = '\0';
		if (!warmer_job(warmer, name))
			add_job(warmer, text, len);
	}
	kick(warmer);
}

static void list(struct warmer *warmer, int64_t now_us)
{
	if (warmer->listing || warmer->stopping || now_us < warmer->list_us)
		return;
	warmer->listing = true;
	warmer->list_call = (struct job_call){ .verb = JOB_LIST, .done = on_listed };
	warmer->options.jobs.submit(warmer->options.jobs.impl, &warmer->list_call);
}

/* ---- turns ------------------------------------------------------------------------------- */

/* When a turn has something to do that nothing else tells of. */
static int64_t next_of(const struct warmer_job *job, int64_t now_us)
{
	int64_t at = job->heard_us + LIST_US;
	bool to_look = false, to_build = false;
	if (wants_more(job, INT64_MAX) && job->claim_us < at)
		at = job->claim_us;
	list_foreach (&job->chunks, node) {
		const struct warm_chunk *chunk = container_of(node, struct warm_chunk, node);
		if (chunk->given_up)
			continue;
		if (chunk->reported_us + REPORT_US < at)
			at = chunk->reported_us + REPORT_US;
		to_look |= chunk->to_look > 0;
		for (uint32_t i = 0; i < chunk->count; i++) {
			const struct warm_item *item = &chunk->items[i];
			to_build |= item->state == ITEM_TO_BUILD;
			if (item->state == ITEM_RESTING && item->due_us < at)
				at = item->due_us;
		}
	}
	if (at < job->call_us)
		at = job->call_us;
	const struct warmer *warmer = job->warmer;
	if (to_look && warmer->looks < WARMER_LOOKS_MAX && warmer->look_next_us < at)
		at = warmer->look_next_us;
	int64_t build_us = job->ask_us;
	if (build_us < warmer->pace.rest_until_us)
		build_us = warmer->pace.rest_until_us;
	if (warmer->asking && build_us < now_us + ASKING_US)
		build_us = now_us + ASKING_US;
	if (to_build && build_us > now_us && build_us < at)
		at = build_us;
	return at;
}

static void arm(struct warmer *warmer)
{
	int64_t at = warmer->listing || warmer->stopping ? INT64_MAX : warmer->list_us;
	int64_t now_us = now(warmer);
	if (warmer->stopped)
		at = INT64_MAX;
	list_foreach (&warmer->jobs, node) {
		const struct warmer_job *job = container_of(node, struct warmer_job, node);
		int64_t its = job->calling || job->over ? INT64_MAX : next_of(job, now_us);
		if (its < at)
			at = its;
	}
	warmer->options.host.wake_at(warmer->options.host.impl, at);
}

static void turn_job(struct warmer *warmer, struct warmer_job *job, int64_t now_us)
{
	if (job->known && !job->over && !warmer->stopping) {
		look_around(warmer, job, now_us);
		build(warmer, job, now_us);
	}
	if (job->known && !warmer->stopping)
		work(warmer, job, now_us);
	if ((job->over || warmer->stopping) && !job->calling && list_empty(&job->chunks))
		job_free(job);
}

void warmer_turn(struct warmer *warmer)
{
	int64_t now_us = now(warmer);
	struct list_node *next;
	if (warmer->stopped)
		return;
	list(warmer, now_us);
	for (struct list_node *node = list_first(&warmer->jobs); node; node = next) {
		next = node->next != &warmer->jobs.head ? node->next : NULL;
		turn_job(warmer, container_of(node, struct warmer_job, node), now_us);
	}
	bool over = warmer->stopping && list_empty(&warmer->jobs) && !warmer->listing &&
		    warmer->looks == 0 && warmer->statements == 0;
	if (over) {
		warmer->stopped = true;
		arm(warmer);
		warmer->options.host.stopped(warmer->options.host.impl);
		return;
	}
	arm(warmer);
}

void warmer_hurry(struct warmer *warmer)
{
	warmer->list_us = 0;
	kick(warmer);
}

size_t warmer_memory(uint32_t concurrency)
{
	size_t chunk = sizeof(struct warm_chunk) + CHUNK_BYTES_MAX + FAILURES_OF_CHUNK;
	return (size_t)JOBS_MAX * (sizeof(struct warmer_job) + WARMER_CHUNKS_MAX * chunk) +
	       WARMER_LOOKS_MAX * sizeof(struct warmer_look) +
	       (concurrency / 2 + 1) * sizeof(struct statement);
}

void warmer_init(struct warmer *warmer, const struct warmer_options *options)
{
	uint32_t looks = LOOKS_PER_S / options->fleet;
	*warmer = (struct warmer){ .options = *options };
	rng_seed(&warmer->rng, options->token);
	list_init(&warmer->jobs);
	/* The other half is for those who wait. */
	warm_pace_init(&warmer->pace, options->concurrency / 2);
	warmer->look_interval_us =
		1000000 / (looks > LOOKS_PER_S_LEAST ? looks : LOOKS_PER_S_LEAST);
}

void warmer_stop(struct warmer *warmer)
{
	warmer->stopping = true;
	list_foreach (&warmer->jobs, node)
		container_of(node, struct warmer_job, node)->over = true;
	struct list_node *next;
	for (struct list_node *node = list_first(&warmer->jobs); node; node = next) {
		next = node->next != &warmer->jobs.head ? node->next : NULL;
		give_up_all(container_of(node, struct warmer_job, node));
	}
	kick(warmer);
}
