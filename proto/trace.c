#include "proto/trace.h"

#include <string.h>

/* Where the fields and the dashes between them stand. */
enum { ID_AT = 3, PARENT_AT = 36, FLAGS_AT = 53 };

/* -1: it is no lowercase hex digit. */
static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(const char *text, size_t count, uint8_t *ret_bytes)
{
	for (size_t i = 0; i < count; i++) {
		int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		ret_bytes[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

const char *trace_parse(const char *text, size_t len, struct trace *ret_trace)
{
	struct trace trace = { .flags = 0 };
	uint8_t version;

	if (len < TRACE_TEXT_LEN)
		return "is too short";
	if (text[ID_AT - 1] != '-' || text[PARENT_AT - 1] != '-' || text[FLAGS_AT - 1] != '-')
		return "has not its four fields, with dashes between them";
	if (!read_hex(text, 1, &version))
		return "has a version that is not two lowercase hex digits";
	if (version == 0xFF)
		return "has version ff, which is none";
	if (!read_hex(text + ID_AT, TRACE_ID_BYTES, trace.id))
		return "has a trace id that is not 32 lowercase hex digits";
	if (is_zero(trace.id, TRACE_ID_BYTES))
		return "has a trace id of zeros, which is none";
	if (!read_hex(text + PARENT_AT, TRACE_SPAN_BYTES, trace.parent))
		return "has a parent id that is not 16 lowercase hex digits";
	if (is_zero(trace.parent, TRACE_SPAN_BYTES))
		return "has a parent id of zeros, which is none";
	if (!read_hex(text + FLAGS_AT, 1, &trace.flags))
		return "has flags that are not two lowercase hex digits";
	if (len > TRACE_TEXT_LEN && version == 0)
		return "is too long";
	if (len > TRACE_TEXT_LEN && text[TRACE_TEXT_LEN] != '-')
		return "has no dash behind its flags";
	/* What the other bits mean, a later version says. */
	if (version != 0)
		trace.flags &= TRACE_SAMPLED;
	*ret_trace = trace;
	return NULL;
}

char *trace_write_hex(const uint8_t *bytes, size_t count, char *ret_text)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < count; i++) {
		*ret_text++ = digits[bytes[i] >> 4];
		*ret_text++ = digits[bytes[i] & 0xF];
	}
	return ret_text;
}

void trace_write(const struct trace *trace, char ret_text[static TRACE_TEXT_LEN + 1])
{
	char *at = ret_text;

	memcpy(at, "00-", 3);
	at = trace_write_hex(trace->id, TRACE_ID_BYTES, at + 3);
	*at++ = '-';
	at = trace_write_hex(trace->parent, TRACE_SPAN_BYTES, at);
	*at++ = '-';
	at = trace_write_hex(&trace->flags, 1, at);
	*at = '\0';
}
