/* Where to listen, as people write it. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>

#include "base/endpoint.h"

Test(endpoint, addresses_are_read)
{
	static const struct {
		const char *text, *host;
		int family, port;
		bool loopback;
	} cases[] = {
		{ "127.0.0.1:9633", "127.0.0.1", AF_INET, 9633, true },
		{ "127.8.0.1:1", "127.8.0.1", AF_INET, 1, true },
		{ "0.0.0.0:65535", "0.0.0.0", AF_INET, 65535, false },
		{ "[::1]:9633", "::1", AF_INET6, 9633, true },
		{ "[::]:9633", "::", AF_INET6, 9633, false },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct endpoint endpoint;
		char host[INET6_ADDRSTRLEN];
		const char *wrong = endpoint_parse(cases[i].text, &endpoint);
		cr_assert_null(wrong, "%s %s", cases[i].text, wrong);
		cr_assert_eq(endpoint.address.ss_family, cases[i].family);
		const struct sockaddr_in *v4 = (void *)&endpoint.address;
		const struct sockaddr_in6 *v6 = (void *)&endpoint.address;
		const bool is_v4 = cases[i].family == AF_INET;
		inet_ntop(cases[i].family,
			  is_v4 ? (const void *)&v4->sin_addr : (const void *)&v6->sin6_addr, host,
			  sizeof(host));
		cr_assert_str_eq(host, cases[i].host);
		cr_assert_eq(ntohs(is_v4 ? v4->sin_port : v6->sin6_port), cases[i].port);
		cr_assert_eq(endpoint.loopback, cases[i].loopback, "%s", cases[i].text);
	}
}

Test(endpoint, a_path_is_read)
{
	struct endpoint endpoint;
	cr_assert_null(endpoint_parse("unix:/run/segar/metrics.sock", &endpoint));
	cr_assert_str_eq(endpoint.path, "/run/segar/metrics.sock");
	cr_assert_eq(endpoint.len, 0);
	cr_assert(endpoint.loopback);
}

Test(endpoint, all_else_is_refused)
{
	char longest[200] = "unix:/";
	static const char *const cases[] = {
		"",
		"9633",
		":9633",
		"127.0.0.1",
		"127.0.0.1:",
		"127.0.0.1:0",
		"127.0.0.1:65536",
		"127.0.0.1:+1",
		"127.0.0.1:1 ",
		"localhost:9633",
		"::1:9633",
		"[::1]",
		"[::1]9633",
		"[::1:9633",
		"[127.0.0.1]:1",
		"unix:",
		"unix:metrics.sock",
		"http://127.0.0.1:1",
		"1111:1111:1111:1111:1111:1111:1111:1111:1111:1111:1",
	};
	struct endpoint endpoint;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_assert_not_null(endpoint_parse(cases[i], &endpoint), "%s", cases[i]);
	memset(longest + 6, 'x', 120);
	cr_assert_not_null(endpoint_parse(longest, &endpoint));
}
