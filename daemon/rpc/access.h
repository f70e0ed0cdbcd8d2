/* What a client may do: who it is, as the kernel tells (SO_PEERCRED, SO_PEERGROUPS; unix(7)),
 * against the rules of the configuration. It may do what any of the rules for its user or its
 * groups allows; without rules, everything.
 *
 * Who a client is was settled when it connected: a connection that is handed on keeps its rights.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/limits.h"
#include "base/policy.h"
#include "proto/method.h"

/* The rules in force, borrowed. */
struct access_rules {
	const struct access_rule *rules;
	size_t count; /* at most ACCESS_RULES_MAX */
};

/* Of one client. */
struct access {
	uid_t uid; /* (uid_t)-1: the kernel does not tell */
	pid_t pid;
	uint64_t fits;  /* the rules for it, a bit each */
	bool gets_all;  /* it may get the keys of every keyspace … */
	bool mgets_all; /* … and many at once */
};
static_assert(ACCESS_RULES_MAX <= 64, "a bit for each rule");

/* Asks the kernel who is at the other end of the socket. No I/O. */
void access_init(struct access *access, const struct access_rules *rules, int fd);

/* Whether the client may call the method on keys of that keyspace; NULL: of any. */
bool access_allows(const struct access *access, const struct access_rules *rules,
		   enum method method, const char *keyspace);
