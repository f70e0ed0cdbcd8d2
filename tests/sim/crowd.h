/* The clients: each daemon's own, who ask for keys of a Zipf mix over a few connections, want them
 * newer, forbid stale ones, invalidate, write to the origin and read what they wrote, and go away.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/pump.h"
#include "errand.h"
#include "scene.h"

/* A request that waits. */
struct call {
	struct request request;
	struct list_node link; /* in node->calls */
	struct node *node;
	struct errand leave;
	int key, connection;
	int64_t asked_us;       /* true time */
	int64_t asked_clock_us; /* the daemon's */
	bool hot;
	bool gone; /* its connection ended: no answer reaches anyone */
	bool over; /* answered, or taken back: it is among the crowd's graves */
};

struct fleet;
struct crowd {
	struct fleet *fleet;
	struct rng rng;           /* of those who write */
	struct visitor *visitors; /* owned; one a daemon */
	double zipf[KEYS_MAX];    /* cumulated */
	struct list graves;       /* the last calls that are over: none is answered once more */
	uint64_t calls;           /* requests and invalidations that wait */
	bool leaves;              /* set by trouble.c: clients go away */
};

void crowd_init(struct crowd *crowd, struct fleet *fleet);
void crowd_close(struct crowd *crowd);

/* The daemon runs anew: its clients come back. */
void crowd_connect(struct node *node);

/* It died: its clients see their connections end. */
void crowd_disconnect(struct node *node);

/* A row has a new version: sometimes its writer wants to see it. */
void crowd_on_commit(struct crowd *crowd, int row, int64_t version);

/* The query waits for its answer; a reader's of the hot key, or another. */
void crowd_wait(struct node *node, const struct query *query, int key, bool hot);

/* The operator ends a keyspace's freshness. */
void crowd_invalidate_keyspace(struct node *node, int keyspace, int64_t spread_us);

/* One plain get of the key. */
void crowd_get(struct node *node, int key);
