/* The PostgreSQL types that this daemon knows by number. Built-in types never change theirs
 * (src/include/catalog/pg_type.dat); libpq ships no header with them.
 */
#pragma once

#include <stdint.h>

/* X(NAME, oid, name) */
#define PG_TYPE_MAP(X)                                                                             \
	X(BOOL, 16, "boolean")                                                                     \
	X(BYTEA, 17, "bytea")                                                                      \
	X(NAME, 19, "name")                                                                        \
	X(INT8, 20, "bigint")                                                                      \
	X(INT2, 21, "smallint")                                                                    \
	X(INT4, 23, "integer")                                                                     \
	X(TEXT, 25, "text")                                                                        \
	X(OID, 26, "oid")                                                                          \
	X(JSON, 114, "json")                                                                       \
	X(XML, 142, "xml")                                                                         \
	X(FLOAT4, 700, "real")                                                                     \
	X(FLOAT8, 701, "double precision")                                                         \
	X(INET, 869, "inet")                                                                       \
	X(BPCHAR, 1042, "character")                                                               \
	X(VARCHAR, 1043, "character varying")                                                      \
	X(DATE, 1082, "date")                                                                      \
	X(TIME, 1083, "time")                                                                      \
	X(TIMESTAMP, 1114, "timestamp")                                                            \
	X(TIMESTAMPTZ, 1184, "timestamp with time zone")                                           \
	X(INTERVAL, 1186, "interval")                                                              \
	X(NUMERIC, 1700, "numeric")                                                                \
	X(UUID, 2950, "uuid")                                                                      \
	X(JSONB, 3802, "jsonb")

enum pg_type {
#define X(NAME, oid, name) PG_TYPE_##NAME = oid,
	PG_TYPE_MAP(X)
#undef X
};

/* The type's name in SQL, or NULL where it is not one of these. Static storage; any thread. */
const char *pg_type_name(uint32_t oid);
