/* The keys of the configuration. */
#include <assert.h>

#include "base/config_access.h"
#include "base/config_checks.h"
#include "base/config_schema.h"
#include "base/limits.h"

#define LONGEST    (3650 * UNITS_DAY)
#define WAIT_MAX   (WAIT_MS_MAX * UNITS_MS)
#define JITTER_MAX (UNITS_PERCENT_ONE / 2)

static_assert(LONGEST < INT64_MAX / 4, "fresh with its jitter, plus stale, plus now, fits");

static const char *const levels[] = { "error", "warning", "info", "debug", NULL };
static const char *const key_forms[] = { "plain", "hashed", NULL };
static const char *const own_levels[] = { "inherit", "error", "warning", "info", "debug", NULL };
static const char *const formats[] = { "text", "json", NULL };
static const char *const on_changes[] = { "ignore", "refresh", "expire", "invalidate", NULL };

static const struct field listen_fields[] = {
	TEXT("socket", listen_policy, socket, DEFAULT("/run/segar/segard.sock"),
	     RANGE(1, SOCKET_PATH_MAX), FORM("an absolute path of at most 107 bytes"),
	     CHECKED_BY(config_check_socket),
	     HELP("The Unix socket on which applications connect.")),
	MODE("mode", listen_policy, mode, DEFAULT("0660"), CHECKED_BY(config_check_mode),
	     HELP("The socket's permissions. Who may write to it may connect.")),
	TEXT("group", listen_policy, group, RANGE(1, 64), FORM("the name of a group of this host"),
	     CHECKED_BY(config_check_group),
	     HELP("The socket's group; without it, the daemon's own.")),
	DURATION("poll_before_sleep", listen_policy, poll_us, DEFAULT("0ms"),
		 RANGE(0, 10 * UNITS_MS),
		 HELP("How long the daemon looks for more requests after the last ones before it "
		      "sleeps, such as 0.05ms. Spares a lone client the time to wake it (about "
		      "15 us a reply in place of 24), and keeps a processor busy as long as "
		      "requests come closer together than that. 0: it sleeps at once.")),
};
static const struct schema listen_schema = SCHEMA(listen_fields, listen_policy, NULL);

static const struct field store_fields[] = {
	TEXT("url", config, store_url, DEFAULT("none"), RANGE(1, 2048),
	     FORM("none, redis://[[user:]password@]host[:port][/db] or unix:///path[?db=N]"),
	     SECRET, CHECKED_BY(config_check_store_url),
	     HELP("The Redis that the fleet shares. `none`: this host stands alone.")),
	TEXT("password_file", config, store_password_file, RANGE(1, 4096), FORM("a file's name"),
	     HELP("The file whose first line is Redis' password; a name without `/` is one of the "
		  "service's credentials. In place of a password in the URL.")),
	TEXT("prefix", config, store_prefix, DEFAULT("segar:"), RANGE(1, 64), FORM("1 to 64 bytes"),
	     HELP("Sets this fleet apart from others that use the same Redis or the same origin: "
		  "begins all of its keys, and names its advisory locks.")),
};
static const struct schema store_schema = SCHEMA(store_fields, config, NULL);

static const struct field origin_fields[] = {
	TEXT("dsn", origin_policy, dsn, REQUIRED, SECRET, RANGE(1, 8192),
	     FORM("a libpq connection string, such as \"service=app\""),
	     HELP("How to reach PostgreSQL: a connection string or URI, as libpq takes it.")),
	COUNT("concurrency", origin_policy, concurrency, REQUIRED, RANGE(1, CONCURRENCY_CEILING),
	      HELP("How many queries may run at the origin at once, over the whole fleet.")),
	RATE("budget", origin_policy, budget_per_s, LIVE, REQUIRED,
	     RANGE(UNITS_RATE_ONE / 60, 100000 * (int64_t)UNITS_RATE_ONE),
	     HELP("How many queries may start at the origin, over the whole fleet.")),
	COUNT("fleet", origin_policy, fleet, DEFAULT("1"), RANGE(1, FLEET_CEILING),
	      HELP("How many daemons share concurrency and budget.")),
	DURATION("build_timeout", origin_policy, build_timeout_us, LIVE, DEFAULT("30s"),
		 RANGE(UNITS_MS, UNITS_HOUR),
		 HELP("How long one query may take before it is cancelled.")),
	BOOL("standby", origin_policy, standby, DEFAULT("false"),
	     HELP("Whether `dsn` leads to a standby, or may. Its builds lag behind the log of "
		  "changes (`feed.dsn`, on the primary): those that have not seen a change are "
		  "stale.")),
	BOOL("pooler", origin_policy, pooler, DEFAULT("false"),
	     HELP("PgBouncer, or the like, stands before PostgreSQL and gives out its connections "
		  "by "
		  "the transaction. Builds then are transactions of their own, without prepared "
		  "statements or settings that last; the log of changes takes a feed.dsn past "
		  "it.")),
};
static const struct schema origin_schema = SCHEMA(origin_fields, origin_policy, NULL);

static const struct field near_fields[] = {
	SIZE("memory", near_policy, memory, LIVE, DEFAULT("256MiB"),
	     RANGE(UNITS_MIB, 1024 * UNITS_GIB),
	     HELP("What the values in the daemon's own memory may take, all cost included.")),
	DURATION("trust", near_policy, trust_us, DEFAULT("2s"), RANGE(0, UNITS_MINUTE),
		 HELP("How long values in the daemon's own memory need no look at the shared store "
		      "after its last sign of life; 0: each read looks.")),
	COUNT("hot", near_policy, hot, DEFAULT("1000"), RANGE(0, HOT_KEYS_CEILING),
	      HELP("How many of the keys that are asked for most are known, for `top`, and kept in "
		   "`state_dir`: after a restart their values are fetched from the shared store. "
		   "0: none.")),
	RATE("hot_refresh", near_policy, hot_refresh_per_s, DEFAULT("5/s"),
	     RANGE(UNITS_RATE_ONE / 60, 1000 * (int64_t)UNITS_RATE_ONE),
	     HELP("How many of those that the store no longer has this daemon builds a second: "
		  "within the budget, and after all else.")),
};
static const struct schema near_schema = SCHEMA(near_fields, near_policy, NULL);

static const struct field feed_fields[] = {
	TEXT("dsn", feed_policy, dsn, SECRET, RANGE(1, 8192),
	     FORM("a libpq connection string, such as \"service=app\""),
	     HELP("How to reach the database whose log of changes is read, past any pooler; "
		  "without it, "
		  "origin.dsn.")),
	DURATION("poll", feed_policy, poll_us, DEFAULT("1s"), RANGE(10 * UNITS_MS, UNITS_MINUTE),
		 HELP("How often the log is read where nothing rings: for tables that change "
		      "without "
		      "NOTIFY, and in case one is lost.")),
	DURATION("retention", feed_policy, retention_us, DEFAULT("1h"),
		 RANGE(UNITS_SECOND, LONGEST),
		 HELP("How long the log is kept, at least; what no fleet has read yet is kept "
		      "longer.")),
};
static const struct schema feed_schema = SCHEMA(feed_fields, feed_policy, NULL);

static const struct field log_fields[] = {
	CHOICE("level", config, log_level, levels, LIVE, DEFAULT("info"),
	       HELP("The least important events that are logged.")),
	CHOICE("keys", config, log_keys, key_forms, LIVE, DEFAULT("plain"),
	       HELP("How keys are logged: `plain`, or `hashed`: the keyspace, and a number that "
		    "stands for the arguments. What PostgreSQL says of an error may still quote "
		    "them.")),
	TEXT("salt", config, log_salt, LIVE, SECRET, RANGE(1, 256), FORM("a text"),
	     HELP("What the numbers of hashed keys depend on: the same on all hosts, so that their "
		  "logs can be compared, and known to nobody who may only read those.")),
	CHOICE("format", config, log_format, formats, LIVE, DEFAULT("text"),
	       HELP("One line an event, on stderr: `text` is key=value pairs, `json` an object.")),
};
static const struct schema log_schema = SCHEMA(log_fields, config, NULL);

static const struct field metrics_fields[] = {
	TEXT("listen", config, metrics_listen, RANGE(1, 256),
	     FORM("127.0.0.1:9633, [::1]:9633 or unix:/path"), CHECKED_BY(config_check_endpoint),
	     HELP("Where Prometheus reads the daemon's metrics, by HTTP, at /metrics; without it, "
		  "nowhere. Who can connect there may read them.")),
};
static const struct schema metrics_schema = SCHEMA(metrics_fields, config, NULL);

static const struct field trace_fields[] = {
	TEXT("file", config, trace_file, RANGE(1, 4000), FORM("an absolute path"),
	     CHECKED_BY(config_check_path),
	     HELP("The file, or the fifo, to which the spans of traced requests are appended as "
		  "OTLP/JSON, for OpenTelemetry's collector; without it, there are none. Of those "
		  "requests only whose `trace` says that it is sampled.")),
};
static const struct schema trace_schema = SCHEMA(trace_fields, config, NULL);

static const struct field limits_fields[] = {
	COUNT("connections", limits_policy, connections, LIVE, DEFAULT("10000"),
	      RANGE(1, CONNECTIONS_CEILING), HELP("Open client connections.")),
	COUNT("requests", limits_policy, requests, LIVE, DEFAULT("100000"),
	      RANGE(1, REQUESTS_CEILING),
	      HELP("Requests that wait at once, over all connections.")),
	COUNT("requests_per_connection", limits_policy, requests_per_connection, LIVE,
	      DEFAULT("10000"), RANGE(1, REQUESTS_CEILING), HELP("Of these, on one connection.")),
	COUNT("connections_per_user", limits_policy, connections_per_user, LIVE,
	      RANGE(1, CONNECTIONS_CEILING),
	      HELP("Open connections of one user's processes; without it, `connections`.")),
	COUNT("requests_per_user", limits_policy, requests_per_user, LIVE,
	      RANGE(1, REQUESTS_CEILING),
	      HELP("Requests that wait, of one user's processes; without it, `requests`.")),
	COUNT("queue", limits_policy, queue, LIVE, DEFAULT("10000"), RANGE(1, QUEUE_CEILING),
	      HELP("Refreshes that wait for the origin at once, for each priority.")),
};
static const struct schema limits_schema =
	SCHEMA(limits_fields, limits_policy, config_check_limits);

static const struct field batch_fields[] = {
	TEXT("query", batch_policy, query, REQUIRED, RANGE(1, QUERY_BYTES_MAX),
	     FORM("an SQL query with columns \"key\" and \"value\""),
	     CHECKED_BY(config_check_query),
	     HELP("SQL that takes the array of the keys' arguments as $1, as in `WHERE id = "
		  "ANY($1)`, "
		  "and returns at most one row for each: with the argument in the column `key`, "
		  "and "
		  "the columns of the keyspace's query, which takes one argument.")),
	DURATION("linger", batch_policy, linger_us, DEFAULT("1ms"), RANGE(0, UNITS_SECOND),
		 HELP("How long one that is to be built waits for others; 0: only for those of the "
		      "same moment, such as the keys of one mget.")),
	COUNT("max", batch_policy, max, DEFAULT("64"), RANGE(2, BATCH_KEYS_MAX),
	      HELP("Keys of one statement; a full one doesn't linger.")),
};
static const struct schema batch_schema = SCHEMA(batch_fields, batch_policy, NULL);

static const struct field keyspace_fields[] = {
	TEXT("name", policy, name, REQUIRED, RANGE(1, KEYSPACE_NAME_MAX),
	     FORM("1 to 64 of A-Z a-z 0-9 _ . -"), CHECKED_BY(config_check_name),
	     HELP("The first part of each key: `name:argument`.")),
	TEXT("query", policy, query, REQUIRED, RANGE(1, QUERY_BYTES_MAX),
	     FORM("an SQL query with a column \"value\""), CHECKED_BY(config_check_query),
	     HELP("What builds a value: SQL that returns at most one row, with the key's arguments "
		  "as $1, $2 and on. The column `value` is served, `version` orders it.")),
	BOOL("single_row", policy, single_row, DEFAULT("false"),
	     HELP("The value comes from one row of one table, so that its versions order it.")),
	DURATION("fresh", policy, fresh_us, REQUIRED, RANGE(UNITS_MS, LONGEST),
		 HELP("How long a value is fresh.")),
	DURATION("stale", policy, stale_us, DEFAULT("30s"), RANGE(0, LONGEST),
		 HELP("How long it may be served after that, while it is refreshed; 0: never.")),
	PERCENT("jitter", policy, jitter, DEFAULT("10%"), RANGE(0, JITTER_MAX),
		HELP("By how much the fresh time of each value varies, so that values built "
		     "together do not expire together.")),
	DURATION("negative", policy, negative_us, DEFAULT("5s"), RANGE(0, LONGEST),
		 HELP("How long \"no such row\" is fresh; 0: it is not remembered.")),
	DURATION("error", policy, error_us, DEFAULT("2s"), RANGE(UNITS_MS, UNITS_HOUR),
		 HELP("How long a failed build is remembered before the next one; doubled with "
		      "each that "
		      "fails in a row, up to 32 times.")),
	DURATION("wait", policy, wait_us, DEFAULT("1s"), RANGE(0, WAIT_MAX),
		 HELP("How long a request waits for a value, where it does not say itself.")),
	DURATION("build_timeout", policy, build_timeout_us, RANGE(UNITS_MS, UNITS_HOUR),
		 HELP("How long the query may take; without it, origin.build_timeout.")),
	BYTES("default", policy, default_value, RANGE(0, VALUE_BYTES_MAX), FORM("a text"),
	      HELP("The value to answer with when there is neither a fresh nor a stale one; null "
		   "or "
		   "without it: an error.")),
	FACTOR("early", policy, early, DEFAULT("1"), RANGE(0, 10 * UNITS_FACTOR_ONE),
	       HELP("How eagerly a value is refreshed before it expires: XFetch's beta, in units "
		    "of "
		    "what a refresh takes. 0: only after it has expired.")),
	DURATION("lease", policy, lease_us, DEFAULT("auto"), OR_WORD("auto"),
		 RANGE(100 * UNITS_MS, UNITS_HOUR),
		 HELP("How long a daemon holds the right to build a key without renewing it: after "
		      "that, a crashed one is taken over from. auto: by how long builds take.")),
	CHOICE("log", policy, log_level, own_levels, DEFAULT("inherit"),
	       HELP("The least important events of its keys that are logged (`info` has one for "
		    "each build). inherit: as log.level says.")),
	DURATION("changeover", policy, changeover_us, DEFAULT("auto"), OR_WORD("auto"),
		 RANGE(UNITS_MS, UNITS_DAY),
		 HELP("Over which time the values of a query that has changed are built anew, one "
		      "key "
		      "after the other. auto: a minute, or `fresh` where that is less.")),
	CHOICE("on_change", policy, on_change, on_changes, DEFAULT("ignore"),
	       HELP("What a change of the rows does to the value, once it is committed; their "
		    "tables "
		    "are tracked by `segar.track`. `refresh`: it is fresh no more, and refreshed "
		    "at "
		    "once where it is read a lot. `expire`: it is fresh no more, and refreshed "
		    "when it "
		    "is asked for. `invalidate`: nor is it served stale. `ignore`: nothing, it "
		    "lives "
		    "as long as it is fresh.")),
	MAP("batch", policy, batch, &batch_schema, LIVE, OPTIONAL,
	    HELP("A query that builds many keys at once. Values that are to be built and come "
		 "close "
		 "together become one statement, and take one of the origin's budget.")),
};
const struct schema config_keyspace_schema = SCHEMA(keyspace_fields, policy, config_check_keyspace);

static const struct field warm_fields[] = {
	TEXT("name", warm_policy, name, REQUIRED, RANGE(1, KEYSPACE_NAME_MAX),
	     FORM("1 to 64 of A-Z a-z 0-9 _ . -"), CHECKED_BY(config_check_name),
	     HELP("What `segarctl warm` and `segar-warm@NAME.service` call it by.")),
	TEXT("query", warm_policy, query, RANGE(1, QUERY_BYTES_MAX),
	     FORM("an SQL query with one column, the key"), CHECKED_BY(config_check_query),
	     HELP("SQL whose rows are the keys, as in `SELECT 'product_config:' || id FROM …`; the "
		  "first are warmed first. It is run once, by one daemon, beside origin.budget.")),
	TEXT("file", warm_policy, file, RANGE(1, 4000), FORM("an absolute path"),
	     CHECKED_BY(config_check_path),
	     HELP("A file with a key a line, instead of `query`: on each host, the same. Empty "
		  "lines "
		  "and those that begin with # are none.")),
	TEXT("keyspace", warm_policy, keyspace, RANGE(1, KEYSPACE_NAME_MAX),
	     FORM("the name of a keyspace"),
	     HELP("A keyspace, instead of either: its keys that are asked for most, as far as the "
		  "daemon that is asked knows (`near.hot`).")),
	RATE("rate", warm_policy, rate_per_s,
	     RANGE(UNITS_RATE_ONE / 60, 100000 * (int64_t)UNITS_RATE_ONE),
	     HELP("How many of its statements may start, over the whole fleet; a batch is one. "
		  "Without it: what origin.budget leaves.")),
	COUNT("retries", warm_policy, retries, DEFAULT("2"), RANGE(0, WARM_RETRIES_MAX),
	      HELP("How often a key whose build fails is tried again.")),
	DURATION("timeout", warm_policy, timeout_us, DEFAULT("10m"), RANGE(UNITS_SECOND, UNITS_DAY),
		 HELP("How long `query` may take.")),
};
static const struct schema warm_schema = SCHEMA(warm_fields, warm_policy, config_check_plan);

static const struct field ready_fields[] = {
	TEXT("plan", ready_policy, plan, REQUIRED, RANGE(1, KEYSPACE_NAME_MAX),
	     FORM("the name of a plan of warm"), HELP("It is started with the daemon.")),
	DURATION("timeout", ready_policy, timeout_us, REQUIRED, RANGE(UNITS_SECOND, UNITS_DAY),
		 HELP("So long after its start the daemon is ready in any case.")),
};
static const struct schema ready_schema = SCHEMA(ready_fields, ready_policy, NULL);

/* Keyspaces come after what their checks rely on; those of access rely on them. */
static const struct field config_fields[] = {
	MAP("listen", config, listen, &listen_schema, HELP("Where applications connect.")),
	PART("store", &store_schema, HELP("What the fleet shares.")),
	MAP("origin", config, origin, &origin_schema,
	    HELP("PostgreSQL, and how much of it may be used.")),
	MAP("near", config, near, &near_schema, HELP("The cache in the daemon's own memory.")),
	MAP("feed", config, feed, &feed_schema,
	    HELP("How the daemon hears of changes of the rows that values come from; for keyspaces "
		 "with "
		 "`on_change`.")),
	PART("log", &log_schema, HELP("What the daemon writes to stderr.")),
	PART("trace", &trace_schema, HELP("How requests can be followed.")),
	PART("metrics", &metrics_schema, HELP("What monitors read.")),
	MAP("limits", config, limits, &limits_schema,
	    HELP("How much the daemon takes on; what is over a limit is answered with "
		 "`overloaded`.")),
	LIST("keyspaces", config, keyspaces, keyspaces_count, &config_keyspace_schema, LIVE,
	     REQUIRED, RANGE(0, KEYSPACES_MAX),
	     HELP("The families of keys: a query and its policy each.")),
	TEXT("state_dir", config, state_dir, RANGE(1, 4000), FORM("an absolute path"),
	     CHECKED_BY(config_check_state_dir),
	     HELP("Where the daemon keeps its place in the fleet and its hot keys, so that it "
		  "finds "
		  "them again after a restart, and the keys of warm-ups; without it, it asks for a "
		  "new place, begins with nothing, and has no plans.")),
	LIST("warm", config, warm, warm_count, &warm_schema, LIVE, RANGE(0, WARM_PLANS_MAX),
	     HELP("Plans: keys that are built before they are asked for, on request "
		  "(docs/WARMUP.md).")),
	MAP("ready_after_warm", config, ready, &ready_schema, OPTIONAL,
	    HELP("The daemon says that it is ready, in `hello` and to systemd, only when a plan is "
		 "done, or its time is up; it serves before.")),
	LIST("access", config, access, access_count, &access_schema, LIVE,
	     RANGE(0, ACCESS_RULES_MAX),
	     HELP("Who may do what: a process may do what one of the rules for its user or its "
		  "groups allows. Without rules, everyone who can connect may do everything.")),
};
const struct schema config_schema = SCHEMA(config_fields, config, config_check_whole);
