#include "ops/memory.h"

#include "base/limits.h"
#include "core/engine.h"
#include "core/near.h"
#include "core/warmer.h"
#include "origin/conn.h"
#include "rpc/call.h"
#include "rpc/limits.h"
#include "rpc/mget.h"
#include "rpc/peer.h"
#include "rpc/server.h"
#include "store/redis.h"

enum {
	CHUNK = 16,           /* the allocator's own, of each object */
	BUILD_COPIES = 4,     /* libpq's buffer grows by doubling; its result; our value */
	STORE_COPIES = 3,     /* hiredis' buffer, which also grows by doubling, and its reply */
	SAVE_COPIES = 3,      /* the command, as it is made and as it is sent; and the value */
	HEAP_SLOTS = 2,       /* heaps grow by doubling */
	HEAPS_OF_FLIGHTS = 4, /* timers, renewals, the queues' */
	FAILURES = 10000,     /* remembered where the store is this process */
	FAILURE_BYTES = ERROR_TEXT_MAX + 512,
	PROGRAM = 32 * 1024 * 1024, /* code, libraries, thread stacks, what the allocator keeps */
	USUAL_VALUE = 256 * 1024,   /* of the second sum */
};

/* What the sum is made of. */
struct given {
	size_t connections, requests, flights, concurrency, keyspaces, near, value;
	size_t build; /* the values of one statement */
	size_t hot;
};

/* Of one statement: a value, or those of a batch. */
static size_t build_of(const struct config *config, size_t value_bytes)
{
	size_t most = value_bytes;
	for (size_t i = 0; i < config->keyspaces_count; i++) {
		const struct batch_policy *batch = &config->keyspaces[i].batch;
		size_t bytes = batch->query ? (size_t)batch->max * value_bytes : value_bytes;
		if (bytes > BATCH_BYTES_MAX)
			bytes = BATCH_BYTES_MAX;
		if (bytes > most)
			most = bytes;
	}
	return most;
}

static struct given given_of(const struct config *config, size_t value_bytes)
{
	const struct limits_policy *limits = &config->limits;
	return (struct given){
		.connections = (size_t)limits->connections + SURPLUS_MAX,
		.requests = (size_t)limits->requests,
		.flights = (size_t)limits->requests + (size_t)limits->queue,
		.concurrency = (size_t)config->origin.concurrency,
		.keyspaces = config->keyspaces_count,
		.near = config->near.memory,
		.hot = (size_t)config->near.hot,
		.value = value_bytes,
		.build = build_of(config, value_bytes),
	};
}

static size_t of_connections(const struct given *given)
{
	return given->connections * (sizeof(struct peer) + CHUNK);
}

static size_t of_requests(const struct given *given)
{
	size_t each = sizeof(struct call) + CHUNK + HEAP_SLOTS * sizeof(struct heap_node *);
	size_t in_mget = sizeof(struct mget_item) + sizeof(struct mget) + CHUNK;
	return given->requests * (each + in_mget);
}

static size_t of_flights(const struct given *given)
{
	size_t heaps = HEAPS_OF_FLIGHTS * HEAP_SLOTS * sizeof(struct heap_node *);
	size_t table = HEAP_SLOTS * sizeof(struct table_node *);
	return sizeof(struct engine) +
	       given->flights *
		       (sizeof(struct flight) + sizeof(struct batch) + 2 * CHUNK + heaps + table);
}

static size_t of_builds(const struct given *given)
{
	return given->concurrency * (sizeof(struct conn) + BUILD_COPIES * given->build);
}

static size_t of_keyspaces(const struct given *given)
{
	/* As many again may have left with a reload and be in use; both configurations are there.
	 */
	return 2 * (given->keyspaces * sizeof(struct keyspace) + CONFIG_BYTES_MAX);
}

static size_t of_store(const struct given *given)
{
	return SAVE_COPIES * (REDIS_VALUES_WINDOW + given->value) + STORE_COPIES * given->value +
	       (size_t)FAILURES * FAILURE_BYTES;
}

/* Its chunks, and what a spooler reads of each job. */
static size_t of_warm_ups(const struct given *given)
{
	return warmer_memory((uint32_t)given->concurrency) +
	       (size_t)JOBS_MAX * 2 * CHUNK_BYTES_MAX + FRAME_BYTES_MAX;
}

static size_t near_of(const struct given *given)
{
	return given->near;
}

static size_t of_hot(const struct given *given)
{
	size_t counters = given->hot * HOT_COUNTERS_PER_KEY;
	/* The list of a restart, and the one that is being written. */
	size_t lists = 2 * given->hot * (2 + HOT_KEY_BYTES);
	return counters * (sizeof(struct hot_counter) + HEAP_SLOTS * sizeof(struct table_node *)) +
	       lists;
}

/* X(name, bytes, what it is) */
#define MEMORY_MAP(X)                                                                              \
	X("near cache", near_of(given), "near.memory: entries, keys, its table, ghosts")           \
	X("hot keys", of_hot(given), "near.hot")                                                   \
	X("connections", of_connections(given), "limits.connections, idle")                        \
	X("input", (size_t)READ_HOLD_ALL_MAX, "requests that have come in part")                   \
	X("replies", (size_t)REPLIES_ALL_MAX, "that clients have not read")                        \
	X("mgets", (size_t)REPLIES_ALL_MAX, "values that wait for an mget's slower keys")          \
	X("requests", of_requests(given), "limits.requests, waiting")                              \
	X("flights", of_flights(given), "limits.requests and limits.queue, each a refresh")        \
	X("keys", 2 * (size_t)KEYS_ALL_MAX, "of requests that wait, and of flights")               \
	X("builds", of_builds(given), "origin.concurrency values on their way in")                 \
	X("store", of_store(given), "values on their way to and from Redis; failures remembered")  \
	X("warm-ups", of_warm_ups(given), "keys of the jobs that run, and what is fed of them")    \
	X("keyspaces", of_keyspaces(given), "accounts, epochs, the configuration")                 \
	X("program", (size_t)PROGRAM, "code, libraries, stacks")

static size_t sum_of(const struct given *given)
{
	size_t sum = 0;
#define X(name, bytes, text) sum += (bytes);
	MEMORY_MAP(X)
#undef X
	return sum;
}

size_t memory_sum(const struct config *config, size_t value_bytes)
{
	struct given given = given_of(config, value_bytes);
	return sum_of(&given);
}

static void print_line(FILE *out, const char *name, size_t bytes, const char *text)
{
	fprintf(out, "  %-12s %8.1f MiB  %s\n", name, (double)bytes / (1024 * 1024), text);
}

static void print_lines(FILE *out, const struct given *given)
{
#define X(name, bytes, text) print_line(out, name, bytes, text);
	MEMORY_MAP(X)
#undef X
}

void memory_print(FILE *out, const struct config *config)
{
	struct given given = given_of(config, VALUE_BYTES_MAX);
	char text[96];
	fprintf(out, "memory at most:\n");
	print_lines(out, &given);
	snprintf(text, sizeof(text), "with values of %d MiB, the greatest there can be",
		 VALUE_BYTES_MAX / (1024 * 1024));
	print_line(out, "in all", sum_of(&given), text);
	snprintf(text, sizeof(text), "if no value is over %d KiB", USUAL_VALUE / 1024);
	print_line(out, "", memory_sum(config, USUAL_VALUE), text);
}
