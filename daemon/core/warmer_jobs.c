#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "core/warmer_state.h"

enum {
	LEASE_US = 5 * 1000 * 1000, /* a claim; kept by a report each … */
	AGAIN_US = 500 * 1000,      /* … WARMER_REPORT_US. After a call without an answer */
	CLAIM_FIRST_US = 50 * 1000, /* where there is no chunk now, doubling … */
	CLAIM_DOUBLINGS = 4,
};

void warmer_job_free(struct warmer_job *job)
{
	CHECK(list_empty(&job->chunks) && !job->calling);
	list_remove(&job->warmer->jobs, &job->node);
	mem_free(job);
}

static void job_ends(struct warmer_job *job)
{
	job->over = true;
	warm_chunks_give_up(job);
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
	warm_chunk_release(chunk);
}

static void give_up_seq(struct warmer_job *job, uint64_t seq)
{
	list_foreach (&job->chunks, node) {
		struct warm_chunk *chunk = container_of(node, struct warm_chunk, node);
		if (chunk->seq == seq && !chunk->given_up) {
			job->warmer->counters.chunks_lost++;
			warm_chunk_give_up(chunk);
			return;
		}
	}
}

static void take_claim(struct warmer_job *job, const struct job_call *call, int64_t now_us)
{
	uint32_t doublings = job->misses < CLAIM_DOUBLINGS ? job->misses : CLAIM_DOUBLINGS;
	if (!call->wants)
		return;
	if (call->next != 0) {
		/* A store that was emptied counts its chunks anew: one that we have by that number
		   is of before. */
		give_up_seq(job, call->next);
		job->misses = 0;
		job->claim_us = 0;
		if (!warm_chunk_create(job, call, now_us))
			job->claim_us = now_us + AGAIN_US;
		return;
	}
	job->misses++;
	job->claim_us = now_us + warmer_jittered(job->warmer, (int64_t)CLAIM_FIRST_US << doublings);
}

static void on_worked(struct job_call *call)
{
	struct warmer_job *job = container_of(call, struct warmer_job, call);
	struct warmer *warmer = job->warmer;
	int64_t now_us = warmer_now_us(warmer);
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
		job->call_us = now_us + warmer_jittered(warmer, AGAIN_US);
	}
	warmer_kick(warmer);
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
		if (now_us - chunk->reported_us >= WARMER_REPORT_US && !due)
			due = chunk;
	}
	return due;
}

bool warmer_job_wants(const struct warmer_job *job, int64_t now_us)
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

void warmer_work(struct warmer_job *job, int64_t now_us)
{
	struct warmer *warmer = job->warmer;
	if (job->calling || job->over || now_us < job->call_us)
		return;
	struct warm_chunk *chunk = chunk_to_report(job, now_us);
	bool wants = warmer_job_wants(job, now_us);
	bool idle = now_us - job->heard_us >= WARMER_LIST_US;
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
	job->heard_us = warmer_now_us(job->warmer);
	if (call->outcome == JOB_OK && call->job.state == JOB_RUNNING) {
		job->known = true;
		job->job = call->job;
	} else {
		job->over = true;
	}
	warmer_kick(job->warmer);
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
	warmer->list_us = warmer_now_us(warmer) + warmer_jittered(warmer, WARMER_LIST_US);
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
	warmer_kick(warmer);
}

void warmer_list(struct warmer *warmer, int64_t now_us)
{
	if (warmer->listing || warmer->stopping || now_us < warmer->list_us)
		return;
	warmer->listing = true;
	warmer->list_call = (struct job_call){ .verb = JOB_LIST, .done = on_listed };
	warmer->options.jobs.submit(warmer->options.jobs.impl, &warmer->list_call);
}
