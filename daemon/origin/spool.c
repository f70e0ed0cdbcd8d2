#include "origin/spool.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/job.h"
#include "origin/aside.h"
#include "origin/trouble.h"
#include "proto/key.h"

enum { LINE_BYTES_MAX = 3 * KEY_TEXT_MAX, BAD_KEY_MAX = 200, HEED_MS = 100 };

/* The thread's. Not from base/mem.h, whose counter is the loop's alone. */
struct work {
	char *dsn, *query, *file, *path; /* owned */
	int64_t timeout_us;
	atomic_bool unwanted;
	FILE *out;
	char *scratch, *encoded; /* owned; of a key */
	int64_t keys, bytes;
	char error[SPOOL_ERROR_MAX]; /* empty: it went well */
};

struct spool {
	struct aside *aside;
	struct work *work; /* the aside's */
};

static void fail(struct work *work, const char *what, const char *why)
{
	snprintf(work->error, sizeof(work->error), "%.80s: %.160s", what, why);
	for (char *c = work->error; *c; c++)
		if (*c == '\n')
			*c = ' ';
}

static bool goes_on(const struct work *work)
{
	return !work->error[0] && !atomic_load(&work->unwanted);
}

/* ---- writing ----------------------------------------------------------------------------- */

/* What is no key is written as it is, for the list of those that failed. */
static void put_key(struct work *work, const char *text, size_t len)
{
	struct wire_error error;
	struct wire_key key = { .text = text, .len = len < BAD_KEY_MAX ? len : BAD_KEY_MAX };
	(void)!key_parse(text, len, work->scratch, &key, &error);
	size_t bytes =
		chunk_put(work->encoded, CHUNK_HEAD + KEY_TEXT_MAX, key.text, (uint32_t)key.len);
	if (fwrite(work->encoded, 1, bytes, work->out) != bytes) {
		fail(work, work->path, strerror(errno));
		return;
	}
	work->bytes += (int64_t)bytes;
	if (++work->keys > SPOOL_KEYS_MAX || work->bytes > SPOOL_BYTES_MAX)
		fail(work, "too many keys", "a plan has at most 100,000,000, and 16 GiB of them");
}

/* ---- a file ------------------------------------------------------------------------------ */

static void read_file(struct work *work)
{
	FILE *in = fopen(work->file, "re");
	char *line = NULL;
	size_t size = 0;
	ssize_t len;
	if (!in) {
		fail(work, work->file, strerror(errno));
		return;
	}
	while (goes_on(work) && (len = getline(&line, &size, in)) >= 0) {
		while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
			len--;
		if (len > LINE_BYTES_MAX)
			fail(work, work->file, "a line is longer than any key");
		else if (len > 0 && line[0] != '#')
			put_key(work, line, (size_t)len);
	}
	if (goes_on(work) && ferror(in))
		fail(work, work->file, "it can't be read");
	free(line);
	fclose(in);
}

/* ---- a query ----------------------------------------------------------------------------- */

static PGconn *connect_to(const char *dsn)
{
	/* The DSN overrules what stands before it and is overruled by what follows. */
	const char *const keywords[] = { "connect_timeout", "dbname", "application_name",
					 "client_encoding", NULL };
	const char *const values[] = { "10", dsn, "segard-warm", "UTF8", NULL };
	return PQconnectdbParams(keywords, values, 1);
}

static void take_rows(struct work *work, const PGresult *result)
{
	struct trouble trouble;
	ExecStatusType status = PQresultStatus(result);
	if (status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE) {
		trouble_from_result(&trouble, result, true);
		fail(work, "the plan's query", trouble.text);
		return;
	}
	if ((status != PGRES_SINGLE_TUPLE && status != PGRES_TUPLES_OK) || PQnfields(result) != 1) {
		fail(work, "the plan's query", "it must return one column, the key");
		return;
	}
	for (int i = 0; i < PQntuples(result) && goes_on(work); i++)
		if (!PQgetisnull(result, i, 0))
			put_key(work, PQgetvalue(result, i, 0), (size_t)PQgetlength(result, i, 0));
}

/* The server goes on for nobody: it is told, once, and not waited for. */
static void cancel(PGconn *pg)
{
	char text[256];
	PGcancel *way = PQgetCancel(pg);
	if (way) {
		PQcancel(way, text, sizeof(text));
		PQfreeCancel(way);
	}
}

/* Waits for the next result, however long the query takes to its first row, and heeds that it is
   unwanted meanwhile. NULL: there is none. */
static PGresult *next_result(struct work *work, PGconn *pg)
{
	while (goes_on(work) && PQisBusy(pg)) {
		struct pollfd input = { .fd = PQsocket(pg), .events = POLLIN };
		if (poll(&input, 1, HEED_MS) != 0 && !PQconsumeInput(pg))
			break;
	}
	return goes_on(work) ? PQgetResult(pg) : NULL;
}

static void run_query(struct work *work, PGconn *pg)
{
	char limit[64];
	PGresult *result;
	snprintf(limit, sizeof(limit), "SET statement_timeout = %lld",
		 (long long)(work->timeout_us / 1000));
	PQclear(PQexec(pg, limit));
	if (!PQsendQuery(pg, work->query) || !PQsetSingleRowMode(pg)) {
		fail(work, "the plan's query", PQerrorMessage(pg));
		return;
	}
	while ((result = next_result(work, pg))) {
		take_rows(work, result);
		PQclear(result);
	}
	if (!goes_on(work))
		cancel(pg);
	else if (PQstatus(pg) != CONNECTION_OK)
		fail(work, "the plan's query", PQerrorMessage(pg));
}

static void read_query(struct work *work)
{
	struct trouble trouble;
	PGconn *pg = connect_to(work->dsn);
	if (PQstatus(pg) == CONNECTION_OK) {
		run_query(work, pg);
	} else {
		trouble_from_message(&trouble, PQerrorMessage(pg));
		fail(work, "no connection to PostgreSQL", trouble.text);
	}
	PQfinish(pg);
}

/* ---- the thread -------------------------------------------------------------------------- */

static void work_run(void *arg)
{
	struct work *work = arg;
	char part[4200];
	snprintf(part, sizeof(part), "%s.part", work->path);
	work->out = fopen(part, "we");
	if (!work->out) {
		fail(work, part, strerror(errno));
		return;
	}
	if (work->query)
		read_query(work);
	else
		read_file(work);
	if (fclose(work->out) != 0 && goes_on(work))
		fail(work, part, strerror(errno));
	if (goes_on(work) && rename(part, work->path) != 0)
		fail(work, work->path, strerror(errno));
	if (!goes_on(work))
		unlink(part);
}

static void work_drop(void *arg)
{
	struct work *work = arg;
	free(work->dsn);
	free(work->query);
	free(work->file);
	free(work->path);
	free(work->scratch);
	free(work->encoded);
	free(work);
}

static char *copy(const char *text)
{
	return text ? strdup(text) : NULL;
}

static struct work *work_create(const struct spool_source *source, const char *path)
{
	struct work *work = calloc(1, sizeof(*work));
	if (!work)
		return NULL;
	work->dsn = copy(source->dsn);
	work->query = copy(source->query);
	work->file = copy(source->file);
	work->path = copy(path);
	work->timeout_us = source->timeout_us;
	work->scratch = malloc(KEY_TEXT_MAX);
	work->encoded = malloc(CHUNK_HEAD + KEY_TEXT_MAX);
	bool whole = work->path && work->scratch && work->encoded &&
		     (work->query ? work->dsn != NULL : work->file != NULL);
	if (whole)
		return work;
	work_drop(work);
	return NULL;
}

struct spool *spool_start(const struct spool_source *source, const char *path, uv_async_t *told)
{
	static struct aside_quota quota = { .max = SPOOLS_MAX };
	static const struct aside_call call = { work_run, work_drop, &quota };
	struct spool *spool = calloc(1, sizeof(*spool));
	struct work *work = spool ? work_create(source, path) : NULL;
	if (!work) {
		free(spool);
		return NULL;
	}
	spool->work = work;
	spool->aside = aside_start(&call, work, told);
	if (spool->aside)
		return spool;
	free(spool);
	return NULL;
}

bool spool_is_done(struct spool *spool, int64_t *ret_keys, const char **ret_error)
{
	const struct work *work = aside_result(spool->aside);
	if (!work)
		return false;
	*ret_keys = work->keys;
	*ret_error = work->error;
	return true;
}

void spool_end(struct spool *spool)
{
	if (!spool)
		return;
	atomic_store(&spool->work->unwanted, true);
	aside_free(spool->aside);
	free(spool);
}
