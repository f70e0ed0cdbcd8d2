/* What tests of the shared store stand on: a Redis, a loop, some daemons' stores on it.
 *
 * Each daemon has two keyspaces, `rows` (single_row) and `views`, and keeps what it was told.
 */
#pragma once

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "server.h"
#include "store/redis.h"

enum { TOLD_MAX = 256, DAEMONS_MAX = 16 };

#define SECOND INT64_C(1000000)

struct told {
	bool changed; /* else settled */
	char key[64];
	uint64_t fence;
	bool hard;
};

struct daemon {
	struct fleet *fleet;
	struct redis_store *redis; /* NULL: closed */
	struct store store;
	struct store_listener listener;
	struct policy rows_policy, views_policy;
	struct keyspace rows, views;
	bool opened, closed;
	struct told told[TOLD_MAX];
	unsigned told_count;
	unsigned epochs_count; /* told of `rows` */
	int64_t epoch_us, epoch_spread_us;
	uint64_t ruling; /* the fleet's definition of `rows`; 0: not told */
	int64_t ruling_since_us, ruling_spread_us;
	unsigned ruling_told;
	int64_t trusted_until_us;
	unsigned trust_losses; /* told while it was trusted */
	unsigned emptied;
};

struct fleet {
	struct server server;
	uv_loop_t loop;
	uv_timer_t tick;              /* wakes the loop, so that conditions are looked at */
	struct redis_options options; /* for daemons opened from now on */
	struct store_url url;
	struct daemon daemons[DAEMONS_MAX];
	unsigned daemons_count;
	unsigned seed;
	const char *query; /* of `rows`; NULL: they have none, and no definition */
};

/* Skips the test where there is no Redis. The server is started with these options. */
void fleet_open(struct fleet *fleet, const char *option, ...);
void fleet_close(
	struct fleet *fleet); /* closes the daemons, too, and proves that nothing is left */

/* Starts a daemon's store by fleet->options; fleet_add waits until it has opened. */
struct daemon *fleet_start(struct fleet *fleet);
struct daemon *fleet_add(struct fleet *fleet);
void daemon_close(struct daemon *daemon);

/* Whether all connections that operations need are up. */
bool daemon_is_up(struct daemon *daemon);

/* Kills the server, lets all daemons notice, and starts it again, empty; and waits until they are
   in touch. */
void fleet_restart(struct fleet *fleet);

/* Runs the loop until the condition holds. The test's time limit bounds it. */
#define AWAIT(fleet, condition)                                                                    \
	while (!(condition))                                                                       \
	uv_run(&(fleet)->loop, UV_RUN_ONCE)

/* One operation; `done` counts its callbacks. */
struct doing {
	struct store_op op;
	unsigned done;
	char key[64];
};

/* An operation on a key, "rows:1" or "views:1", with 10 s of length and an empty rest. */
void doing_init(struct doing *doing, struct daemon *daemon, enum store_verb verb, const char *key,
		uint64_t token);
void doing_start(struct doing *doing, struct daemon *daemon);
/* Starts it, unless that is done, and waits for its answer. */
enum store_outcome doing_wait(struct doing *doing, struct daemon *daemon);

/* The usual ones; each waits. What is counted in their answers is given back by doing_free. */
enum store_outcome do_load(struct doing *doing, struct daemon *daemon, const char *key);
enum store_outcome do_lease(struct doing *doing, struct daemon *daemon, const char *key,
			    uint64_t token);
enum store_outcome do_save(struct doing *doing, struct daemon *daemon, const char *key,
			   uint64_t token, uint64_t fence, int64_t version, const char *value);
enum store_outcome do_release(struct doing *doing, struct daemon *daemon, const char *key,
			      uint64_t token);
enum store_outcome do_permit(struct doing *doing, struct daemon *daemon, uint64_t token,
			     int64_t reach_us);
void doing_free(struct doing *doing);

/* Until the bucket's first second is over. */
void await_bucket(struct doing *doing, struct daemon *daemon);
/* A permit, asked for until it is there: its slot. */
int take(struct doing *doing, struct daemon *daemon, uint64_t token);
enum store_outcome free_slot(struct doing *doing, struct daemon *daemon, uint64_t token, int slot);

struct redis_stats daemon_stats(struct daemon *daemon);
uint64_t daemon_errors(struct daemon *daemon, enum store_error error);
