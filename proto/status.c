#include "proto/status.h"

#include <string.h>

static const char *const names[] = {
#define X(number, NAME, name, text) [number] = #name,
	STATUS_MAP(X)
#undef X
};

static const char *const texts[] = {
#define X(number, NAME, name, text) [number] = text,
	STATUS_MAP(X)
#undef X
};

const char *status_name(enum status status)
{
	return (unsigned)status < STATUS_COUNT ? names[status] : "unknown_status";
}

const char *status_text(enum status status)
{
	return (unsigned)status < STATUS_COUNT ? texts[status] : "unknown status";
}

int status_from_name(const char *name, size_t len)
{
	for (int i = 0; i < STATUS_COUNT; i++)
		if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
			return i;
	return -1;
}
