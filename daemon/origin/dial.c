#include "origin/dial.h"

#include <stdlib.h>
#include <string.h>

struct dial {
	PGconn *pg; /* owned; NULL before, and once taken */
	char dsn[]; /* a copy, since the thread may outlive the configuration */
};

static void dial_run(void *arg)
{
	struct dial *dial = arg;
	/* The DSN overrules what stands before it and is overruled by what follows. */
	const char *const parameters[][2] = {
		{ "keepalives_idle", "10" },   { "keepalives_interval", "5" },
		{ "keepalives_count", "3" },   { "tcp_user_timeout", "20000" },
		{ "dbname", dial->dsn },       { "application_name", DIAL_NAME },
		{ "client_encoding", "UTF8" },
	};
	enum { COUNT = sizeof(parameters) / sizeof(parameters[0]) };
	const char *keywords[COUNT + 1] = { 0 };
	const char *values[COUNT + 1] = { 0 };

	for (int i = 0; i < COUNT; i++) {
		keywords[i] = parameters[i][0];
		values[i] = parameters[i][1];
	}
	dial->pg = PQconnectStartParams(keywords, values, 1);
}

static void dial_drop(void *arg)
{
	struct dial *dial = arg;

	PQfinish(dial->pg);
	free(dial);
}

struct aside *dial_start(const char *dsn, uv_async_t *tell)
{
	static struct aside_quota quota = { .max = DIALS_MAX };
	static const struct aside_call call = { dial_run, dial_drop, &quota };
	size_t size = strlen(dsn) + 1;
	struct dial *dial = malloc(sizeof(*dial) + size);

	if (!dial)
		return NULL;
	dial->pg = NULL;
	memcpy(dial->dsn, dsn, size);
	return aside_start(&call, dial, tell);
}

PGconn *dial_take(struct aside *aside)
{
	struct dial *dial = aside_result(aside);
	PGconn *pg = dial ? dial->pg : NULL;

	if (dial)
		dial->pg = NULL;
	return pg;
}
