/* A W3C traceparent: which trace a request belongs to, and which span of its asker it is part of
 * (www.w3.org/TR/trace-context, 3.2: version, trace-id, parent-id and flags, in lowercase hex).
 *
 * Of a version above 00 what 00 has is taken, and nothing else, as 3.2.4 wants it. What is passed
 * on is of version 00. Pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRACE_ID_BYTES = 16, TRACE_SPAN_BYTES = 8, TRACE_TEXT_LEN = 55, TRACE_SAMPLED = 1 };

/* Of bytes only: it can lie anywhere. */
struct trace {
	uint8_t id[TRACE_ID_BYTES];
	uint8_t parent[TRACE_SPAN_BYTES]; /* the asker's span */
	uint8_t flags;                    /* TRACE_SAMPLED, and others that we do not know */
	uint8_t own[TRACE_SPAN_BYTES]; /* the request's own span, which is told when it has ended;
					  zeros: it has none */
};

static inline bool trace_has_own(const struct trace *trace)
{
	uint8_t any = 0;
	for (int i = 0; i < TRACE_SPAN_BYTES; i++)
		any |= trace->own[i];
	return any != 0;
}

/* NULL: `ret_trace` is set, without a span of its own. Else what is wrong with the text; static. */
const char *trace_parse(const char *text, size_t len, struct trace *ret_trace)
	__attribute__((warn_unused_result));

/* As text, with its NUL. */
void trace_write(const struct trace *trace, char ret_text[static TRACE_TEXT_LEN + 1]);

/* `count` bytes as lowercase hex, without a NUL. Returns where they end. */
char *trace_write_hex(const uint8_t *bytes, size_t count, char *ret_text);
