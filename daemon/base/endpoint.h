/* Where the daemon listens besides its clients' socket: "127.0.0.1:9633", "[::1]:9633", or
 * "unix:/run/segar/metrics.sock". Addresses are numbers, since names may take long to find. Pure.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "base/limits.h"

struct endpoint {
	struct sockaddr_storage address; /* of `len` bytes; len 0: it is a path */
	socklen_t len;
	char path[SOCKET_PATH_MAX + 1];
	bool loopback; /* nobody outside this host reaches it */
};

/* NULL, or what is wrong with the text; then *ret_endpoint is not set. */
const char *endpoint_parse(const char *text, struct endpoint *ret_endpoint)
	__attribute__((warn_unused_result));
