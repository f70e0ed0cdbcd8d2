#include "base/log_line.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "proto/utf8.h"

enum {
	/* Kept free behind the fields: a closing quote, the counts, `cut`, a brace, a newline. */
	TAIL_MAX = 128,
	ESCAPE_MAX = 6, /* \u001f */
};

struct line {
	char *buf;
	size_t len;
	size_t limit; /* fields end before it */
	enum log_format format;
	bool is_first;
	bool is_cut;
	bool hides_keys;
	uint64_t salt;
};

static void put_bytes(struct line *line, const char *bytes, size_t len)
{
	memcpy(line->buf + line->len, bytes, len);
	line->len += len;
}

static void put(struct line *line, const char *text)
{
	put_bytes(line, text, strlen(text));
}

static void put_format(struct line *line, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void put_format(struct line *line, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	line->len +=
		(size_t)vsnprintf(line->buf + line->len, LOG_LINE_MAX - line->len, format, args);
	va_end(args);
}

static void put_key(struct line *line, const char *key)
{
	if (line->format == LOG_FORMAT_JSON)
		put_format(line, "%s\"%s\":", line->is_first ? "{" : ",", key);
	else
		put_format(line, "%s%s=", line->is_first ? "" : " ", key);
	line->is_first = false;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool is_plain(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c <= ' ' || c >= 0x7F || c == '"' || c == '=' || c == '\\')
			return false;
	}
	return len > 0;
}

/* One byte that may not stand for itself. */
static void put_escape(struct line *line, unsigned char c)
{
	if (c == '"' || c == '\\')
		put_format(line, "\\%c", c);
	else if (c == '\n')
		put(line, "\\n");
	else if (c == '\t')
		put(line, "\\t");
	else if (line->format == LOG_FORMAT_TEXT)
		put_format(line, "\\x%02x", c);
	else if (c < ' ' || c == 0x7F)
		put_format(line, "\\u%04x", c);
	else
		put(line, "\xEF\xBF\xBD"); /* U+FFFD: JSON is UTF-8, and this byte is not */
}

static bool is_safe(unsigned char c)
{
	return c >= ' ' && c != '"' && c != '\\' && c != 0x7F;
}

/* C1 controls (U+0080 to U+009F) are characters, but terminals act on them. */
static bool is_c1(const char *text, size_t len)
{
	return len == 2 && (unsigned char)text[0] == 0xC2 && (unsigned char)text[1] < 0xA0;
}

/* The length of the character that `text` begins with; 0 if that is none. */
static size_t char_len(const char *text, size_t len)
{
	unsigned char lead = (unsigned char)*text;
	size_t n = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
	return n <= len && utf8_valid_len(text, n) == n ? n : 0;
}

static void put_quoted(struct line *line, const char *text, size_t len)
{
	put(line, "\"");
	size_t i = 0;
	while (i < len) {
		if (line->len + ESCAPE_MAX > line->limit) {
			line->is_cut = true;
			break;
		}
		size_t n = char_len(text + i, len - i);
		if (n > 0 && is_safe((unsigned char)text[i]) && !is_c1(text + i, n)) {
			put_bytes(line, text + i, n);
			i += n;
		} else {
			put_escape(line, (unsigned char)text[i++]);
		}
	}
	put(line, "\"");
}

static void put_text(struct line *line, const char *text, size_t len)
{
	if (!text) {
		put(line, line->format == LOG_FORMAT_JSON ? "null" : "-");
		return;
	}
	if (len > LOG_VALUE_MAX) {
		len = LOG_VALUE_MAX;
		line->is_cut = true;
	}
	if (line->format == LOG_FORMAT_TEXT && is_plain(text, len) &&
	    line->len + len <= line->limit)
		put_bytes(line, text, len);
	else
		put_quoted(line, text, len);
}

static void put_ms(struct line *line, int64_t us)
{
	uint64_t size = us < 0 ? -(uint64_t)us : (uint64_t)us;
	put_format(line, "%s%" PRIu64 ".%03u", us < 0 ? "-" : "", size / 1000,
		   (unsigned)(size % 1000));
}

static const char HIDDEN[] = "hidden";

/* KEYSPACE:#NUMBER */
static void put_hidden(struct line *line, const struct log_field *field, uint64_t salt)
{
	char text[LOG_VALUE_MAX];
	const char *colon = field->text ? memchr(field->text, ':', field->len) : NULL;
	size_t head = colon ? (size_t)(colon - field->text) : field->len;
	if (!colon || head > sizeof(text) - 32) {
		put_text(line, field->text, head < field->len ? head : field->len);
		return;
	}
	memcpy(text, field->text, head);
	int tail = snprintf(text + head, sizeof(text) - head, ":#%016" PRIx64,
			    XXH3_64bits_withSeed(field->text, field->len, salt));
	put_text(line, text, head + (size_t)tail);
}

static void put_field(struct line *line, const struct log_field *field)
{
	if (line->len + strlen(field->key) + TAIL_MAX > line->limit) {
		line->is_cut = true;
		return;
	}
	put_key(line, field->key);
	switch (field->type) {
	case LOG_FIELD_KEY:
		if (line->hides_keys) {
			put_hidden(line, field, line->salt);
			return;
		}
		put_text(line, field->text, field->len);
		return;
	case LOG_FIELD_QUOTE:
		if (line->hides_keys) {
			put_text(line, HIDDEN, sizeof(HIDDEN) - 1);
			return;
		}
		__attribute__((fallthrough));
	case LOG_FIELD_TEXT:
		put_text(line, field->text, field->len);
		return;
	case LOG_FIELD_INT:
		put_format(line, "%" PRId64, field->number);
		return;
	case LOG_FIELD_UINT:
		put_format(line, "%" PRIu64, field->count);
		return;
	case LOG_FIELD_MS:
		put_ms(line, field->number);
		return;
	}
}

/* ---- the line -------------------------------------------------------------------------------- */

/* What syslog calls them: err, warning, info, debug. */
static const int priorities[] = {
	[LOG_LEVEL_ERROR] = 3,
	[LOG_LEVEL_WARNING] = 4,
	[LOG_LEVEL_INFO] = 6,
	[LOG_LEVEL_DEBUG] = 7,
};

static void put_time(struct line *line, int64_t time_us)
{
	time_t seconds = (time_t)(time_us / 1000000);
	struct tm tm;
	char text[32];
	gmtime_r(&seconds, &tm);
	size_t len = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + len, sizeof text - len, ".%06dZ", (int)(time_us % 1000000));
	put_field(line, &LOG_BYTES("time", text, strlen(text)));
}

size_t log_line_write(const struct log_record *record, enum log_format format,
		      char buf[LOG_LINE_MAX])
{
	struct line line = {
		.buf = buf,
		.limit = LOG_LINE_MAX - TAIL_MAX,
		.format = format,
		.is_first = true,
		.hides_keys = record->hides_keys,
		.salt = record->salt,
	};
	if (record->has_priority)
		put_format(&line, "<%d>", priorities[record->level]);
	else
		put_time(&line, record->time_us);
	put_field(&line, &LOG_BYTES("level", log_level_name(record->level),
				    strlen(log_level_name(record->level))));
	for (size_t i = 0; i < record->fields_count; i++)
		put_field(&line, &record->fields[i]);

	line.limit = LOG_LINE_MAX + TAIL_MAX;
	if (record->suppressed > 0)
		put_field(&line, &LOG_UINT("suppressed", record->suppressed));
	if (record->lost > 0)
		put_field(&line, &LOG_UINT("lost", record->lost));
	if (line.is_cut)
		put_field(&line, &LOG_INT("cut", 1));
	put(&line, format == LOG_FORMAT_JSON ? "}\n" : "\n");
	return line.len;
}
