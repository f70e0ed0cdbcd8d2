#include "origin/types.h"

#include <stddef.h>

const char *pg_type_name(uint32_t oid)
{
	switch (oid) {
#define X(NAME, number, name)                                                                      \
	case number:                                                                               \
		return name;
		PG_TYPE_MAP(X)
#undef X
	}
	return NULL;
}
