/* A daemon's reader of the log of changes: the daemon's own (origin/feed.c and what it is made of),
 * over a connection and a database that are simulated.
 *
 *   feed.c, feed_begin.c, feed_rows.c, feed_words.c    the daemon's
 *      │ change_store                    │ feed_link.h
 *      v                                 v
 *   post.c ──> shared_feed.c          reader.c ──> changelog.c
 *
 * Its statements are known by their beginnings: what PostgreSQL makes of them is for the
 * integration tests. A connection breaks with the origin's; its bell may stay silent.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "errand.h"
#include "origin/feed.h"
#include "origin/feed_link.h"

struct node;
struct reader {
	struct node *node;
	struct feed *feed; /* owned; NULL: there is none */
	uv_loop_t loop;
	struct feed_link *link; /* the feed's; NULL: it has not begun */
	struct errand next;     /* what comes of what is under way */
	struct errand bell, end;
	bool breaks; /* with `next` the connection is lost */
	bool listens, rang;
	struct feed_statement statements[FEED_STATEMENTS_MAX]; /* owned copies of the parameters */
	PGresult *results[FEED_STATEMENTS_MAX];                /* owned */
	unsigned count;
	bool closes;
};

void reader_open(struct reader *reader, struct node *node);

/* Gives the right back and stops: then `feed` is NULL. */
void reader_close(struct reader *reader);

/* The bell of the log. */
void feed_ring(struct node *node);

/* All connections break. */
void reader_break(struct reader *reader);
