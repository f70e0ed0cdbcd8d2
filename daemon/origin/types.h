/* The PostgreSQL types that this daemon knows by number. Built-in types never change theirs
 * (src/include/catalog/pg_type.dat); libpq ships no header with them.
 */
#pragma once

#include <stdint.h>

/* X(NAME, oid, of its array, name) */
#define PG_TYPE_MAP(X)                                                                             \
	X(BOOL, 16, 1000, "boolean")                                                               \
	X(BYTEA, 17, 1001, "bytea")                                                                \
	X(NAME, 19, 1003, "name")                                                                  \
	X(INT8, 20, 1016, "bigint")                                                                \
	X(INT2, 21, 1005, "smallint")                                                              \
	X(INT4, 23, 1007, "integer")                                                               \
	X(TEXT, 25, 1009, "text")                                                                  \
	X(OID, 26, 1028, "oid")                                                                    \
	X(JSON, 114, 199, "json")                                                                  \
	X(XML, 142, 143, "xml")                                                                    \
	X(FLOAT4, 700, 1021, "real")                                                               \
	X(FLOAT8, 701, 1022, "double precision")                                                   \
	X(INET, 869, 1041, "inet")                                                                 \
	X(BPCHAR, 1042, 1014, "character")                                                         \
	X(VARCHAR, 1043, 1015, "character varying")                                                \
	X(DATE, 1082, 1182, "date")                                                                \
	X(TIME, 1083, 1183, "time")                                                                \
	X(TIMESTAMP, 1114, 1115, "timestamp")                                                      \
	X(TIMESTAMPTZ, 1184, 1185, "timestamp with time zone")                                     \
	X(INTERVAL, 1186, 1187, "interval")                                                        \
	X(NUMERIC, 1700, 1231, "numeric")                                                          \
	X(UUID, 2950, 2951, "uuid")                                                                \
	X(JSONB, 3802, 3807, "jsonb")

enum pg_type {
#define X(NAME, oid, array, name) PG_TYPE_##NAME = oid, PG_TYPE_##NAME##_ARRAY = array,
	PG_TYPE_MAP(X)
#undef X
};

/* The type's name in SQL, or NULL where it is not one of these. Static storage; any thread. */
const char *pg_type_name(uint32_t oid);

/* The type of an array's elements, or 0 where it is not the array of one of these. Any thread. */
uint32_t pg_type_element(uint32_t oid);
