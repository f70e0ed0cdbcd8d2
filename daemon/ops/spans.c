#include "ops/spans.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "proto/utf8.h"

/* Kinds and codes of OTLP (opentelemetry/proto/trace/v1). */
enum { KIND_INTERNAL = 1, KIND_SERVER = 2, KIND_CLIENT = 3, STATUS_CODE_ERROR = 2 };

enum {
	TEXT_MAX = 1024,        /* bytes of a key or an error; more are cut */
	LINE_BYTES = 24 * 1024, /* eight spans, two such texts with each byte escaped */
	SPAN_HEX = 2 * TRACE_SPAN_BYTES,
};

/* One line in the making. Cut never: what is in it is bounded. */
struct line {
	const struct trace *trace;
	int64_t offset_ns; /* to be added to moments of the fleet clock */
	size_t len;
	uint32_t spans;
	bool is_first; /* the next attribute of its list is */
	char text[LINE_BYTES];
};

/* ---- JSON ---------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void put(struct line *line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	line->len +=
		(size_t)vsnprintf(line->text + line->len, LINE_BYTES - line->len, format, args);
	va_end(args);
	CHECK(line->len < LINE_BYTES);
}

static void put_string(struct line *line, const char *text, size_t len)
{
	if (len > TEXT_MAX)
		len = TEXT_MAX;
	len = utf8_valid_len(text, len);
	put(line, "\"");
	for (size_t i = 0; i < len; i++) {
		const unsigned char c = (unsigned char)text[i];

		if (c < ' ' || c == '"' || c == '\\' || c == 0x7F)
			put(line, "\\u%04x", c);
		else
			put(line, "%c", c);
	}
	put(line, "\"");
}

static void put_hex(struct line *line, const char *name, const uint8_t *bytes, size_t count)
{
	char text[2 * TRACE_ID_BYTES + 1];

	*trace_write_hex(bytes, count, text) = '\0';
	put(line, "\"%s\":\"%s\",", name, text);
}

static void attribute(struct line *line, const char *key)
{
	put(line, "%s{\"key\":\"%s\",\"value\":", line->is_first ? "" : ",", key);
	line->is_first = false;
}

static void attribute_text(struct line *line, const char *key, const char *text, size_t len)
{
	attribute(line, key);
	put(line, "{\"stringValue\":");
	put_string(line, text, len);
	put(line, "}}");
}

static void attribute_word(struct line *line, const char *key, const char *word)
{
	attribute_text(line, key, word, strlen(word));
}

static void attribute_int(struct line *line, const char *key, int64_t number)
{
	attribute(line, key);
	put(line, "{\"intValue\":\"%" PRId64 "\"}}", number);
}

/* ---- a span -------------------------------------------------------------------------------- */

/* Up to its attributes, which follow. */
static void span_begin(struct line *line, const char *name, int kind, const uint8_t *id,
		       const uint8_t *parent, int64_t from_us, int64_t to_us)
{
	if (from_us > to_us)
		from_us = to_us;
	put(line, "%s{", line->spans++ > 0 ? "," : "");
	put_hex(line, "traceId", line->trace->id, TRACE_ID_BYTES);
	put_hex(line, "spanId", id, TRACE_SPAN_BYTES);
	put_hex(line, "parentSpanId", parent, TRACE_SPAN_BYTES);
	put(line,
	    "\"name\":\"%s\",\"kind\":%d,\"startTimeUnixNano\":\"%" PRId64
	    "\",\"endTimeUnixNano\":\"%" PRId64 "\",\"attributes\":[",
	    name, kind, from_us * 1000 + line->offset_ns, to_us * 1000 + line->offset_ns);
	line->is_first = true;
}

/* `error`: the type of one; NULL: there is none. */
static void span_end(struct line *line, const char *error, const char *text, size_t text_len)
{
	if (error)
		attribute_word(line, "error.type", error);
	put(line, "]");
	if (error)
		put(line, ",\"status\":{\"code\":%d,\"message\":", STATUS_CODE_ERROR);
	if (error)
		put_string(line, text ? text : error, text ? text_len : strlen(error));
	put(line, "%s}", error ? "}" : "");
}

static const char *host_name(void)
{
	static char name[256];

	if (!name[0] && gethostname(name, sizeof(name) - 1) != 0)
		snprintf(name, sizeof(name), "?");
	return name;
}

static void line_begin(struct line *line, const struct trace *trace, int64_t now_us)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	line->trace = trace;
	line->offset_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - now_us * 1000;
	line->len = line->spans = 0;
	line->is_first = true;
	put(line, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
	attribute_word(line, "service.name", "segard");
	attribute_word(line, "service.version", SEGAR_VERSION);
	attribute_word(line, "host.name", host_name());
	attribute_int(line, "process.pid", getpid());
	put(line,
	    "]},\"scopeSpans\":[{\"scope\":{\"name\":\"segar\",\"version\":\"%s\"},\"spans\":[",
	    SEGAR_VERSION);
}

static void line_end(struct line *line, struct spans *spans)
{
	put(line, "]}]}]}\n");
	span_file_put(&spans->file, line->text, line->len, line->spans);
}

/* ---- requests ------------------------------------------------------------------------------ */

static void put_key(struct line *line, const struct spans *spans, const struct key *key)
{
	attribute_word(line, "segar.keyspace", key->keyspace->policy->name);
	if (!spans->hides)
		attribute_text(line, "segar.key", key->bytes, key->len);
}

static void put_answer(struct line *line, const struct answer *answer)
{
	if (answer->status != STATUS_OK)
		return;
	attribute_word(line, "segar.state", answer_state_name(answer->state));
	if (answer->source != SOURCE_NONE)
		attribute_word(line, "segar.source", answer_source_name(answer->source));
	if (answer->reason != REASON_NONE)
		attribute_word(line, "segar.reason", answer_reason_name(answer->reason));
	attribute_int(line, "segar.age_ms", answer->age_us / 1000);
}

void spans_begin(struct spans *spans, struct trace *trace)
{
	uint64_t id;

	if (!spans->file.path || !(trace->flags & TRACE_SAMPLED))
		return;
	do
		id = rng_next(&spans->rng);
	while (id == 0);
	memcpy(trace->own, &id, TRACE_SPAN_BYTES);
}

void spans_end_request(struct spans *spans, const struct server_span *span, int64_t now_us)
{
	static struct line line;
	const struct answer *answer = span->answer;
	const bool failed = answer && answer->status != STATUS_OK;

	if (!spans->file.path)
		return;
	line_begin(&line, span->trace, now_us);
	span_begin(&line, span->method, KIND_SERVER, span->trace->own, span->trace->parent,
		   span->began_us, now_us);
	attribute_word(&line, "rpc.service", "segar");
	attribute_word(&line, "rpc.method", span->method);
	if (span->key)
		put_key(&line, spans, span->key);
	else
		attribute_int(&line, "segar.keys", span->keys);
	if (answer && span->is_get)
		put_answer(&line, answer);
	span_end(&line, failed ? status_name(answer->status) : NULL,
		 failed && !spans->hides ? answer->text : NULL, failed ? answer->text_len : 0);
	line_end(&line, spans);
}

/* ---- builds -------------------------------------------------------------------------------- */

static void put_part(struct line *line, struct spans *spans, const uint8_t *parent,
		     const char *name, int64_t from_us, int64_t to_us)
{
	uint64_t id = rng_next(&spans->rng) | 1;

	span_begin(line, name, KIND_CLIENT, (const uint8_t *)&id, parent, from_us, to_us);
}

static void put_store_part(struct line *line, struct spans *spans, const uint8_t *parent,
			   const char *name, int64_t from_us, int64_t to_us, const char *error)
{
	put_part(line, spans, parent, name, from_us, to_us);
	attribute_word(line, "db.system", "redis");
	attribute_word(line, "db.operation.name", name);
	span_end(line, error, NULL, 0);
}

/* NULL: it brought what was asked for. */
static const char *build_error(const struct flight *flight)
{
	const enum build_outcome outcome = flight->build.outcome;

	return outcome == BUILD_ROW || outcome == BUILD_NO_ROW ? NULL : build_outcome_name(outcome);
}

static const char *save_error(const struct flight *flight)
{
	switch (flight->op.outcome) {
	case STORE_REFUSED:
		return "refused";
	case STORE_AWAY:
		return "unavailable";
	case STORE_DONE:
	case STORE_ENOUGH:
	case STORE_FAILED:
	case STORE_HELD:
	case STORE_RETRY:
		return NULL;
	}
	return NULL;
}

static void put_query(struct line *line, struct spans *spans, const uint8_t *parent,
		      const struct flight *flight, int64_t from_us, int64_t to_us)
{
	const struct value *text = flight->failure.text;
	const char *error = build_error(flight);

	put_part(line, spans, parent, "query", from_us, to_us);
	attribute_word(line, "db.system", "postgresql");
	attribute_word(line, "db.query.summary", flight->key.keyspace->policy->name);
	if (!error)
		attribute_int(line, "db.response.returned_rows",
			      flight->build.outcome == BUILD_ROW);
	span_end(line, error, error && text && !spans->hides ? text->bytes : NULL,
		 text ? text->len : 0);
}

void spans_end_build(struct spans *spans, const struct regeneration *regeneration, int64_t now_us)
{
	static struct line line;
	const struct flight *flight = regeneration->flight;
	const struct trace *trace = &flight->trace;
	const int64_t asked_us = flight->leased_at_us - flight->lease_took_us,
		      built_us = flight->begun_at_us + regeneration->build_us;
	uint64_t id;
	const uint8_t *own = (const uint8_t *)&id;

	if (!spans->file.path || !flight->has_trace || !trace_has_own(trace))
		return;
	id = rng_next(&spans->rng) | 1;
	line_begin(&line, trace, now_us);
	span_begin(&line, "build", KIND_INTERNAL, own, trace->own, flight->created_at_us, now_us);
	put_key(&line, spans, &flight->key);
	attribute_word(&line, "segar.cause", refresh_cause_name(flight->cause));
	attribute_int(&line, "segar.lease", (int64_t)flight->fence);
	span_end(&line, build_error(flight), NULL, 0);
	put_store_part(&line, spans, own, "lookup", flight->created_at_us, flight->wanted_at_us,
		       NULL);
	put_part(&line, spans, own, "queue", flight->wanted_at_us, asked_us);
	span_end(&line, NULL, NULL, 0);
	put_store_part(&line, spans, own, "lease", asked_us, flight->leased_at_us, NULL);
	put_store_part(&line, spans, own, "permit", flight->leased_at_us, flight->begun_at_us,
		       NULL);
	put_query(&line, spans, own, flight, flight->begun_at_us, built_us);
	put_store_part(&line, spans, own, "save", built_us, now_us, save_error(flight));
	line_end(&line, spans);
}

/* ---- birth and end ------------------------------------------------------------------------- */

void spans_take(struct spans *spans, const struct config *config)
{
	spans->hides = config->log_keys == LOG_KEYS_HASHED;
}

int spans_open(struct spans *spans, uv_loop_t *loop, const struct config *config, uint64_t seed)
{
	rng_seed(&spans->rng, seed);
	spans_take(spans, config);
	return span_file_init(&spans->file, loop, config->trace_file);
}

void spans_close(struct spans *spans)
{
	span_file_close(&spans->file);
}
