/* The simulated store and the real one, side by side: what is done to one is done to the other, and
 * what they answer, tell and keep is compared.
 *
 *                   ┌─> sim/shared.c                        ── answer ─┐
 *   act ──> twins ──┤                                                  ├─ the same?
 *                   └─> store/redis.c ─ wire ─> Redis, lua/ ── answer ─┘
 *
 *   twins.c   acts, time, what is heard
 *   deeds.c   operations (deed.h)
 *   chores.c  what daemons do for themselves: time, place, trust, amends
 *   feeds.c   the origin's log of changes: who reads it, what is applied
 *   stock.c   what is stored
 *
 * Answers are compared as text, so that a difference can be read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <uv.h>

#include "act.h"
#include "model.h"
#include "store/redis_state.h"

/* Few keys, so that acts meet: one or two of each keyspace. */
enum {
	TWINS_DAEMONS_MAX = 4,
	TWINS_PACES = 2,
	TWINS_KEYS = 4,
	TEXT_BYTES = 16384,
	TWINS_LEASE_MOST_US = 30 * 1000 * 1000, /* since it was given */
};

struct twins {
	uv_loop_t loop;
	struct scene scene;
	struct keyspace keyspaces[KEYSPACES];
	struct shared *shared;
	struct redis_store *daemons[TWINS_DAEMONS_MAX];
	int daemons_count;
	int keys[TWINS_KEYS]; /* numbers in the scene */
	uint64_t lives;       /* daemons so far */
	int64_t local_us, server_us;
	struct shared_row rows[TWINS_DAEMONS_MAX]; /* of the simulated daemons' beats */
	struct amends amends[TWINS_DAEMONS_MAX];   /* as the simulated daemons have them */
	bool told_by_daemons;                      /* a listener has been told */
	unsigned learned;                          /* by verb: the server surely knows its script */
	int positions;                             /* of the log's reader, so far */
	bool traced;

	bool differs;
	char difference[3 * TEXT_BYTES];
};

void twins_open(struct twins *twins, uint64_t seed, const char *socket, int64_t *stands_at_us,
		bool traced);
void twins_close(struct twins *twins);

/* Does it to both. False where they differ, then or before. */
bool twins_do(struct twins *twins, const struct act *act);

/* Compares all that is stored. */
bool twins_agree(struct twins *twins);

/* Between the files. A text on each side: prints say the same, or not. */
struct pair {
	bool quiet; /* not for the trace */
	FILE *sim, *real;
	char sim_text[TEXT_BYTES], real_text[TEXT_BYTES];
};
void pair_open(struct pair *pair);
void pair_compare(struct pair *pair, struct twins *twins, const char *what); /* and closes it */

void twins_stand(struct twins *twins, int64_t local_us, int64_t server_us);
void twins_turn(struct twins *twins); /* carries, and lets the daemons hear of it */
struct caller twins_caller(const struct twins *twins, int daemon);
void twins_note(const struct twins *twins, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void deeds_do(struct twins *twins, const struct act *act);
void feeds_do(struct twins *twins, const struct act *act);
void chores_do(struct twins *twins, const struct act *act);
void chores_clock(struct twins *twins, int daemon);
void chores_start(struct twins *twins, int daemon);
void chores_amend(struct twins *twins, int daemon);
void stock_compare(struct twins *twins);
void stock_sweep(struct twins *twins); /* what has ended is gone from both */
void stock_forget(struct twins *twins, const struct act *act);

/* A moment at which something ends, or will: after now, or 0. */
int64_t stock_edge(const struct twins *twins, struct rng *rng);
