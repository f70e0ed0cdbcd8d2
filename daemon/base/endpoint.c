#include "base/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *parse_path(const char *path, struct endpoint *endpoint)
{
	if (path[0] != '/')
		return "has no absolute path after unix:";
	if (strlen(path) > SOCKET_PATH_MAX)
		return "has a path of more than 107 bytes";
	strcpy(endpoint->path, path);
	endpoint->loopback = true;
	return NULL;
}

/* 0: it is none. */
static in_port_t parse_port(const char *text)
{
	char *end;
	if (text[0] < '1' || text[0] > '9')
		return 0;
	long port = strtol(text, &end, 10);
	return *end == '\0' && port <= 65535 ? htons((in_port_t)port) : 0;
}

static bool parse_v4(const char *host, in_port_t port, struct endpoint *endpoint)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = port };
	if (inet_pton(AF_INET, host, &in.sin_addr) != 1)
		return false;
	memcpy(&endpoint->address, &in, sizeof(in));
	endpoint->len = sizeof(in);
	endpoint->loopback = ntohl(in.sin_addr.s_addr) >> 24 == 127;
	return true;
}

static bool parse_v6(const char *host, in_port_t port, struct endpoint *endpoint)
{
	struct sockaddr_in6 in = { .sin6_family = AF_INET6, .sin6_port = port };
	if (inet_pton(AF_INET6, host, &in.sin6_addr) != 1)
		return false;
	memcpy(&endpoint->address, &in, sizeof(in));
	endpoint->len = sizeof(in);
	endpoint->loopback = IN6_IS_ADDR_LOOPBACK(&in.sin6_addr);
	return true;
}

const char *endpoint_parse(const char *text, struct endpoint *ret_endpoint)
{
	struct endpoint endpoint = { 0 };
	char host[INET6_ADDRSTRLEN];
	const bool bracketed = text[0] == '[';
	const char *wrong = NULL;

	if (strncmp(text, "unix:", 5) == 0) {
		wrong = parse_path(text + 5, &endpoint);
	} else {
		const char *begin = bracketed ? text + 1 : text;
		const char *colon = strrchr(text, ':');
		const char *end = bracketed ? strchr(text, ']') : colon;
		in_port_t port = colon ? parse_port(colon + 1) : 0;

		if (port == 0 || !end || (bracketed && colon != end + 1))
			return "has no port from 1 to 65535 at its end";
		if ((size_t)(end - begin) >= sizeof(host))
			return "has no address of numbers";
		memcpy(host, begin, (size_t)(end - begin));
		host[end - begin] = '\0';
		if (!(bracketed ? parse_v6 : parse_v4)(host, port, &endpoint))
			wrong = "has no address of numbers";
	}
	if (!wrong)
		*ret_endpoint = endpoint;
	return wrong;
}
