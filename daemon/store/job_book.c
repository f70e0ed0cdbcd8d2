#include "store/job_book.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

/* A chunk, and who works on it. */
struct book_chunk {
	struct list_node node;
	uint64_t seq;
	uint64_t token; /* 0: nobody */
	int64_t until_us, length_us;
	struct job_counts counts;
	uint32_t len;
	char bytes[];
};

struct book_job {
	struct list_node node;
	char name[JOB_NAME_MAX];
	struct job job;
	int64_t began_us, ended_us;
	int64_t fed;
	uint64_t spool;     /* … of this one */
	struct list chunks; /* by seq */
	uint64_t low, next;
	uint64_t spooler;
	int64_t spool_until_us, spool_length_us;
	uint32_t failures_count, failures_len;
	char *failures; /* owned; JOB_FAILURES_BYTES; NULL: none yet */
};

static char *names_of(struct job_book *book, uint32_t *ret_len)
{
	static char names[JOBS_MAX * (CHUNK_HEAD + JOB_NAME_MAX)];
	size_t len = 0;
	list_foreach (&book->running, node) {
		const struct book_job *job = container_of(node, struct book_job, node);
		len += chunk_put(names + len, sizeof(names) - len, job->name,
				 (uint32_t)strlen(job->name));
	}
	*ret_len = (uint32_t)len;
	return names;
}

static struct book_job *find_in(const struct list *list, const char *name)
{
	list_foreach (list, node) {
		struct book_job *job = container_of(node, struct book_job, node);
		if (strcmp(job->name, name) == 0)
			return job;
	}
	return NULL;
}

static struct book_job *find(const struct job_book *book, const char *name)
{
	struct book_job *job = find_in(&book->running, name);
	return job ? job : find_in(&book->ended, name);
}

static int64_t left_of(int64_t until_us, int64_t length_us, int64_t now_us)
{
	int64_t left_us = until_us - now_us;
	return left_us <= 0 || left_us > length_us ? 0 : left_us;
}

static void drop_chunks(struct book_job *job)
{
	struct list_node *node;
	while ((node = list_pop_front(&job->chunks)))
		mem_free(container_of(node, struct book_chunk, node));
	job->low = job->next;
}

static void job_free(struct book_job *job)
{
	drop_chunks(job);
	mem_free(job->failures);
	mem_free(job);
}

static void end(struct job_book *book, struct book_job *job, enum job_state state, const char *why,
		int64_t now_us)
{
	drop_chunks(job);
	job->job.state = state;
	strcpy(job->job.why, why);
	job->ended_us = now_us;
	list_remove(&book->running, &job->node);
	list_push_front(&book->ended, &job->node);
	while (book->ended.count > JOBS_MAX) {
		struct list_node *last = book->ended.head.prev;
		list_remove(&book->ended, last);
		job_free(container_of(last, struct book_job, node));
	}
}

static void tell(const struct book_job *job, struct job_call *call, int64_t now_us)
{
	call->job = job->job;
	call->job.elapsed_us =
		(job->job.state == JOB_RUNNING ? now_us : job->ended_us) - job->began_us;
	if (call->job.elapsed_us < 0)
		call->job.elapsed_us = 0;
}

/* ---- verbs ------------------------------------------------------------------------------- */

static void do_open(struct job_book *book, struct job_call *call, int64_t now_us)
{
	struct book_job *job = find(book, call->name);
	if (job && job->job.state == JOB_RUNNING) {
		call->joined = job->job.id != call->id;
		call->job.id = job->job.id;
		return;
	}
	if (book->running.count >= JOBS_MAX) {
		call->outcome = JOB_FULL;
		return;
	}
	if (job) {
		list_remove(&book->ended, &job->node);
		job_free(job);
	}
	job = mem_zalloc(sizeof(*job));
	if (!job) {
		call->outcome = JOB_AWAY;
		return;
	}
	list_node_init(&job->node);
	list_init(&job->chunks);
	strcpy(job->name, call->name);
	job->job = (struct job){ .id = call->id, .interval_us = call->interval_us, .total = -1 };
	strcpy(job->job.spec, call->spec);
	job->began_us = now_us;
	job->low = job->next = 1;
	list_push_back(&book->running, &job->node);
	call->job.id = call->id;
}

static void begin_anew(struct book_job *job)
{
	drop_chunks(job);
	job->fed = job->job.keys = 0;
	job->job.all = false;
	job->job.counts = (struct job_counts){ 0 };
	job->failures_count = job->failures_len = 0;
}

static bool add_chunk(struct book_job *job, const struct job_call *call)
{
	struct book_chunk *chunk = mem_zalloc(sizeof(*chunk) + call->len);
	if (!chunk)
		return false;
	list_node_init(&chunk->node);
	chunk->seq = job->next++;
	chunk->len = call->len;
	memcpy(chunk->bytes, call->bytes, call->len);
	list_push_back(&job->chunks, &chunk->node);
	job->job.keys += call->keys;
	job->fed = call->to;
	return true;
}

/* It is ours to feed. */
static void feed(struct job_book *book, struct book_job *job, struct job_call *call, int64_t now_us)
{
	bool has_bytes = call->bytes && call->len > 0;
	if (call->from == 0 && job->fed > 0 && (has_bytes || call->last))
		begin_anew(job);
	if (job->fed == 0 && (has_bytes || call->last))
		job->spool = call->spool;
	if (job->job.all || call->from != job->fed || call->spool != job->spool ||
	    (!has_bytes && !call->last))
		return;
	if (has_bytes && job->next - job->low >= call->ahead_max) {
		call->outcome = JOB_FULL;
		return;
	}
	if (has_bytes && !add_chunk(job, call)) {
		call->outcome = JOB_AWAY;
		return;
	}
	job->job.total = call->total;
	if (call->last) {
		job->job.all = true;
		job->job.total = job->job.keys;
	}
	if (call->last && job->next == job->low)
		end(book, job, JOB_DONE, "", now_us);
}

static void do_feed(struct job_book *book, struct job_call *call, int64_t now_us)
{
	struct book_job *job = find(book, call->name);
	if (!job || job->job.id != call->id || job->job.state != JOB_RUNNING) {
		call->outcome = job ? JOB_GONE : JOB_LOST;
		return;
	}
	call->left_us = left_of(job->spool_until_us, job->spool_length_us, now_us);
	if (call->left_us > 0 && job->spooler != call->token) {
		call->outcome = JOB_HELD;
		return;
	}
	call->left_us = 0;
	job->spooler = call->token;
	job->spool_until_us = now_us + call->length_us;
	job->spool_length_us = call->length_us;
	feed(book, job, call, now_us);
	call->fed = job->fed;
	call->ahead = (uint32_t)(job->next - job->low);
	call->of = job->spool;
	call->job.all = job->job.all;
}

static void count(struct book_job *job, const struct job_counts *counts, int sign)
{
	job->job.counts.fresh += sign * counts->fresh;
	job->job.counts.built += sign * counts->built;
	job->job.counts.failed += sign * counts->failed;
}

static void keep_failures(struct book_job *job, const struct job_call *call)
{
	if (call->failures_count == 0 ||
	    job->failures_count + call->failures_count > JOB_FAILURES_MAX ||
	    job->failures_len + call->failures_len > JOB_FAILURES_BYTES)
		return;
	if (!job->failures)
		job->failures = mem_alloc(JOB_FAILURES_BYTES);
	if (!job->failures)
		return;
	memcpy(job->failures + job->failures_len, call->failures, call->failures_len);
	job->failures_len += call->failures_len;
	job->failures_count += call->failures_count;
}

static struct book_chunk *find_chunk(const struct book_job *job, uint64_t seq)
{
	list_foreach (&job->chunks, node) {
		struct book_chunk *chunk = container_of(node, struct book_chunk, node);
		if (chunk->seq == seq)
			return chunk;
	}
	return NULL;
}

static void claim(struct book_chunk *chunk, const struct job_call *call, int64_t now_us)
{
	chunk->token = call->token;
	chunk->until_us = now_us + call->length_us;
	chunk->length_us = call->length_us;
}

static void report(struct book_job *job, struct job_call *call, int64_t now_us)
{
	struct book_chunk *chunk = find_chunk(job, call->seq);
	if (!chunk || chunk->token != call->token) {
		call->lost = true;
		return;
	}
	count(job, &chunk->counts, -1);
	chunk->counts = call->counts;
	count(job, &chunk->counts, 1);
	claim(chunk, call, now_us);
	if (!call->final)
		return;
	keep_failures(job, call);
	list_remove(&job->chunks, &chunk->node);
	mem_free(chunk);
}

static void claim_next(struct book_job *job, struct job_call *call, int64_t now_us)
{
	list_foreach (&job->chunks, node) {
		struct book_chunk *chunk = container_of(node, struct book_chunk, node);
		if (chunk->token != 0 && left_of(chunk->until_us, chunk->length_us, now_us) > 0)
			continue;
		count(job, &chunk->counts, -1);
		chunk->counts = (struct job_counts){ 0 };
		claim(chunk, call, now_us);
		call->next = chunk->seq;
		call->data = chunk->bytes;
		call->data_len = chunk->len;
		return;
	}
}

static void do_work(struct job_book *book, struct job_call *call, int64_t now_us)
{
	struct book_job *job = find(book, call->name);
	if (!job || job->job.id != call->id) {
		call->outcome = JOB_GONE;
		return;
	}
	bool runs = job->job.state == JOB_RUNNING;
	if (runs && call->seq != 0)
		report(job, call, now_us);
	struct list_node *first = list_first(&job->chunks);
	job->low = first ? container_of(first, struct book_chunk, node)->seq : job->next;
	if (runs && call->wants)
		claim_next(job, call, now_us);
	if (runs && job->job.all && job->low == job->next)
		end(book, job, JOB_DONE, "", now_us);
	tell(job, call, now_us);
}

static void do_end(struct job_book *book, struct job_call *call, int64_t now_us)
{
	struct book_job *job = find_in(&book->running, call->name);
	if (!job || (call->id != 0 && job->job.id != call->id))
		call->outcome = JOB_GONE;
	else
		end(book, job, call->end, call->why, now_us);
}

static void do_look(struct job_book *book, struct job_call *call, int64_t now_us)
{
	const struct book_job *job = find(book, call->name);
	if (!job) {
		call->outcome = JOB_GONE;
		return;
	}
	tell(job, call, now_us);
	call->data = job->failures;
	call->data_len = job->failures_len;
}

void job_book_do(struct job_book *book, struct job_call *call, int64_t now_us)
{
	job_call_reset(call, JOB_OK);
	switch (call->verb) {
	case JOB_LIST:
		call->data = names_of(book, &call->data_len);
		return;
	case JOB_OPEN:
		do_open(book, call, now_us);
		return;
	case JOB_FEED:
		do_feed(book, call, now_us);
		return;
	case JOB_WORK:
		do_work(book, call, now_us);
		return;
	case JOB_END:
		do_end(book, call, now_us);
		return;
	case JOB_LOOK:
		do_look(book, call, now_us);
		return;
	}
}

/* ---- life -------------------------------------------------------------------------------- */

void job_book_init(struct job_book *book)
{
	list_init(&book->running);
	list_init(&book->ended);
}

void job_book_clear(struct job_book *book)
{
	struct list *lists[] = { &book->running, &book->ended };
	struct list_node *node;
	for (int i = 0; i < 2; i++)
		while ((node = list_pop_front(lists[i])))
			job_free(container_of(node, struct book_job, node));
}

void job_book_close(struct job_book *book)
{
	job_book_clear(book);
}
