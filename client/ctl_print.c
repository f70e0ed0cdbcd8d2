#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "client/ctl.h"
#include "proto/reader.h"
#include "proto/utf8.h"

/* Whether U+0080 to U+009F begins there: commands for a terminal, too, as U+009B is what ESC [ is.
 */
static bool is_late_control(struct wire_span text, size_t at)
{
	return (unsigned char)text.data[at] == 0xc2 && at + 1 < text.len &&
	       ((unsigned char)text.data[at + 1] & 0xe0) == 0x80;
}

/* Text that a terminal can be trusted with: what it might take for a command is shown as \xNN. */
static void put_text(FILE *out, struct wire_span text, bool lines)
{
	for (size_t i = 0; i < text.len; i++) {
		const unsigned char c = (unsigned char)text.data[i];

		if ((c < ' ' && !(lines && (c == '\n' || c == '\t'))) || c == 0x7f)
			fprintf(out, "\\x%02x", c);
		else if (is_late_control(text, i))
			fprintf(out, "\\xc2\\x%02x", (unsigned char)text.data[++i]);
		else
			fputc(c, out);
	}
}

void ctl_put_text(FILE *out, struct wire_span text)
{
	put_text(out, text, false);
}

static void put_json_string(FILE *out, struct wire_span text)
{
	fputc('"', out);
	for (size_t i = 0; i < text.len; i++) {
		const unsigned char c = (unsigned char)text.data[i];

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c == '\n')
			fputs("\\n", out);
		else if (c < ' ' || c == 0x7f)
			fprintf(out, "\\u%04x", c);
		else if (is_late_control(text, i))
			fprintf(out, "\\u%04x", (unsigned char)text.data[++i]);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

static void put_base64(FILE *out, struct wire_span bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *at = (const unsigned char *)bytes.data;

	fputc('"', out);
	for (size_t left = bytes.len; left > 0; left -= left < 3 ? left : 3, at += 3) {
		const uint32_t three = (uint32_t)at[0] << 16 |
				       (left > 1 ? (uint32_t)at[1] << 8 : 0) |
				       (left > 2 ? at[2] : 0);

		fputc(digits[three >> 18], out);
		fputc(digits[three >> 12 & 63], out);
		fputc(left > 1 ? digits[three >> 6 & 63] : '=', out);
		fputc(left > 2 ? digits[three & 63] : '=', out);
	}
	fputc('"', out);
}

static bool is_text(struct wire_span bytes)
{
	return utf8_valid_len(bytes.data, bytes.len) == bytes.len;
}

static void put_json_bytes(FILE *out, struct wire_span bytes)
{
	if (is_text(bytes)) {
		put_json_string(out, bytes);
		return;
	}
	fputs("{\"base64\": ", out);
	put_base64(out, bytes);
	fputc('}', out);
}

void ctl_put_json_text(FILE *out, const char *text)
{
	put_json_bytes(out, (struct wire_span){ text, strlen(text) });
}

/* Values without an inside, which both forms but for strings show alike. */
static void put_plain(FILE *out, const struct mp_value *value)
{
	switch (value->type) {
	case MP_BOOL:
		fputs(value->boolean ? "true" : "false", out);
		break;
	case MP_INT:
		fprintf(out, "%" PRId64, value->number);
		break;
	case MP_BIG:
		fprintf(out, "%" PRIu64, value->big);
		break;
	case MP_FLOAT:
		if (isfinite(value->real))
			fprintf(out, "%.15g", value->real);
		else
			fputs("null", out);
		break;
	case MP_NIL:
	case MP_STR:
	case MP_BIN:
	case MP_EXT:
	case MP_ARRAY:
	case MP_MAP:
		fputs("null", out);
		break;
	}
}

static bool put_json(FILE *out, struct reader *r);

/* A map's key is a string in JSON, whatever it was. */
static bool put_json_key(FILE *out, struct reader *r)
{
	struct mp_value key;

	if (!reader_next(r, &key) || mp_is_container(&key))
		return false;
	if (key.type == MP_STR || key.type == MP_BIN) {
		put_json_bytes(out, key.bytes);
	} else {
		fputc('"', out);
		put_plain(out, &key);
		fputc('"', out);
	}
	fputs(": ", out);
	return true;
}

/* Recursion ends at WIRE_DEPTH_MAX: frames with more are refused. */
static bool put_json(FILE *out, struct reader *r)
{
	struct mp_value value;

	if (!reader_next(r, &value))
		return false;
	if (value.type == MP_STR || value.type == MP_BIN) {
		put_json_bytes(out, value.bytes);
		return true;
	}
	if (!mp_is_container(&value)) {
		put_plain(out, &value);
		return true;
	}
	fputc(value.type == MP_MAP ? '{' : '[', out);
	for (uint32_t i = 0; i < value.count; i++) {
		if (i > 0)
			fputs(", ", out);
		if (value.type == MP_MAP && !put_json_key(out, r))
			return false;
		if (!put_json(out, r))
			return false;
	}
	fputc(value.type == MP_MAP ? '}' : ']', out);
	return true;
}

bool ctl_print_json(FILE *out, struct wire_span encoded)
{
	struct reader r;
	bool whole;

	reader_init(&r, encoded.data, encoded.len);
	whole = put_json(out, &r);
	fputc('\n', out);
	return whole && reader_at_end(&r);
}

/* A value without an inside, to the end of its line. */
static void put_line(FILE *out, const struct mp_value *value)
{
	const bool bytes = value->type == MP_STR || value->type == MP_BIN;

	if (value->type == MP_NIL)
		fputc('-', out);
	else if (bytes && is_text(value->bytes))
		put_text(out, value->bytes, false);
	else if (bytes)
		fprintf(out, "(%zu bytes)", value->bytes.len);
	else
		put_plain(out, value);
	fputc('\n', out);
}

/* Where a value of the text form stands: behind a name, or behind a list's dash, or at the start.
 */
enum place { AT_START, BEHIND_NAME, BEHIND_DASH };

/* One value, with its lines `indent` blanks in. The name or dash that it stands behind is already
 * on its line. */
static bool put_indented(FILE *out, struct reader *r, enum place place, int indent)
{
	struct mp_value value;
	struct wire_span name;

	if (!reader_next(r, &value))
		return false;
	if (place == BEHIND_NAME && !(mp_is_container(&value) && value.count > 0))
		fputc(' ', out);
	if (!mp_is_container(&value)) {
		put_line(out, &value);
		return true;
	}
	if (value.count == 0)
		fputs("(none)\n", out);
	else if (place == BEHIND_NAME)
		fputc('\n', out);
	for (uint32_t i = 0; i < value.count; i++) {
		/* What stands behind a dash begins on its line. */
		fprintf(out, "%*s", place == BEHIND_DASH && i == 0 ? 0 : indent, "");
		if (value.type == MP_ARRAY) {
			fputs("- ", out);
			if (!put_indented(out, r, BEHIND_DASH, indent + 2))
				return false;
			continue;
		}
		if (!reader_text(r, &name))
			return false;
		put_text(out, name, false);
		fputc(':', out);
		if (!put_indented(out, r, BEHIND_NAME, indent + 2))
			return false;
	}
	return true;
}

bool ctl_print_text(FILE *out, struct wire_span encoded)
{
	struct reader r;

	reader_init(&r, encoded.data, encoded.len);
	return put_indented(out, &r, AT_START, 0) && reader_at_end(&r);
}

static void put_json_error(FILE *out, int status, const char *text, int64_t retry_after_ms)
{
	fprintf(out, "{\"error\": {\"code\": \"%s\", \"text\": ", segar_status_name(status));
	put_json_string(out, (struct wire_span){ text, strlen(text) });
	if (retry_after_ms >= 0)
		fprintf(out, ", \"retry_after_ms\": %" PRId64, retry_after_ms);
	fputs("}}", out);
}

void ctl_print_error(FILE *out, const struct ctl *ctl, int status, const char *text,
		     int64_t retry_after_ms)
{
	if (ctl->json) {
		put_json_error(out, status, text, retry_after_ms);
		fputc('\n', out);
		return;
	}
	fprintf(stderr, "segarctl: %s: ", segar_status_name(status));
	put_text(stderr, (struct wire_span){ text, strlen(text) }, false);
	fputc('\n', stderr);
}

static void put_json_result(FILE *out, const segar_result *result)
{
	const struct wire_span value = { result->value, result->value_len };

	fprintf(out, "{\"state\": \"%s\", \"value\": ", segar_state_name(result->state));
	if (!value.data) {
		fputs("null, \"encoding\": null", out);
	} else if (is_text(value)) {
		put_json_string(out, value);
		fputs(", \"encoding\": \"utf-8\"", out);
	} else {
		put_base64(out, value);
		fputs(", \"encoding\": \"base64\"", out);
	}
	if (result->has_version)
		fprintf(out, ", \"version\": %" PRId64, result->version);
	else
		fputs(", \"version\": null", out);
	fprintf(out,
		", \"age_ms\": %" PRId64 ", \"ttl_ms\": %" PRId64 ", \"stale_ms\": %" PRId64
		", \"reason\": ",
		result->age_ms, result->ttl_ms, result->stale_ms);
	if (result->reason == SEGAR_REASON_NONE)
		fputs("null", out);
	else
		fprintf(out, "\"%s\"", segar_reason_name(result->reason));
	fputs(", \"source\": ", out);
	if (result->source == SEGAR_SOURCE_NONE)
		fputs("null", out);
	else
		fprintf(out, "\"%s\"", segar_source_name(result->source));
	fputc('}', out);
}

static void put_text_result(FILE *out, const segar_result *result)
{
	const struct wire_span value = { result->value, result->value_len };

	fprintf(out, "state    %s", segar_state_name(result->state));
	if (result->reason != SEGAR_REASON_NONE)
		fprintf(out, " (%s)", segar_reason_name(result->reason));
	fputc('\n', out);
	if (result->source != SEGAR_SOURCE_NONE)
		fprintf(out, "source   %s\n", segar_source_name(result->source));
	if (result->has_version)
		fprintf(out, "version  %" PRId64 "\n", result->version);
	fprintf(out, "age      %" PRId64 " ms\n", result->age_ms);
	if (result->stale_ms > 0)
		fprintf(out, "stale    for %" PRId64 " ms\n", result->stale_ms);
	else
		fprintf(out, "fresh    for %" PRId64 " ms\n", result->ttl_ms);
	if (result->state == SEGAR_ABSENT)
		return;
	fputs("value    ", out);
	if (!value.data)
		fputs("(null)", out);
	else if (is_text(value))
		put_text(out, value, true);
	else
		fprintf(out, "(%zu bytes, no text; --raw writes them)", value.len);
	fputc('\n', out);
}

void ctl_print_result(FILE *out, const struct ctl *ctl, const segar_result *result)
{
	if (ctl->raw) {
		if (result->value)
			fwrite(result->value, 1, result->value_len, out);
	} else if (ctl->json) {
		if (result->status == SEGAR_OK)
			put_json_result(out, result);
		else
			put_json_error(out, result->status, result->error, result->retry_after_ms);
	} else if (result->status == SEGAR_OK) {
		put_text_result(out, result);
	} else {
		fprintf(out, "error    %s: ", segar_status_name(result->status));
		put_text(out, (struct wire_span){ result->error, strlen(result->error) }, false);
		fputc('\n', out);
	}
}

enum ctl_exit ctl_exit_of(int status)
{
	switch (status) {
	case SEGAR_OK:
		return CTL_VALUE;
	case SEGAR_DISCONNECTED:
	case SEGAR_NO_REPLY:
	case SEGAR_PROTOCOL:
		return CTL_NO_DAEMON;
	default:
		return CTL_ERROR;
	}
}
