#include "origin/guard.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "origin/placeholder.h"
#include "origin/types.h"

/* The value as the client gets it. Text goes as it is, and bytea as its bytes; all others as their
 * output function writes them, which casts to text do not always do (`true` for `t`, no blanks
 * behind a character(n)). Without a cast, a later change of the column's type makes the prepared
 * statement fail, and so be prepared again. */
static const char *value_expression(uint32_t type)
{
	switch (type) {
	case PG_TYPE_TEXT:
	case PG_TYPE_VARCHAR:
	case PG_TYPE_BPCHAR:
	case PG_TYPE_BYTEA:
		return "segar_s.value";
	case PG_TYPE_JSON:
	case PG_TYPE_JSONB:
		return "segar_s.value::text";
	}
	return "CASE WHEN num_nonnulls(segar_s.value) = 1 THEN format('%s', segar_s.value) END";
}

/* What TIMELINE calls, as GUARD_SYSTEM_SQL asks for: PostgreSQL checks the privilege for each when
 * the statement starts, also for those in a branch that is not taken. */
#define MAY(function) "pg_catalog.has_function_privilege('pg_catalog." function "', 'execute')"

const char GUARD_SYSTEM_SQL[] =
	"SELECT system_identifier FROM pg_catalog.pg_control_system() WHERE " MAY(
		"pg_control_checkpoint()") " AND " MAY("pg_control_recovery()") " AND " //
	MAY("pg_walfile_name(pg_lsn)") " AND " MAY("pg_current_wal_insert_lsn()");

#define TIMELINE                                                                                   \
	"CASE WHEN pg_catalog.pg_is_in_recovery() THEN"                                            \
	" (SELECT greatest(c.timeline_id, r.min_recovery_end_timeline)"                            \
	" FROM pg_catalog.pg_control_checkpoint() c, pg_catalog.pg_control_recovery() r)"          \
	" ELSE ('x' || substr(pg_catalog.pg_walfile_name("                                         \
	"pg_catalog.pg_current_wal_insert_lsn()), 1, 8))::bit(32)::integer END"

const char GUARD_HISTORY_SQL[] =
	"SELECT system_identifier, " TIMELINE " FROM pg_catalog.pg_control_system() WHERE " MAY(
		"pg_control_checkpoint()") " AND " MAY("pg_control_recovery()") " AND " //
	MAY("pg_walfile_name(pg_lsn)") " AND " MAY("pg_current_wal_insert_lsn()");

const char GUARD_EVICT_SQL[] =
	"SELECT pg_catalog.pg_terminate_backend(a.pid) FROM pg_catalog.pg_locks l"
	" JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid AND a.datid = l.database"
	" WHERE l.locktype = 'advisory' AND l.granted"
	" AND (l.classid, l.objid) IN (SELECT c, o FROM ROWS FROM"
	" (pg_catalog.unnest($1::oid[]), pg_catalog.unnest($2::oid[])) AS segar_l(c, o))"
	" AND l.objsubid = $3::smallint"
	" AND a.datname = pg_catalog.current_database() AND a.usename = session_user"
	" AND split_part(a.application_name, ' ', 1) ="
	" split_part(pg_catalog.current_setting('application_name'), ' ', 1)"
	" AND a.pid <> pg_catalog.pg_backend_pid()"
	" AND (a.xact_start < pg_catalog.clock_timestamp() - $4::bigint * interval '1 ms'"
	" OR ($5::boolean AND a.wait_event = 'ClientWrite'))";

/* The query stands behind an OFFSET 0 of its own: pulled up, what computes its value would run for
 * each mention of it above. The names start with segar_: the query sees them, and its own must win.
 * It stands on lines of its own, since it may end in a comment. */
#define GUARD_FORMAT                                                                               \
	"WITH segar_g AS MATERIALIZED (SELECT CASE"                                                \
	" WHEN NOT pg_catalog.pg_try_advisory_xact_lock($%u, $%u) THEN %d"                         \
	" WHEN $%u IS NULL THEN %d"                                                                \
	" WHEN NOT pg_catalog.pg_try_advisory_xact_lock($%u) THEN %d"                              \
	" ELSE %d END AS segar_held, %s AS segar_timeline) "                                       \
	"SELECT segar_g.segar_held, $%u, "                                                         \
	"pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()),"                           \
	" segar_g.segar_timeline, segar_q.found, octet_length(segar_q.value),"                     \
	" CASE WHEN octet_length(segar_q.value) <= %d THEN segar_q.value END,"                     \
	" segar_q.version, segar_q.fresh_ms, segar_q.stale_ms "                                    \
	"FROM segar_g LEFT JOIN LATERAL (SELECT true AS found, %s AS value,"                       \
	" %s::bigint AS version, %s::bigint AS fresh_ms, %s::bigint AS stale_ms"                   \
	" FROM (SELECT * FROM (\n%s\n) segar_r OFFSET 0) segar_s"                                  \
	" WHERE segar_g.segar_held = %d LIMIT 2 OFFSET 0) segar_q ON true"

#define GUARD_ARGS(n)                                                                              \
	(n) + GUARD_PARAM_CLASS + 1, (n) + GUARD_PARAM_SLOT + 1, GUARD_SLOT_HELD,                  \
		(n) + GUARD_PARAM_KEY + 1, GUARD_FREE, (n) + GUARD_PARAM_KEY + 1, GUARD_KEY_HELD,  \
		GUARD_FREE, has_timeline ? TIMELINE : "NULL::integer",                             \
		(n) + GUARD_PARAM_TICKET + 1, VALUE_BYTES_MAX, value_expression(value_type),       \
		columns &GUARD_HAS_VERSION ? "segar_s.version" : "NULL",                           \
		columns &GUARD_HAS_FRESH_MS ? "segar_s.fresh_ms" : "NULL",                         \
		columns &GUARD_HAS_STALE_MS ? "segar_s.stale_ms" : "NULL", query, GUARD_FREE

char *guard_sql(const char *query, unsigned params_count, uint32_t value_type, unsigned columns,
		bool has_timeline)
{
	int len = snprintf(NULL, 0, GUARD_FORMAT, GUARD_ARGS(params_count));
	char *sql = mem_alloc((size_t)len + 1);

	if (sql)
		snprintf(sql, (size_t)len + 1, GUARD_FORMAT, GUARD_ARGS(params_count));
	return sql;
}

/* The forms of the array that $1 may have must all be those of an expression: after ANY, a subquery
 * alone would be one of rows. */
#define GUARD_BATCH_KEYS "(CASE WHEN true THEN (SELECT segar_g.segar_keys FROM segar_g) END)"

#define GUARD_BATCH_FORMAT                                                                         \
	"WITH segar_h AS MATERIALIZED (SELECT"                                                     \
	" pg_catalog.pg_try_advisory_xact_lock($2, $3) AS segar_ok, %s AS segar_timeline),"        \
	" segar_k AS MATERIALIZED (SELECT segar_a.segar_arg, segar_a.segar_n, CASE"                \
	" WHEN NOT segar_h.segar_ok THEN false"                                                    \
	" WHEN segar_a.segar_lock IS NULL THEN true"                                               \
	" ELSE pg_catalog.pg_try_advisory_xact_lock(segar_a.segar_lock) END AS segar_ok"           \
	" FROM segar_h, ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($4))"                  \
	" WITH ORDINALITY AS segar_a(segar_arg, segar_lock, segar_n)),"                            \
	" segar_g AS MATERIALIZED (SELECT"                                                         \
	" pg_catalog.array_agg(segar_arg ORDER BY segar_n) FILTER (WHERE segar_ok) AS segar_keys," \
	" pg_catalog.string_agg(CASE WHEN segar_ok THEN '1' ELSE '0' END, '' ORDER BY segar_n)"    \
	" AS segar_locked FROM segar_k) "                                                          \
	"SELECT CASE WHEN segar_h.segar_ok THEN %d ELSE %d END, $5, "                              \
	"pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()),"                           \
	" segar_h.segar_timeline, segar_q.found, octet_length(segar_q.value),"                     \
	" CASE WHEN octet_length(segar_q.value) <= %d AND pg_catalog.sum(CASE WHEN"                \
	" octet_length(segar_q.value) <= %d THEN octet_length(segar_q.value) END)"                 \
	" OVER (ROWS UNBOUNDED PRECEDING) <= %d THEN segar_q.value END,"                           \
	" segar_q.version, segar_q.fresh_ms, segar_q.stale_ms,"                                    \
	" segar_q.key, segar_g.segar_locked "                                                      \
	"FROM segar_h CROSS JOIN segar_g LEFT JOIN LATERAL (SELECT true AS found, %s AS value,"    \
	" %s::bigint AS version, %s::bigint AS fresh_ms, %s::bigint AS stale_ms,"                  \
	" segar_s.key::text AS key FROM (SELECT * FROM (\n%s\n) segar_r OFFSET 0) segar_s"         \
	" WHERE segar_g.segar_keys IS NOT NULL LIMIT %d OFFSET 0) segar_q ON true"

#define GUARD_BATCH_ARGS                                                                           \
	has_timeline ? TIMELINE : "NULL::integer", GUARD_FREE, GUARD_SLOT_HELD, VALUE_BYTES_MAX,   \
		VALUE_BYTES_MAX, BATCH_BYTES_MAX, value_expression(value_type),                    \
		columns &GUARD_HAS_VERSION ? "segar_s.version" : "NULL",                           \
		columns &GUARD_HAS_FRESH_MS ? "segar_s.fresh_ms" : "NULL",                         \
		columns &GUARD_HAS_STALE_MS ? "segar_s.stale_ms" : "NULL", locked,                 \
		GUARD_BATCH_ROWS_MAX + 1

char *guard_batch_sql(const char *query, uint32_t value_type, unsigned columns, bool has_timeline)
{
	char *locked = placeholder_replace(query, GUARD_BATCH_KEYS), *sql = NULL;
	int len;

	if (!locked)
		return NULL;
	len = snprintf(NULL, 0, GUARD_BATCH_FORMAT, GUARD_BATCH_ARGS);
	sql = mem_alloc((size_t)len + 1);
	if (sql)
		snprintf(sql, (size_t)len + 1, GUARD_BATCH_FORMAT, GUARD_BATCH_ARGS);
	mem_free(locked);
	return sql;
}

int32_t guard_slot_class(const char *lock_namespace)
{
	return (int32_t)(uint32_t)key_public_hash(lock_namespace, strlen(lock_namespace));
}

int64_t guard_key_lock(const char *lock_namespace, const struct key *key)
{
	return (int64_t)(key_public_hash(key->bytes, key->len) ^
			 key_public_hash(lock_namespace, strlen(lock_namespace)));
}
