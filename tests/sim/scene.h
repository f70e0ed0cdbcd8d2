/* A scene: all that a run is made of, drawn from its seed before the run begins.
 *
 * The seed decides everything. Each source of chance (the network, the clients, each kind of
 * trouble, …) has a stream of its own, so that leaving one kind of trouble out changes nothing of
 * the others: that is how a failing scene is made smaller. Most scenes have some kinds of trouble
 * and not others, since a fault that always comes can hide another's effect (Groce et al., "Swarm
 * testing", ISSTA 2012).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/policy.h"
#include "base/rng.h"
#include "vtime.h"

/* X(NAME, name, what happens) */
#define TROUBLE_MAP(X)                                                                             \
	X(KILL, kill, "a daemon dies, and another starts in its place")                            \
	X(PAUSE, pause, "a daemon stops, and later goes on as if nothing had been")                \
	X(RESTART, restart, "a daemon is stopped in good order, and started again")                \
	X(DELAY, delay, "what goes between a daemon and the store takes long")                     \
	X(REORDER, reorder,                                                                        \
	  "what goes between a daemon and the store overtakes what was sent before")               \
	X(LOSS, loss, "what goes between a daemon and the store is lost, either way")              \
	X(DOUBLE, double, "the store does twice, or tells twice, what it should do or tell once")  \
	X(CUT, cut, "some daemons and the store do not reach each other")                          \
	X(DOWN, down, "the store refuses connections")                                             \
	X(STALL, stall, "the store stops, and later carries out what it was sent meanwhile")       \
	X(FLUSH, flush, "the store forgets everything")                                            \
	X(FAILOVER, failover, "the store's last writes are lost")                                  \
	X(JUMP, jump, "the store fails over, losing nothing, to a server with another clock")      \
	X(EVICT, evict, "the store forgets some keys' entries or claims")                          \
	X(READONLY, readonly, "the store takes no writes")                                         \
	X(OOM, oom, "the store is out of memory: it gives no leases and takes no entries")         \
	X(EPOCH, epoch, "a keyspace's entries are invalidated, spread over a time")                \
	X(SLOW, slow, "builds take long")                                                          \
	X(HANG, hang, "builds do not end before their limit")                                      \
	X(ERROR, error, "builds fail")                                                             \
	X(REFUSE, refuse, "the origin takes no connections")                                       \
	X(CRASH, crash, "the origin breaks all connections, its statements end")                   \
	X(DROP, drop, "connections to the origin break, its statements go on for a while")         \
	X(LAG, lag, "the origin is read from a standby that lags, and then catches up at once")    \
	X(PROMOTE, promote, "the origin fails over to a replica: the last commits are lost")       \
	X(SKEW, skew, "hosts' clocks drift, and show the wrong time of day")                       \
	X(LEAVE, leave, "clients go away while they wait")

enum trouble_kind {
#define X(NAME, name, text) TROUBLE_##NAME,
	TROUBLE_MAP(X)
#undef X
};
enum {
#define X(NAME, name, text) +1
	TROUBLE_COUNT = 0 TROUBLE_MAP(X)
#undef X
};
const char *trouble_name(enum trouble_kind trouble);
const char *trouble_text(enum trouble_kind trouble);

enum { WAIT_MOST_US = 3 * SECOND }; /* no request waits longer */

enum { KEYSPACE_ROW, KEYSPACE_SUM, KEYSPACE_DEF };
enum { KEYSPACES = 3, KEYS_EACH_MAX = 40, KEYS_MAX = KEYSPACES * KEYS_EACH_MAX, NODES_MAX = 1000 };

/* A key that clients ask for; its number is its place in scene->keys. */
struct subject {
	uint32_t keyspace;
	uint32_t len;
	char bytes[24];
};

struct scene {
	uint64_t seed;
	uint32_t troubles; /* 1 << enum trouble_kind */
	int nodes;
	int64_t length_us;  /* clients ask so long */
	int64_t healed_us;  /* from here on no trouble is left */
	int64_t rest_us;    /* from here on the end is looked for: what was lost has lapsed */
	bool ample;         /* budget and room for all that can be asked */
	bool one_by_one;    /* equal hits are run, not counted */
	uint32_t keys_each; /* of a keyspace */
	struct subject keys[KEYS_MAX];
	uint32_t keys_count;
	struct policy policies[KEYSPACES];

	int concurrency;
	double budget_per_s;
	int64_t build_mean_us;
	bool even_builds; /* all take nearly as long; else exponentially distributed */
	int64_t trust_us;
	size_t near_bytes;
	uint32_t queue_max;

	double asks_per_s;    /* of one daemon, beside the hot key; 0: nobody */
	double hot_per_s;     /* of one daemon, for key 0 */
	double commits_per_s; /* of all rows */
	/* Of 1,000 requests, so many are … */
	int refreshes, min_versions, invalidations, immediates, unstales;
	int mgets; /* … for several keys of a keyspace that has batches */

	/* The origin's log of changes is followed. */
	bool follows;
	int64_t poll_us, retention_us;
	double open_mean_us;  /* of a transaction out of ten */
	double bells_lost;    /* a share */
	double whole_changes; /* so many of all commits log one of all keys */
};

/* Independent streams of chance. */
enum stream {
	STREAM_SCENE,
	STREAM_NODE, /* `n`: which */
	STREAM_NETWORK,
	STREAM_ORIGIN,
	STREAM_COMMITS,
	STREAM_CLIENTS, /* `n`: which daemon's */
	STREAM_TROUBLE, /* `n`: which kind */
	STREAM_BATCHES,
	STREAM_FEED, /* `n`: what of it */
};
void scene_stream(const struct scene *scene, enum stream stream, uint32_t n, struct rng *ret_rng);

/* What a scene is drawn with; 0: as the seed says. */
struct scene_options {
	int nodes;
	int seconds;
	double hot_per_s;
	uint32_t without; /* kinds of trouble left out */
	bool only_set;
	uint32_t only; /* only these, if only_set */
	bool one_by_one;
	bool changes; /* the origin's log of changes is followed */
};
void scene_draw(struct scene *scene, uint64_t seed, const struct scene_options *options);
void scene_close(struct scene *scene);

bool scene_has(const struct scene *scene, enum trouble_kind trouble);

/* The key's number, or -1. */
int scene_find(const struct scene *scene, const char *bytes, size_t len);

/* Exponentially distributed, so that events come at random moments: at least 1. */
int64_t draw_exponential(struct rng *rng, double mean);
bool draw_chance(struct rng *rng, double probability);
