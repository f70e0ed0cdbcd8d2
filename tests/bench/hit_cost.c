/* What a near hit costs in instructions: a whole server answers batches of requests of which all
 * are hits, and valgrind's callgrind counts what it executes meanwhile, from the loop's poll to its
 * send.
 *
 *   valgrind --tool=callgrind --collect-atstart=no hit_cost SCENARIO BATCHES
 *
 * Prints the number of hits that were counted, and the compiler. hit_cost.py runs it, divides, and
 * compares. Instructions repeat from run to run; times, on a machine that is shared, do not.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <valgrind/callgrind.h>

#include "../unit/rpc_world.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

struct scenario {
	const char *name;
	uint32_t keys;      /* so many different ones */
	uint32_t value_len; /* bytes of each value */
	uint32_t batch;     /* requests in one read */
	uint32_t mget;      /* keys of each request; 0: it is a get */
};

static const struct scenario scenarios[] = {
	{ "pipelined", 64, 100, 16, 0 },     { "alone", 64, 100, 1, 0 },
	{ "by_reference", 64, 16384, 4, 0 }, { "mget", 64, 100, 1, 16 },
	{ "many_keys", 20000, 100, 16, 0 },
};

static const struct scenario *find_scenario(const char *name)
{
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		if (strcmp(scenarios[i].name, name) == 0)
			return &scenarios[i];
	return NULL;
}

/* Each key has one length, so that all cost the same. */
static void put_key(struct wire_buf *b, const struct scenario *scenario, uint32_t number)
{
	char key[64];

	snprintf(key, sizeof(key), "k:size-%u-%08u", scenario->value_len, number % scenario->keys);
	wire_buf_str(b, key);
}

/* The requests of one batch, the first of them with this id. */
static void put_batch(struct wire_buf *b, const struct scenario *scenario, uint32_t first)
{
	for (uint32_t i = 0; i < scenario->batch; i++) {
		/* Steps of a prime, so that neighbours in a batch are none in memory. */
		const uint32_t number = (first + i) * 7919;

		rpc_put_request(b, first + i, scenario->mget ? "mget" : "get", 1);
		if (!scenario->mget) {
			put_key(b, scenario, number);
			continue;
		}
		wire_buf_array(b, scenario->mget);
		for (uint32_t k = 0; k < scenario->mget; k++)
			put_key(b, scenario, number + k);
	}
}

/* Has every key built, so that all that follows are hits. */
static void warm(struct client *client, const struct scenario *scenario)
{
	for (uint32_t number = 0; number < scenario->keys; number++) {
		struct wire_buf b;

		wire_buf_init(&b, WIRE_REQUEST_MAX);
		rpc_put_request(&b, number, "get", 1);
		put_key(&b, scenario, number);
		client_send_buf(client, &b);
		(void)client_take(client);
	}
}

static void take_batch(struct client *client, const struct scenario *scenario)
{
	for (uint32_t i = 0; i < scenario->batch; i++) {
		const struct rpc_message message = client_take(client);

		cr_assert(message.error.len == 1, "a request failed");
		cr_assert_geq(message.result.len, scenario->value_len);
	}
}

int main(int argc, char **argv)
{
	static struct rpc_world world;
	const struct scenario *scenario = argc == 3 ? find_scenario(argv[1]) : NULL;
	const uint32_t batches = argc == 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
	struct client client;
	uint64_t hits, hits_before;

	if (!scenario || batches == 0) {
		fprintf(stderr, "usage: hit_cost SCENARIO BATCHES\nscenarios:");
		for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
			fprintf(stderr, " %s", scenarios[i].name);
		fprintf(stderr, "\n");
		return 2;
	}
	rpc_world_defaults(&world);
	world.policy.fresh_us = 24 * 3600 * (int64_t)SECOND;
	rpc_world_open(&world);
	/* Hot keys are sampled as by a daemon that is busy: under valgrind it would seem idle, and
	   the counts would hang on the time. */
	world.engine->hotlist.since_us = world.engine->hotlist.halved_us = 1;
	world.engine->hotlist.paced_us = INT64_MAX / 2;
	client_open(&client, &world);
	warm(&client, scenario);
	hits_before = world.engine->counters.hits_fresh;
	for (uint32_t i = 0; i < batches; i++) {
		struct wire_buf b;

		wire_buf_init(&b, WIRE_REQUEST_MAX);
		put_batch(&b, scenario, i * scenario->batch);
		client_send_buf(&client, &b);
		CALLGRIND_TOGGLE_COLLECT;
		rpc_world_turn(&world);
		CALLGRIND_TOGGLE_COLLECT;
		take_batch(&client, scenario);
	}
	hits = world.engine->counters.hits_fresh - hits_before;
	cr_assert_eq(hits,
		     (uint64_t)batches * scenario->batch * (scenario->mget ? scenario->mget : 1));
	client_close(&client);
	rpc_world_close(&world);
	printf("%llu %s\n", (unsigned long long)hits, COMPILER);
	return 0;
}
