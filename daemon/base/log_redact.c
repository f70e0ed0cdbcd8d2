/* Connection strings without their secrets. Only what is known to be harmless is shown: a new or
 * misspelt option, or a string that libpq would refuse, must not give away a password either. */
#include <string.h>

#include "base/log.h"

static const char mark[] = "***";

/* The options whose values are shown. */
static const char *const harmless[] = {
	"host",
	"hostaddr",
	"port",
	"dbname",
	"user",
	"service",
	"sslmode",
	"application_name",
	"connect_timeout",
	"target_session_attrs",
};

struct out {
	char *buf;
	size_t size;
	size_t len;
};

static void put(struct out *out, const char *text, size_t len)
{
	if (len > out->size - 1 - out->len)
		len = out->size - 1 - out->len;
	memcpy(out->buf + out->len, text, len);
	out->len += len;
}

static bool is_harmless(const char *key, size_t key_len, const char *value, size_t value_len)
{
	/* A whole connection string can stand where the database's name is expected. */
	if (memmem(value, value_len, "://", 3) || memchr(value, '=', value_len))
		return false;
	for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
		if (strlen(harmless[i]) == key_len && memcmp(harmless[i], key, key_len) == 0)
			return true;
	return false;
}

static void put_option(struct out *out, const char *key, size_t key_len, const char *value,
		       size_t value_len)
{
	put(out, key, key_len);
	put(out, "=", 1);
	if (is_harmless(key, key_len, value, value_len))
		put(out, value, value_len);
	else
		put(out, mark, strlen(mark));
}

/* "?key=value&key=value", from the question mark on. */
static void redact_parameters(const char *at, struct out *out)
{
	while (*at) {
		put(out, at++, 1);
		size_t len = strcspn(at, "&");
		size_t key_len = strcspn(at, "=&");
		if (key_len < len)
			put_option(out, at, key_len, at + key_len + 1, len - key_len - 1);
		else if (len > 0)
			put(out, mark, strlen(mark));
		at += len;
	}
}

/* "//user:password@host:port/database?parameters", from the slashes on. A password that was not
 * percent-encoded may hold any sign, so that it ends with the last @ only. */
static void redact_uri(const char *at, struct out *out)
{
	const char *credentials_end = strrchr(at, '@');
	if (credentials_end) {
		size_t user_len = strcspn(at, ":@");
		put(out, at, user_len);
		if (at[user_len] == ':') {
			put(out, ":", 1);
			put(out, mark, strlen(mark));
		}
		at = at + user_len < credentials_end ? credentials_end : at + user_len;
	}
	size_t len = strcspn(at, "?");
	put(out, at, len);
	redact_parameters(at + len, out);
}

/* The length of a value: quoted, or up to the next blank; a backslash hides any sign. */
static size_t value_span(const char *text)
{
	bool is_quoted = *text == '\'';
	const char *at = text + is_quoted;
	for (; *at; at++) {
		if (*at == '\\' && at[1])
			at++;
		else if (is_quoted && *at == '\'')
			return (size_t)(at - text) + 1;
		else if (!is_quoted && strchr(" \t\r\n\f\v", *at))
			break;
	}
	return (size_t)(at - text);
}

/* "key=value key = 'value'". */
static void redact_pairs(const char *at, struct out *out)
{
	static const char blanks[] = " \t\r\n\f\v";
	at += strspn(at, blanks);
	while (*at) {
		const char *key = at;
		size_t key_len = strcspn(at, "= \t\r\n\f\v");
		at += key_len;
		at += strspn(at, blanks);
		if (*at == '=') {
			at++;
			at += strspn(at, blanks);
			size_t len = value_span(at);
			put_option(out, key, key_len, at, len);
			at += len;
		} else {
			put(out, mark, strlen(mark));
		}
		at += strspn(at, blanks);
		if (*at)
			put(out, " ", 1);
	}
}

const char *log_redact_dsn(const char *dsn, char *buf, size_t size)
{
	static const char *const schemes[] = { "postgres://", "postgresql://" };
	struct out out = { .buf = buf, .size = size };
	bool is_uri = false;
	for (size_t i = 0; i < sizeof schemes / sizeof *schemes && !is_uri; i++) {
		size_t len = strlen(schemes[i]);
		is_uri = strncmp(dsn, schemes[i], len) == 0;
		if (is_uri) {
			put(&out, dsn, len);
			redact_uri(dsn + len, &out);
		}
	}
	if (!is_uri)
		redact_pairs(dsn, &out);
	buf[out.len] = '\0';
	return buf;
}
