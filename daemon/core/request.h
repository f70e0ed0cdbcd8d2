/* A client's question and its answer, between rpc/ and the engine.
 *
 * rpc fills a `query` and looks it up; only where no answer is at hand does it make a `request`,
 * which waits on the key's flight until it is answered, its deadline comes, or it is abandoned.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/value.h"
#include "core/keyspace.h"
#include "proto/result.h"
#include "proto/status.h"
#include "proto/trace.h"

/* The words are the wire's (proto/result.h). */
#define X(NAME, name) ANSWER_##NAME,
enum answer_state { RESULT_STATE_MAP(X) };
#undef X
#define X(NAME, name) REASON_##NAME,
enum answer_reason { RESULT_REASON_MAP(X) };
#undef X
#define X(NAME, name) SOURCE_##NAME,
enum answer_source { RESULT_SOURCE_MAP(X) };
#undef X

const char *answer_state_name(enum answer_state state);
const char *answer_reason_name(enum answer_reason reason); /* NONE: "none", nil on the wire */
const char *answer_source_name(enum answer_source source);

enum query_kind { QUERY_GET, QUERY_REFRESH };

struct query {
	struct key key; /* bytes: the caller's, as long as the query or its request lives */
	enum query_kind kind;
	uint32_t client; /* tells clients apart: those that wait are served fairly between them */
	bool has_max_stale;
	bool has_min_version;
	bool has_if_older;
	int64_t max_stale_us; /* GET: bounds how long ago freshness ended; 0: no stale reply */
	int64_t min_version;
	int64_t if_older_us;       /* REFRESH: an entry generated less long ago is enough */
	int64_t wait_us;           /* from arrival to deadline; 0: answer now */
	const struct trace *trace; /* the caller's, as the key's bytes; NULL: none */
};

struct answer {
	enum status status;

	/* STATUS_OK */
	enum answer_state state;
	enum answer_reason reason;
	enum answer_source source;
	struct value *value; /* borrowed for the call; NULL: nil */
	bool has_version;
	int64_t version;
	int64_t age_us;   /* since generated_at */
	int64_t ttl_us;   /* to fresh_until; 0 when past */
	int64_t stale_us; /* since fresh_until; 0 while fresh */
	bool after; /* its build began after the request had come: it may be told however long that
		       takes, at last with ttl 0 */

	/* REFRESH, STATUS_OK */
	bool built;  /* a build was made for it */
	bool joined; /* it waited on a flight that others had started */
	bool queued; /* wait_us 0: a flight is under way */

	/* Other statuses */
	const char *text; /* borrowed for the call; NULL: status_text() */
	uint32_t text_len;
	int64_t retry_after_us; /* 0: unknown */
};

struct request;
/* Gives the request its answer; the request is out of the engine and the callee's to free. */
typedef void (*request_answer_cb)(struct request *request, const struct answer *answer);

struct request {
	struct query query; /* filled by the caller */
	request_answer_cb answer;

	/* The engine's own. */
	struct list_node node;
	struct list
		*home; /* the list that `node` is in: a flight's waiters, or one of the engine's */
	struct heap_node deadline;
	struct flight *flight; /* borrowed; NULL when ready */
	uint64_t seq;          /* order of arrival, against builds' beginnings */
	bool joined;
	uint32_t reasks;     /* flights that ended without an answer for it */
	uint32_t lacking;    /* of them, those built after it came, and of a lower version than it
				wants: that is not there yet */
	enum status refused; /* ready without a flight: why */
	const char *why;     /* static; more of that, or NULL */
};
