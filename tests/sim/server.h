/* The origin's server: statements with their locks, as guarded builds have them in PostgreSQL.
 *
 * A statement takes the advisory lock of its slot, then those of its keys, or ends at once where it
 * gets none; then it reads the rows as they are committed, and runs for a while. When its daemon is
 * gone it goes on until the server looks whether the connection still stands.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/origin.h"
#include "scene.h"

enum { CONNECTION_CHECK_US = SECOND }; /* client_connection_check_interval */

struct fleet;
struct node;
struct server {
	struct fleet *fleet;
	struct rng rng, feeds; /* feeds: of those who read the log */
	struct list running;   /* statements at the server */
	uint32_t statements;   /* all that are not freed */
	/* Set by trouble.c. */
	bool refuses;
	double hangs, fails; /* the share of statements that do */
	int slower;          /* builds take so many times longer; 0: as usual */
};

void server_init(struct server *server, struct fleet *fleet);

/* The node's origin. */
struct origin server_iface(struct node *node);

/* The node is dying: its builds are over for it, the statements go on. */
void server_abandon(struct node *node);

/* All connections break; the statements end too, or go on for a while. */
void server_crash(struct server *server);
void server_drop(struct server *server, double share);
void server_break_readers(struct server *server);
