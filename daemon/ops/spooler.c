#include "ops/spooler.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "origin/spool.h"

enum {
	TICK_MS = 100,
	RIGHT_US = 3 * 1000 * 1000, /* to feed; lengthened each … */
	KEEP_MS = 1000,             /* … */
	TRY_MS = 1000,              /* for the right that another has; with jitter of a half */
	FULL_MS = 50,
	AHEAD_LEAST = 16,
	PATH_BYTES_MAX = 4200,
};

/* One job's. */
struct spooling {
	struct list_node node;
	struct spooler *spooler;
	char name[JOB_NAME_MAX];
	uint64_t id;
	char spec[JOB_SPEC_MAX];
	bool ours;           /* the right to feed it */
	bool over;           /* it runs no more, or all is fed */
	bool known;          /* to run: the warmer has heard of it */
	struct spool *spool; /* owned; under way */
	uint64_t spool_id;   /* names its file */
	int fd;              /* of the spool; -1: there is none yet */
	int64_t size, keys_total;
	char *keys; /* owned; those of a client; NULL: none */
	uint32_t keys_len, keys_count;
	int64_t fed;
	char *chunk; /* owned; what is being fed */
	struct job_call call;
	bool calling;
	uint64_t due_ms; /* the loop's clock: the next call */
};

/* The job, and which of its spools. */
static const char FILE_FORM[] = "warm-%016" PRIx64 "-%016" PRIx64 ".keys";

/* ---- names ------------------------------------------------------------------------------- */

void spooler_spec(enum spooler_kind kind, uint32_t retries, const char *keyspace,
		  char ret_spec[JOB_SPEC_MAX])
{
	static const char *const kinds[] = {
		[SPOOLER_PLAN] = "plan", [SPOOLER_KEYS] = "keys", [SPOOLER_HOT] = "hot"
	};
	snprintf(ret_spec, JOB_SPEC_MAX, "%s %u%s%s", kinds[kind], (unsigned)retries,
		 kind == SPOOLER_HOT ? " " : "", kind == SPOOLER_HOT ? keyspace : "");
}

static bool is_of(const char *spec, const char *kind)
{
	size_t len = strlen(kind);
	return strncmp(spec, kind, len) == 0 && spec[len] == ' ';
}

static bool path_of(const struct spooling *spooling, uint64_t spool, char ret_path[PATH_BYTES_MAX])
{
	const struct config *config = *spooling->spooler->options.config;
	char name[80];
	snprintf(name, sizeof(name), FILE_FORM, spooling->id, spool);
	if (!config->state_dir)
		return false;
	snprintf(ret_path, PATH_BYTES_MAX, "%.4000s/%s", config->state_dir, name);
	return true;
}

static const struct warm_policy *plan_of(const struct spooler *spooler, const char *name)
{
	const struct config *config = *spooler->options.config;
	for (size_t i = 0; i < config->warm_count; i++)
		if (strcmp(config->warm[i].name, name) == 0)
			return &config->warm[i];
	return NULL;
}

static struct spooling *find(const struct spooler *spooler, const char *name, uint64_t id)
{
	list_foreach (&spooler->spoolings, node) {
		struct spooling *spooling = container_of(node, struct spooling, node);
		if (spooling->id == id && strcmp(spooling->name, name) == 0)
			return spooling;
	}
	return NULL;
}

static struct spooling *add(struct spooler *spooler, const char *name, uint64_t id)
{
	struct spooling *spooling = mem_zalloc(sizeof(*spooling));
	if (!spooling)
		return NULL;
	list_node_init(&spooling->node);
	spooling->spooler = spooler;
	snprintf(spooling->name, sizeof(spooling->name), "%s", name);
	spooling->id = id;
	spooling->fd = -1;
	list_push_back(&spooler->spoolings, &spooling->node);
	return spooling;
}

/* ---- the spool --------------------------------------------------------------------------- */

static void drop_spool(struct spooling *spooling)
{
	spool_end(spooling->spool);
	spooling->spool = NULL;
	if (spooling->fd >= 0)
		close(spooling->fd);
	spooling->fd = -1;
}

static void drop_file(const struct spooling *spooling)
{
	char path[PATH_BYTES_MAX];
	if (!spooling->keys && path_of(spooling, spooling->spool_id, path))
		unlink(path);
}

/* Takes the file that is there. */
static bool open_file(struct spooling *spooling)
{
	char path[PATH_BYTES_MAX];
	struct stat info;
	if (!path_of(spooling, spooling->spool_id, path))
		return false;
	spooling->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (spooling->fd < 0)
		return false;
	spooling->size = fstat(spooling->fd, &info) == 0 ? info.st_size : 0;
	return true;
}

static void submit(struct spooling *spooling);

static void end_job(struct spooling *spooling, const char *why)
{
	struct job_call *call = &spooling->call;
	log_error("warm.failed", LOG_TEXT("job", spooling->name), LOG_TEXT("why", why));
	*call = (struct job_call){ .verb = JOB_END, .id = spooling->id, .end = JOB_FAILED };
	snprintf(call->why, sizeof(call->why), "%s", why);
	spooling->over = true;
	submit(spooling);
}

static void start_spool(struct spooling *spooling)
{
	struct spooler *spooler = spooling->spooler;
	const struct config *config = *spooler->options.config;
	const struct warm_policy *plan = plan_of(spooler, spooling->name);
	char path[PATH_BYTES_MAX];
	spooling->spool_id = ++spooler->serial ^ spooler->options.token;
	spooling->fed = 0;
	if (!plan || !path_of(spooling, spooling->spool_id, path)) {
		end_job(spooling, "its plan is not configured any more");
		return;
	}
	const struct spool_source source = { .dsn = config->origin.dsn,
					     .query = plan->query,
					     .timeout_us = plan->timeout_us,
					     .file = plan->file };
	spooling->spool = spool_start(&source, path, &spooler->told);
	if (spooling->spool)
		log_info("warm.spool", LOG_TEXT("job", spooling->name));
	else
		spooling->due_ms = uv_now(spooler->loop) + TRY_MS;
}

static void take_spool(struct spooling *spooling)
{
	const char *error;
	int64_t keys;
	if (!spooling->spool || spooling->calling || !spool_is_done(spooling->spool, &keys, &error))
		return;
	if (error[0]) {
		char why[SPOOL_ERROR_MAX];
		snprintf(why, sizeof(why), "%s", error);
		drop_spool(spooling);
		end_job(spooling, why);
		return;
	}
	drop_spool(spooling);
	if (!open_file(spooling)) {
		end_job(spooling, "its file of keys is gone");
		return;
	}
	spooling->keys_total = keys;
	spooling->due_ms = 0;
	log_info("warm.spooled", LOG_TEXT("job", spooling->name), LOG_INT("keys", keys),
		 LOG_INT("bytes", spooling->size));
}

static void on_told(uv_async_t *async)
{
	struct spooler *spooler = async->data;
	list_foreach (&spooler->spoolings, node)
		take_spool(container_of(node, struct spooling, node));
}

/* ---- feeding ----------------------------------------------------------------------------- */

/* Reads what comes next in the spool; of a local file, that was written lately. */
static ssize_t read_part(struct spooling *spooling, char *to, size_t size)
{
	if (!spooling->keys)
		return pread(spooling->fd, to, size, spooling->fed);
	size_t left = spooling->keys_len - (size_t)spooling->fed;
	size_t len = left < size ? left : size;
	memcpy(to, spooling->keys + spooling->fed, len);
	return (ssize_t)len;
}

/* Puts the next chunk into the call. False: the spool can't be read. */
static bool cut_chunk(struct spooling *spooling)
{
	/* A whole key fits, whatever its length. */
	enum { ROOM = 2 * CHUNK_BYTES_MAX };
	struct job_call *call = &spooling->call;
	const char *text;
	uint32_t len;
	size_t step;
	int64_t size = spooling->keys ? spooling->keys_len : spooling->size;
	if (!spooling->chunk)
		spooling->chunk = mem_alloc(ROOM);
	ssize_t got = spooling->chunk ? read_part(spooling, spooling->chunk, ROOM) : -1;
	if (got < 0)
		return false;
	while (call->keys < CHUNK_KEYS_MAX &&
	       (step = chunk_next(spooling->chunk + call->len, (size_t)got - call->len, &text,
				  &len)) > 0) {
		if (call->keys > 0 && call->len + step > CHUNK_BYTES_MAX)
			break;
		call->len += (uint32_t)step;
		call->keys++;
	}
	if (call->keys == 0 && spooling->fed < size)
		return false;
	call->bytes = spooling->chunk;
	call->to = call->from + call->len;
	call->last = call->to >= size;
	return true;
}

static uint32_t ahead_max(const struct spooler *spooler)
{
	uint32_t fleet = (uint32_t)(*spooler->options.config)->origin.fleet;
	uint32_t ahead = 2 * fleet > AHEAD_LEAST ? 2 * fleet : AHEAD_LEAST;
	return ahead < JOB_AHEAD_MAX ? ahead : JOB_AHEAD_MAX;
}

static void feed(struct spooling *spooling)
{
	struct job_call *call = &spooling->call;
	bool has_spool = spooling->keys || spooling->fd >= 0;
	*call = (struct job_call){ .verb = JOB_FEED,
				   .id = spooling->id,
				   .token = spooling->spooler->options.token,
				   .length_us = RIGHT_US,
				   .spool = spooling->spool_id,
				   .from = spooling->fed,
				   .to = spooling->fed,
				   .total = spooling->keys ? spooling->keys_count
					    : has_spool && spooling->keys_total > 0
						    ? spooling->keys_total
						    : -1,
				   .ahead_max = ahead_max(spooling->spooler) };
	if (spooling->keys)
		call->ahead_max = JOB_AHEAD_MAX; /* that they are fed soon */
	if (spooling->ours && has_spool && !cut_chunk(spooling))
		end_job(spooling, "its file of keys can't be read");
	else
		submit(spooling);
}

/* The keyspace's, of those that this daemon counts. */
static void take_hot_keys(struct spooling *spooling, const char *keyspace)
{
	struct spooler *spooler = spooling->spooler;
	struct engine *engine = spooler->options.warmer->options.pump->engine;
	struct hotlist *hot = &engine->hotlist;
	const size_t name_len = strlen(keyspace),
		     room = hot->used * (CHUNK_HEAD + HOT_KEY_BYTES) + 1;
	struct hot_rank *ranks = mem_alloc((hot->used + 1) * sizeof(*ranks));
	spooling->keys = mem_alloc(room);
	if (!ranks || !spooling->keys) {
		mem_free(ranks);
		end_job(spooling, "there is no memory for its keys");
		return;
	}
	uint32_t count = hotlist_top(hot, pump_now_us(spooler->options.warmer->options.pump), ranks,
				     hot->used);
	for (uint32_t i = 0; i < count; i++) {
		const struct hot_rank *rank = &ranks[i];
		if (rank->len < name_len || memcmp(rank->bytes, keyspace, name_len) != 0 ||
		    (rank->len > name_len && rank->bytes[name_len] != ':'))
			continue;
		spooling->keys_len += (uint32_t)chunk_put(spooling->keys + spooling->keys_len,
							  room - spooling->keys_len, rank->bytes,
							  (uint32_t)rank->len);
		spooling->keys_count++;
	}
	mem_free(ranks);
	spooling->spool_id = ++spooler->serial ^ spooler->options.token;
}

/* The one that was fed last, if this daemon has it from before; else another. */
static void find_spool(struct spooling *spooling)
{
	spooling->spool_id = spooling->call.of;
	if (spooling->call.fed > 0 && open_file(spooling))
		spooling->fed = spooling->call.fed;
	else
		start_spool(spooling);
}

/* What is ours to feed, and where it was left. */
static void take_right(struct spooling *spooling)
{
	const char *spec = spooling->spec;
	spooling->ours = true;
	if (spooling->keys || spooling->spool || spooling->fd >= 0)
		return;
	if (is_of(spec, "hot"))
		take_hot_keys(spooling, strrchr(spec, ' ') + 1);
	else if (is_of(spec, "keys"))
		end_job(spooling, "the daemon that was asked is gone, and with it the keys");
	else
		find_spool(spooling);
}

static void take_answer(struct spooling *spooling, const struct job_call *call)
{
	uint64_t now_ms = uv_now(spooling->spooler->loop);
	switch (call->outcome) {
	case JOB_OK:
		if (spooling->ours && (call->len > 0 || call->last)) {
			/* Not where we believed it to be: all anew. */
			bool good = call->fed == call->to && call->of == call->spool;
			spooling->fed = good ? call->fed : 0;
			spooling->over = call->last && good;
			spooling->due_ms = 0;
			return;
		}
		spooling->due_ms = now_ms + KEEP_MS;
		if (!spooling->ours)
			take_right(spooling);
		if (spooling->keys || spooling->fd >= 0)
			spooling->due_ms = 0;
		return;
	case JOB_FULL:
		spooling->due_ms = now_ms + FULL_MS;
		return;
	case JOB_HELD:
		/* Whoever has it may be gone the next moment. */
		spooling->ours = false;
		drop_spool(spooling);
		drop_file(spooling);
		spooling->due_ms = now_ms + TRY_MS / 2 + spooling->id % TRY_MS;
		return;
	case JOB_GONE:
		spooling->over = true;
		return;
	case JOB_AWAY:
		spooling->due_ms = now_ms + TRY_MS;
		return;
	}
}

static void on_called(struct job_call *call)
{
	struct spooling *spooling = container_of(call, struct spooling, call);
	spooling->calling = false;
	if (call->verb == JOB_FEED)
		take_answer(spooling, call);
	if (!spooling->over && spooling->due_ms == 0 && !spooling->spooler->closing)
		feed(spooling);
}

static void submit(struct spooling *spooling)
{
	struct job_call *call = &spooling->call;
	CHECK(!spooling->calling);
	memcpy(call->name, spooling->name, sizeof(call->name));
	call->done = on_called;
	spooling->calling = true;
	spooling->spooler->options.jobs.submit(spooling->spooler->options.jobs.impl, call);
}

/* ---- which jobs there are ---------------------------------------------------------------- */

static void remove_spooling(struct spooling *spooling)
{
	drop_spool(spooling);
	list_remove(&spooling->spooler->spoolings, &spooling->node);
	mem_free(spooling->keys);
	mem_free(spooling->chunk);
	mem_free(spooling);
}

/* Jobs that run and are not all fed, which this daemon may feed. */
static void look_for_jobs(struct spooler *spooler)
{
	list_foreach (&spooler->options.warmer->jobs, node) {
		const struct warmer_job *job = container_of(node, struct warmer_job, node);
		struct spooling *spooling = find(spooler, job->name, job->job.id);
		if (!job->known || job->over)
			continue;
		if (spooling)
			spooling->known = true;
		bool can = !is_of(job->job.spec, "plan") || plan_of(spooler, job->name);
		if (!spooling && !job->job.all && can)
			spooling = add(spooler, job->name, job->job.id);
		if (spooling && !spooling->spec[0])
			memcpy(spooling->spec, job->job.spec, sizeof(spooling->spec));
		if (spooling)
			spooling->known = true;
	}
}

/* A file of a job that has ended, perhaps while this daemon was not there. */
static void sweep(struct spooler *spooler)
{
	const struct config *config = *spooler->options.config;
	char path[PATH_BYTES_MAX];
	struct dirent *entry;
	uint64_t id, spool;
	DIR *dir = config->state_dir ? opendir(config->state_dir) : NULL;
	spooler->swept = true;
	while (dir && (entry = readdir(dir))) {
		bool runs = false;
		if (sscanf(entry->d_name, "warm-%16" SCNx64 "-%16" SCNx64 ".keys", &id, &spool) !=
		    2)
			continue;
		list_foreach (&spooler->options.warmer->jobs, node)
			runs |= container_of(node, struct warmer_job, node)->job.id == id;
		list_foreach (&spooler->spoolings, node)
			runs |= container_of(node, struct spooling, node)->id == id;
		if (runs)
			continue;
		snprintf(path, sizeof(path), "%.4000s/%.160s", config->state_dir, entry->d_name);
		unlink(path);
	}
	if (dir)
		closedir(dir);
}

static bool all_known(const struct warmer *warmer)
{
	list_foreach (&warmer->jobs, node) {
		const struct warmer_job *job = container_of(node, struct warmer_job, node);
		if (!job->known && !job->over)
			return false;
	}
	return warmer->listed;
}

/* Whether the job may have ended without our hearing of it here. */
static bool is_over(const struct spooling *spooling)
{
	const struct warmer_job *job =
		warmer_job(spooling->spooler->options.warmer, spooling->name);
	return spooling->over ||
	       (spooling->known && (!job || job->job.id != spooling->id || job->job.all));
}

static void on_timer(uv_timer_t *timer)
{
	struct spooler *spooler = timer->data;
	struct list_node *next;
	look_for_jobs(spooler);
	for (struct list_node *node = list_first(&spooler->spoolings); node; node = next) {
		struct spooling *spooling = container_of(node, struct spooling, node);
		next = node->next != &spooler->spoolings.head ? node->next : NULL;
		if (spooling->calling)
			continue;
		if (is_over(spooling)) {
			drop_file(spooling);
			remove_spooling(spooling);
			continue;
		}
		take_spool(spooling);
		if (!spooling->calling && uv_now(spooler->loop) >= spooling->due_ms)
			feed(spooling);
	}
	if (!spooler->swept && all_known(spooler->options.warmer))
		sweep(spooler);
}

/* ---- life -------------------------------------------------------------------------------- */

void spooler_open(struct spooler *spooler, uv_loop_t *loop, const struct spooler_options *options)
{
	*spooler = (struct spooler){ .options = *options, .loop = loop, .handles = 2 };
	list_init(&spooler->spoolings);
	CHECK(uv_timer_init(loop, &spooler->timer) == 0);
	CHECK(uv_async_init(loop, &spooler->told, on_told) == 0);
	spooler->timer.data = spooler->told.data = spooler;
	CHECK(uv_timer_start(&spooler->timer, on_timer, TICK_MS, TICK_MS) == 0);
}

int spooler_begin(struct spooler *spooler, const struct job_call *opened, const char *keys,
		  uint32_t len, uint32_t count)
{
	if (find(spooler, opened->name, opened->id))
		return 0;
	struct spooling *spooling = add(spooler, opened->name, opened->id);
	if (!spooling)
		return -ENOMEM;
	memcpy(spooling->spec, opened->spec, sizeof(spooling->spec));
	if (keys) {
		spooling->keys = mem_alloc(len + 1);
		if (!spooling->keys) {
			remove_spooling(spooling);
			return -ENOMEM;
		}
		memcpy(spooling->keys, keys, len);
		spooling->keys_len = len;
		spooling->keys_count = count;
	}
	feed(spooling);
	return 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct spooler *spooler = handle->data;
	if (--spooler->handles > 0)
		return;
	struct list_node *node;
	while ((node = list_first(&spooler->spoolings)))
		remove_spooling(container_of(node, struct spooling, node));
	spooler->closed(spooler->arg);
}

static bool is_calling(const struct spooler *spooler)
{
	list_foreach (&spooler->spoolings, node)
		if (container_of(node, struct spooling, node)->calling)
			return true;
	return false;
}

/* Calls under way come back: the store answers all. */
static void on_closing(uv_timer_t *timer)
{
	struct spooler *spooler = timer->data;
	if (is_calling(spooler))
		return;
	uv_close((uv_handle_t *)&spooler->timer, on_handle_closed);
	uv_close((uv_handle_t *)&spooler->told, on_handle_closed);
}

void spooler_close(struct spooler *spooler, void (*closed)(void *arg), void *arg)
{
	spooler->closing = true;
	spooler->closed = closed;
	spooler->arg = arg;
	list_foreach (&spooler->spoolings, node) {
		struct spooling *spooling = container_of(node, struct spooling, node);
		spool_end(spooling->spool);
		spooling->spool = NULL;
	}
	CHECK(uv_timer_start(&spooler->timer, on_closing, 0, 10) == 0);
}
