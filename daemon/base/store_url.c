#include "base/store_url.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"

/* A part of the text, not terminated. */
struct span {
	const char *at;
	size_t len;
};

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Copies, percent-decoding; false where that is malformed, holds a NUL, or does not fit. */
static bool decode(struct span from, char *to, size_t size)
{
	size_t len = 0;
	for (size_t i = 0; i < from.len; i++) {
		int c = (unsigned char)from.at[i];
		if (c == '%') {
			if (from.len - i < 3 || hex(from.at[i + 1]) < 0 || hex(from.at[i + 2]) < 0)
				return false;
			c = hex(from.at[i + 1]) << 4 | hex(from.at[i + 2]);
			i += 2;
		}
		if (c == 0 || len + 1 >= size)
			return false;
		to[len++] = (char)c;
	}
	to[len] = '\0';
	return true;
}

static bool number(struct span from, unsigned max, uint16_t *ret_number)
{
	unsigned value = 0;
	if (from.len == 0 || from.len > 5)
		return false;
	for (size_t i = 0; i < from.len; i++) {
		if (from.at[i] < '0' || from.at[i] > '9')
			return false;
		value = value * 10 + (unsigned)(from.at[i] - '0');
	}
	*ret_number = (uint16_t)value;
	return value <= max;
}

/* Splits at the first or last `c`: what is before goes to *before (if it is there), the rest stays.
 */
static bool cut(struct span *rest, char c, bool last, struct span *before)
{
	const char *at = last ? memrchr(rest->at, c, rest->len) : memchr(rest->at, c, rest->len);
	if (!at)
		return false;
	*before = (struct span){ rest->at, (size_t)(at - rest->at) };
	rest->len -= before->len + 1;
	rest->at = at + 1;
	return true;
}

static const char *parse_user(struct span text, struct store_url *url)
{
	struct span user;
	if (!cut(&text, ':', false, &user))
		return "has a user without a password; expected user:password@";
	if (!decode(user, url->user, sizeof(url->user)))
		return "has a malformed user";
	if (text.len == 0 || !decode(text, url->password, sizeof(url->password)))
		return "has a malformed password";
	return NULL;
}

static const char *parse_host(struct span text, struct store_url *url)
{
	struct span host = text;
	bool has_port = false;
	if (text.len > 0 && text.at[0] == '[') {
		text.at++, text.len--;
		if (!cut(&text, ']', false, &host) || (text.len > 0 && text.at[0] != ':'))
			return "has a malformed IPv6 address";
		has_port = text.len > 0;
		text.at += has_port, text.len -= has_port;
	} else if (cut(&text, ':', false, &host)) {
		has_port = true;
	}
	if (host.len == 0 || host.len > STORE_HOST_MAX)
		return "has no host, or too long a one";
	memcpy(url->host, host.at, host.len);
	if (has_port && (!number(text, UINT16_MAX, &url->port) || url->port == 0))
		return "has a malformed port; expected 1 to 65535";
	return NULL;
}

static const char *parse_tcp(struct span text, struct store_url *url)
{
	struct span user, host;
	const char *wrong;
	url->scheme = STORE_URL_TCP;
	url->port = 6379;
	if (cut(&text, '@', true, &user) && (wrong = parse_user(user, url)))
		return wrong;
	if (!cut(&text, '/', false, &host)) {
		host = text;
		text.len = 0;
	}
	if (text.len > 0 && !number(text, STORE_DB_MAX, &url->db))
		return "has a malformed database; expected /0 to /1023";
	return parse_host(host, url);
}

static const char *parse_unix(struct span text, struct store_url *url)
{
	struct span path;
	url->scheme = STORE_URL_UNIX;
	if (cut(&text, '?', false, &path)) {
		if (text.len < 3 || memcmp(text.at, "db=", 3) != 0 ||
		    !number((struct span){ text.at + 3, text.len - 3 }, STORE_DB_MAX, &url->db))
			return "has a malformed database; expected ?db=0 to ?db=1023";
	} else {
		path = text;
	}
	if (path.len == 0 || path.at[0] != '/')
		return "has no absolute path; expected unix:///path";
	if (!decode(path, url->host, SOCKET_PATH_MAX + 1))
		return "has a malformed path, or one of over 107 bytes";
	return NULL;
}

const char *store_url_parse(const char *text, struct store_url *ret_url)
{
	struct store_url url = { .scheme = STORE_URL_NONE };
	const char *wrong = NULL;
	if (strncmp(text, "redis://", 8) == 0)
		wrong = parse_tcp((struct span){ text + 8, strlen(text + 8) }, &url);
	else if (strncmp(text, "unix://", 7) == 0)
		wrong = parse_unix((struct span){ text + 7, strlen(text + 7) }, &url);
	else if (strcmp(text, "none") != 0)
		wrong = "is no store that segard knows";
	if (!wrong)
		*ret_url = url;
	return wrong;
}

const char *store_url_read_password(struct store_url *url, const char *file,
				    const char *credentials)
{
	char path[4096];
	bool is_credential = !strchr(file, '/');
	if (is_credential && !credentials)
		return "names a credential, but the service has none";
	int len = snprintf(path, sizeof(path), "%s%s%s", is_credential ? credentials : "",
			   is_credential ? "/" : "", file);
	if (len < 0 || (size_t)len >= sizeof(path))
		return "has too long a path";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return strerror(errno);
	char text[STORE_PASSWORD_MAX + 2];
	ssize_t got = read(fd, text, sizeof(text) - 1);
	int error = errno;
	close(fd);
	if (got < 0)
		return strerror(error);
	text[got] = '\0';
	size_t end = strcspn(text, "\r\n");
	if (end == 0 || end > STORE_PASSWORD_MAX)
		return "has no password in its first line, or too long a one";
	memcpy(url->password, text, end);
	url->password[end] = '\0';
	return NULL;
}
