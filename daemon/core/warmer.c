#include "core/warmer.h"

#include <string.h>

#include "core/warmer_state.h"

enum {
	LOOKS_PER_S = 20000,     /* over the fleet, but … */
	LOOKS_PER_S_LEAST = 200, /* … of one daemon so many */
	ASKING_US = 2 * 1000,    /* a permit's answer is looked for so often */
};

int64_t warmer_now_us(const struct warmer *warmer)
{
	return warmer->options.host.now_us(warmer->options.host.impl);
}

void warmer_kick(struct warmer *warmer)
{
	warmer->options.host.wake_at(warmer->options.host.impl, 0);
}

int64_t warmer_jittered(struct warmer *warmer, int64_t us)
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

/* ---- turns ------------------------------------------------------------------------------- */

/* When a turn has something to do that nothing else tells of. */
static int64_t next_of(const struct warmer_job *job, int64_t now_us)
{
	int64_t at = job->heard_us + WARMER_LIST_US;
	bool to_look = false, to_build = false;
	if (warmer_job_wants(job, INT64_MAX) && job->claim_us < at)
		at = job->claim_us;
	list_foreach (&job->chunks, node) {
		const struct warm_chunk *chunk = container_of(node, struct warm_chunk, node);
		if (chunk->given_up)
			continue;
		if (chunk->reported_us + WARMER_REPORT_US < at)
			at = chunk->reported_us + WARMER_REPORT_US;
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
	int64_t now_us = warmer_now_us(warmer);
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
		warmer_look_around(job, now_us);
		warmer_build(job, now_us);
	}
	if (job->known && !warmer->stopping)
		warmer_work(job, now_us);
	if ((job->over || warmer->stopping) && !job->calling && list_empty(&job->chunks))
		warmer_job_free(job);
}

void warmer_turn(struct warmer *warmer)
{
	int64_t now_us = warmer_now_us(warmer);
	struct list_node *next;
	if (warmer->stopped)
		return;
	warmer_list(warmer, now_us);
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
	warmer_kick(warmer);
}

size_t warmer_memory(uint32_t concurrency)
{
	size_t chunk = sizeof(struct warm_chunk) + CHUNK_BYTES_MAX + WARM_FAILURES_BYTES;
	return (size_t)JOBS_MAX * (sizeof(struct warmer_job) + WARMER_CHUNKS_MAX * chunk) +
	       WARMER_LOOKS_MAX * sizeof(struct warmer_look) +
	       (concurrency / 2 + 1) * sizeof(struct warmer_statement);
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
		warm_chunks_give_up(container_of(node, struct warmer_job, node));
	}
	warmer_kick(warmer);
}
