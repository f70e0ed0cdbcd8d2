#include "origin/types.h"

#include <stddef.h>

const char *pg_type_name(uint32_t oid)
{
	switch (oid) {
#define X(NAME, number, array, name)                                                               \
	case number:                                                                               \
		return name;
		PG_TYPE_MAP(X)
#undef X
	}
	return NULL;
}

uint32_t pg_type_element(uint32_t oid)
{
	switch (oid) {
#define X(NAME, number, array, name)                                                               \
	case array:                                                                                \
		return number;
		PG_TYPE_MAP(X)
#undef X
	}
	return 0;
}
