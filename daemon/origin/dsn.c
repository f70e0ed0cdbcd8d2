#include "origin/dsn.h"

#include <errno.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* "5432", or a list: "5432,,5433", each for a host. */
static bool dsn_has_port(const char *ports)
{
	while (*ports) {
		size_t len = strcspn(ports, ",");

		if (strspn(ports, "0123456789") < len || len > 5 || strtol(ports, NULL, 10) > 65535)
			return false;
		ports += len + (ports[len] == ',');
	}
	return true;
}

/* An abstract socket begins with an @. */
static bool dsn_has_host(const char *hosts)
{
	while (*hosts) {
		size_t len = strcspn(hosts, ",");

		if (len > 0 && memchr(hosts + 1, '@', len - 1))
			return false;
		hosts += len + (hosts[len] == ',');
	}
	return true;
}

int dsn_check(const char *dsn)
{
	char *message = NULL; /* may quote parts of it, and so a password */
	PQconninfoOption *options = PQconninfoParse(dsn, &message);
	int error = options ? 0 : message ? -EINVAL : -ENOMEM;

	for (const PQconninfoOption *option = options; option && option->keyword; option++) {
		bool is_host = strcmp(option->keyword, "host") == 0;

		if (!option->val || (!is_host && strcmp(option->keyword, "port") != 0))
			continue;
		if (!(is_host ? dsn_has_host : dsn_has_port)(option->val))
			error = -EINVAL;
	}
	PQfreemem(message);
	PQconninfoFree(options);
	return error;
}
