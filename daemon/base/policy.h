/* What the operator asked for, as plain data: one struct a part of the configuration file.
 *
 * config.c fills these from YAML and owns them; everything else reads them. All times are in
 * microseconds, all sizes in bytes, all rates in events per second. A struct config does not change
 * once it is loaded: a reload makes a new one, and the old one goes with the last who holds one of
 * its policies.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/value.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };
enum log_keys { LOG_KEYS_PLAIN, LOG_KEYS_HASHED };

/* What a change of its rows does to a value. */
enum on_change {
	ON_CHANGE_IGNORE,  /* nothing: it lives as long as it is fresh */
	ON_CHANGE_REFRESH, /* it is fresh no more, and refreshed at once where it is read a lot */
	ON_CHANGE_EXPIRE,  /* it is fresh no more, and refreshed when it is asked for */
	ON_CHANGE_INVALIDATE, /* nor may it be served stale */
};

/* Where policies live, and who holds them. On the loop's thread. */
struct policy_home {
	uint32_t refs;
	void (*release)(struct policy_home *home); /* with the last reference */
};

/* A query that builds many keys at once. */
struct batch_policy {
	char *query;       /* owned, as a policy's; $1 is the keys' array; NULL: there is none */
	int64_t linger_us; /* how long a key that is to be built waits for company; 0: for those
			      of the same turn of the loop */
	int max;           /* keys of one statement, 2 to BATCH_KEYS_MAX */
};

/* One keyspace: a query and how fresh its values must be. */
struct policy {
	struct policy_home *home; /* borrowed; NULL: it outlives all who know it */
	char *name;               /* owned; [A-Za-z0-9_.-]{1,64} */
	char *query; /* owned; without trailing blanks and semicolon; it may end in a -- comment */
	bool single_row;     /* the value comes from one row: versions order it */
	int64_t fresh_us;    /* a value is fresh for this long, give or take the jitter */
	int64_t stale_us;    /* and may then be served stale for this long; 0: never */
	double early;        /* beta of early refresh: how eager; 0: off */
	double jitter;       /* share of fresh_us, 0 to 0.5 */
	int64_t negative_us; /* how long "no such row" stays fresh */
	int64_t error_us;    /* how long a failed build is remembered */
	int64_t wait_us;     /* a request's deadline where it names none */
	int64_t build_timeout_us;
	int64_t lease_us; /* how long a lease lasts unless it is renewed; 0: by the build times */
	int64_t changeover_us; /* over which time values of a changed query go; 0: by fresh_us */
	enum on_change on_change;
	unsigned log_level; /* of events of its keys: 0 as all others, else enum log_level and 1 */
	struct value *default_value; /* owned reference; the static degraded value, or NULL */
	struct batch_policy batch;
	/* Where the keyspace stands in the file, for messages at run time. */
	int line;
};

struct listen_policy {
	char *socket;    /* owned; absolute path, at most 107 bytes */
	unsigned mode;   /* permission bits of the socket */
	char *group;     /* owned; NULL: the daemon's own */
	int64_t poll_us; /* the loop looks for requests so long before it sleeps; 0: it sleeps */
};

/* What the processes of one user, or of one group, may do. */
struct access_rule {
	char *uid, *gid;  /* owned; a name or a number, as written; one of them is NULL */
	char **methods;   /* owned, up to NULL; NULL: all */
	char **keyspaces; /* owned, up to NULL; NULL: all */
	uint32_t id;      /* the user's or the group's */
	int line;
};

struct origin_policy {
	char *dsn;           /* owned; libpq's conninfo or URI */
	int concurrency;     /* statements at once, over the fleet */
	double budget_per_s; /* builds started per second, over the fleet */
	int fleet;           /* daemons that share the budget */
	bool pooler;         /* a PgBouncer stands before it */
	int64_t build_timeout_us;
	bool standby; /* builds read one, which may lag behind the log of changes */
};

struct near_policy {
	int64_t trust_us; /* how long near values need no look at the shared store after a beat */
	size_t memory;    /* bytes, all of the near cache's own cost included */
	int hot;          /* so many of the hottest keys are known, and kept over a restart */
	double hot_refresh_per_s; /* of these, built anew after a restart */
};

/* How the daemon hears of changes. */
struct feed_policy {
	char *dsn;            /* owned; the database whose log is read; NULL: the origin's */
	int64_t poll_us;      /* how often it is read without a bell */
	int64_t retention_us; /* how long it is kept at least */
};

/* A plan: keys that are warmed up together. */
struct warm_policy {
	char *name;         /* owned; [A-Za-z0-9_.-]{1,64} */
	char *query;        /* owned; its rows are keys. Of these three one is not NULL */
	char *file;         /* owned; a key a line */
	char *keyspace;     /* owned; its hottest keys */
	double rate_per_s;  /* statements started per second, over the fleet; 0: what the budget
			       leaves */
	int retries;        /* of a key that fails */
	int64_t timeout_us; /* of `query` */
	int line;
};

/* When the daemon says that it is ready. */
struct ready_policy {
	char *plan;         /* owned; once this one is done; NULL: when it serves */
	int64_t timeout_us; /* … or so long after its start */
};

struct limits_policy {
	int connections;             /* open client connections */
	int requests;                /* requests that wait, over all connections */
	int requests_per_connection; /* of these, on one connection */
	int connections_per_user;    /* of the processes of one user */
	int requests_per_user;       /* that wait, over all connections of one user */
	int queue;                   /* flights waiting for the origin, per priority */
};

struct config {
	struct policy_home home; /* of its keyspaces; the first reference is the loader's */
	char *path;              /* owned; the file it came from */
	uint64_t digest;         /* of the file's bytes: tells configurations apart */
	struct listen_policy listen;
	char *store_url;           /* owned; as base/store_url.h reads it */
	char *store_password_file; /* owned; or NULL */
	char *store_prefix; /* owned; sets this fleet apart: part of its advisory locks' names */
	struct origin_policy origin;
	struct near_policy near;
	struct feed_policy feed;
	char *trace_file;     /* owned; or NULL */
	char *metrics_listen; /* owned; as base/endpoint.h reads it; NULL: nowhere */
	char *state_dir;      /* owned; or NULL: nothing is kept */
	struct limits_policy limits;
	enum log_level log_level;
	enum log_format log_format;
	enum log_keys log_keys;
	char *log_salt;           /* owned; or NULL */
	struct policy *keyspaces; /* owned array */
	size_t keyspaces_count;
	struct warm_policy *warm; /* owned array */
	size_t warm_count;
	struct ready_policy ready;
	struct access_rule *access; /* owned array; none: everyone may do everything */
	size_t access_count;
};

/* Keeps the policy's home. NULL is fine for both. */
static inline const struct policy *policy_ref(const struct policy *policy)
{
	if (policy && policy->home)
		policy->home->refs++;
	return policy;
}

static inline void policy_unref(const struct policy *policy)
{
	if (policy && policy->home && --policy->home->refs == 0)
		policy->home->release(policy->home);
}
