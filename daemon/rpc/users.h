/* The users whose processes are connected, and what each of them takes up: so that one user's
 * clients cannot use up what is there for all.
 *
 * A list, walked only when a client connects: users of one host are few, and each has a connection.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"

struct user {
	struct list_node node; /* in the server's */
	uid_t uid;
	uint32_t refs;        /* connections, those included that are only refused */
	uint32_t connections; /* the others */
	uint32_t weight;      /* requests that wait */
};

/* The user of that number, with one reference more; NULL: there is no memory. */
struct user *users_join(struct list *users, uid_t uid) __attribute__((warn_unused_result));

/* One reference less; with the last one the user goes. */
void users_leave(struct list *users, struct user *user);
