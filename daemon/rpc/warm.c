#include "rpc/warm.h"

#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "proto/method.h"
#include "rpc/dispatch.h"
#include "rpc/peer.h"

/* ---- params ------------------------------------------------------------------------------ */

/* Each as chunk_put writes it; a client may warm what it may warm by name. */
static enum status read_keys(struct peer *peer, struct reader *params, struct server_warm *warm,
			     struct wire_error *error)
{
	enum status status;
	struct key key;
	uint32_t count;
	size_t room;

	if (!reader_array(params, &count))
		return wire_refuse(error, STATUS_BAD_REQUEST, "keys must be an array");
	if (count == 0)
		return wire_refuse(error, STATUS_BAD_REQUEST, "keys are none");
	if (count > WARM_KEYS_MAX)
		return wire_refuse(error, STATUS_TOO_LARGE, "warm takes at most %d keys",
				   WARM_KEYS_MAX);
	/* Canonical ones are at most three times as long as they came, and each has its length. */
	room = 3 * (size_t)(params->end - params->at) + (size_t)count * CHUNK_HEAD;
	warm->keys = mem_alloc(room);
	if (!warm->keys)
		return wire_refuse(error, STATUS_OVERLOADED, "out of memory");
	warm->what = WARM_START_KEYS;
	for (uint32_t i = 0; i < count; i++) {
		status = dispatch_key(peer, METHOD_WARM, params, &key, error);
		if (status != STATUS_OK)
			return status;
		warm->keys_len += (uint32_t)chunk_put(warm->keys + warm->keys_len,
						      room - warm->keys_len, key.bytes, key.len);
		warm->keys_count++;
	}
	return STATUS_OK;
}

static enum status read_plan(struct reader *params, struct server_warm *warm,
			     struct wire_error *error)
{
	char quoted[WIRE_QUOTED_MAX];
	struct wire_span name;

	if (!reader_text(params, &name) || name.len == 0)
		return wire_refuse(error, STATUS_BAD_REQUEST, "plan must be a string");
	if (name.len >= sizeof(warm->name))
		return wire_refuse(error, STATUS_BAD_REQUEST, "there is no plan \"%s\"",
				   wire_quote(name.data, name.len, quoted));
	warm->what = WARM_START_PLAN;
	memcpy(warm->name, name.data, name.len);
	return STATUS_OK;
}

static enum status read_keyspace(struct peer *peer, struct reader *params, struct server_warm *warm,
				 struct wire_error *error)
{
	struct keyspace *keyspace;
	struct wire_span name;
	enum status status;

	if (!reader_text(params, &name))
		return wire_refuse(error, STATUS_BAD_REQUEST, "keyspace must be a string");
	status = dispatch_keyspace(peer, METHOD_WARM, name, &keyspace, error);
	if (status != STATUS_OK)
		return status;
	warm->what = WARM_START_HOT;
	memcpy(warm->name, name.data, name.len);
	return STATUS_OK;
}

static enum status read_rate(struct reader *params, struct server_warm *warm,
			     struct wire_error *error)
{
	struct mp_value value;
	double rate = -1;

	if (reader_next(params, &value) && value.type == MP_INT)
		rate = (double)value.number;
	else if (value.type == MP_FLOAT)
		rate = value.real;
	if (!(rate >= 1.0 / 60 && rate <= 100000))
		return wire_refuse(error, STATUS_BAD_REQUEST,
				   "rate must be a number of statements a second, 1/60 to 100000");
	warm->rate_per_s = rate;
	return STATUS_OK;
}

static enum status read_pair(struct peer *peer, struct reader *params, struct server_warm *warm,
			     bool *has_source, struct wire_error *error)
{
	char quoted[WIRE_QUOTED_MAX];
	struct wire_span name;

	if (!reader_text(params, &name))
		return wire_refuse(error, STATUS_BAD_REQUEST, "the name of an option is no string");
	if (wire_span_is(name, "rate") && warm->rate_per_s == 0)
		return read_rate(params, warm, error);
	if (*has_source || (!wire_span_is(name, "plan") && !wire_span_is(name, "keys") &&
			    !wire_span_is(name, "keyspace")))
		return wire_refuse(
			error, STATUS_BAD_REQUEST,
			"warm takes plan, keys or keyspace, and rate, once each, but got \"%s\"",
			wire_quote(name.data, name.len, quoted));
	*has_source = true;
	if (wire_span_is(name, "keyspace"))
		return read_keyspace(peer, params, warm, error);
	return wire_span_is(name, "plan") ? read_plan(params, warm, error)
					  : read_keys(peer, params, warm, error);
}

enum status warm_read(struct peer *peer, struct reader *params, struct server_warm *warm,
		      struct wire_error *error)
{
	bool has_source = false;
	enum status status;
	uint32_t pairs;

	if (!reader_map(params, &pairs))
		return wire_refuse(error, STATUS_BAD_REQUEST, "warm takes a map");
	/* Ends with the bytes or at the first repetition, whatever the count claims. */
	for (uint32_t i = 0; i < pairs; i++) {
		status = read_pair(peer, params, warm, &has_source, error);
		if (status != STATUS_OK)
			return status;
	}
	if (!reader_at_end(params))
		return wire_refuse(error, STATUS_BAD_REQUEST, "warm has too many params");
	if (!has_source)
		return wire_refuse(error, STATUS_BAD_REQUEST, "plan, keys or keyspace is missing");
	return STATUS_OK;
}

/* ---- results ----------------------------------------------------------------------------- */

static void put_int(struct wire_buf *b, const char *name, int64_t number)
{
	wire_buf_str(b, name);
	wire_buf_int(b, number);
}

enum { JOB_PAIRS = 11 };

static void put_job(struct wire_buf *b, const char *name, const struct job *job)
{
	const struct job_counts *counts = &job->counts;

	wire_buf_str(b, "job");
	wire_buf_str(b, name);
	wire_buf_str(b, "state");
	wire_buf_str(b, job_state_name(job->state));
	wire_buf_str(b, "error");
	if (job->why[0])
		wire_buf_str(b, job->why);
	else
		wire_buf_nil(b);
	wire_buf_str(b, "keys");
	if (job->total >= 0)
		wire_buf_int(b, job->total);
	else
		wire_buf_nil(b);
	put_int(b, "fed", job->keys);
	put_int(b, "done", counts->fresh + counts->built + counts->failed);
	put_int(b, "fresh", counts->fresh);
	put_int(b, "built", counts->built);
	put_int(b, "failed", counts->failed);
	wire_buf_str(b, "rate");
	if (job->interval_us > 0)
		wire_buf_float(b, 1e6 / (double)job->interval_us);
	else
		wire_buf_nil(b);
	put_int(b, "elapsed_ms", job->elapsed_us / 1000);
}

static uint32_t count_texts(const char *bytes, uint32_t len)
{
	uint32_t count = 0, text_len;
	const char *text;
	size_t step;

	for (size_t at = 0; (step = chunk_next(bytes + at, len - at, &text, &text_len)) > 0;
	     at += step)
		count++;
	return count;
}

static void put_failures(struct wire_buf *b, const char *bytes, uint32_t len)
{
	uint32_t count = count_texts(bytes, len) / 2, text_len;
	const char *text;
	size_t at = 0;

	wire_buf_str(b, "failures");
	wire_buf_array(b, count);
	for (uint32_t i = 0; i < count; i++) {
		wire_buf_map(b, 2);
		wire_buf_str(b, "key");
		at += chunk_next(bytes + at, len - at, &text, &text_len);
		wire_buf_str_len(b, text, text_len);
		wire_buf_str(b, "error");
		at += chunk_next(bytes + at, len - at, &text, &text_len);
		wire_buf_str_len(b, text, text_len);
	}
}

void warm_put(struct wire_buf *b, const struct server_warm *warm)
{
	switch (warm->what) {
	case WARM_START_PLAN:
	case WARM_START_KEYS:
	case WARM_START_HOT:
		wire_buf_map(b, 2);
		wire_buf_str(b, "job");
		wire_buf_str(b, warm->name);
		wire_buf_str(b, "joined");
		wire_buf_bool(b, warm->joined);
		break;
	case WARM_STATUS:
		wire_buf_map(b, JOB_PAIRS + 1);
		put_job(b, warm->name, &warm->job);
		put_failures(b, warm->failures, warm->failures_len);
		break;
	case WARM_CANCEL:
		wire_buf_map(b, 0);
		break;
	}
}

void warm_put_all(struct wire_buf *b, struct server *server)
{
	const struct server_about *about = &server->about;
	struct server_job job;
	uint32_t count = 0;

	while (about->job && about->job(about->impl, count, &job))
		count++;
	wire_buf_array(b, count);
	for (uint32_t i = 0; i < count && about->job(about->impl, i, &job); i++) {
		wire_buf_map(b, JOB_PAIRS);
		put_job(b, job.name, job.job);
	}
}
