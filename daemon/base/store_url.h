/* Where the store is, as the configuration says it.
 *
 *   redis://[[user]:password@]host[:port][/db]   host: a name, an IPv4 address or [an IPv6 address]
 *   unix:///path[?db=N]
 *   none
 *
 * User, password and path may be percent-encoded. Texts that come from here never hold a password.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	STORE_HOST_MAX = 255,
	STORE_USER_MAX = 128,
	STORE_PASSWORD_MAX = 512,
	STORE_DB_MAX = 1023,
};

enum store_scheme { STORE_URL_NONE, STORE_URL_TCP, STORE_URL_UNIX };

struct store_url {
	enum store_scheme scheme;
	char host[STORE_HOST_MAX + 1]; /* TCP: without brackets; UNIX: the path */
	uint16_t port;
	uint16_t db;
	char user[STORE_USER_MAX + 1];         /* empty: the default user */
	char password[STORE_PASSWORD_MAX + 1]; /* empty: none */
};

/* NULL on success, else what is wrong, in words that may be shown; then *ret_url is not set. Pure;
   any thread. */
const char *store_url_parse(const char *text, struct store_url *ret_url)
	__attribute__((warn_unused_result));

/* Reads the password from a file, up to its first line's end. A name without `/` is one of the
   service's credentials, in `credentials` (systemd's $CREDENTIALS_DIRECTORY; NULL: there are none).
   Blocks on the file. NULL on success, else what is wrong. */
const char *store_url_read_password(struct store_url *url, const char *file,
				    const char *credentials) __attribute__((warn_unused_result));
