#include "base/store_url.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct store_url url;

static void good(const char *text)
{
	memset(&url, 0, sizeof(url));
	const char *wrong = store_url_parse(text, &url);
	cr_assert_null(wrong, "%s: %s", text, wrong);
}

#define TCP(text, host_, port_, user_, password_, db_)                                             \
	do {                                                                                       \
		good(text);                                                                        \
		cr_assert_eq(url.scheme, STORE_URL_TCP);                                           \
		cr_assert_str_eq(url.host, host_);                                                 \
		cr_assert_eq(url.port, port_);                                                     \
		cr_assert_str_eq(url.user, user_);                                                 \
		cr_assert_str_eq(url.password, password_);                                         \
		cr_assert_eq(url.db, db_);                                                         \
	} while (0)

Test(store_url, addresses_over_the_network)
{
	TCP("redis://127.0.0.1:6380/3", "127.0.0.1", 6380, "", "", 3);
	TCP("redis://cache.example", "cache.example", 6379, "", "", 0);
	TCP("redis://cache.example/", "cache.example", 6379, "", "", 0);
	TCP("redis://[::1]", "::1", 6379, "", "", 0);
	TCP("redis://[fe80::1%eth0]:7000/15", "fe80::1%eth0", 7000, "", "", 15);
	TCP("redis://user:pass@h:1/2", "h", 1, "user", "pass", 2);
	TCP("redis://:p%40ss%2F@h", "h", 6379, "", "p@ss/", 0);
	TCP("redis://u%3Aser:a@b@h", "h", 6379, "u:ser", "a@b", 0);
}

Test(store_url, unix_sockets_and_none)
{
	good("unix:///run/redis.sock");
	cr_assert_eq(url.scheme, STORE_URL_UNIX);
	cr_assert_str_eq(url.host, "/run/redis.sock");
	cr_assert_eq(url.db, 0);
	good("unix:///run/my%20redis?db=7");
	cr_assert_str_eq(url.host, "/run/my redis");
	cr_assert_eq(url.db, 7);
	good("none");
	cr_assert_eq(url.scheme, STORE_URL_NONE);
}

Test(store_url, what_cannot_be_is_refused_and_no_password_shown)
{
	static const char *const bad[] = {
		"",
		"http://h",
		"None",
		"redis:/h",
		"rediss://h",
		"redis://",
		"redis://:1",
		"redis://h:",
		"redis://h:0",
		"redis://h:65536",
		"redis://h:6x",
		"redis://h/x",
		"redis://h/1024",
		"redis://h/-1",
		"redis://[::1",
		"redis://[::1]x",
		"redis://sesame@h",
		"redis://u:@h",
		"redis://u:sesame%4@h",
		"redis://u:sesame%00@h",
		"redis://u%zz:sesame@h",
		"unix://run/redis.sock",
		"unix://",
		"unix:///run/redis.sock?db=",
		"unix:///run/redis.sock?database=1",
		"unix:///run/redis.sock?db=1x",
		"unix:///run/re%00dis",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		const char *wrong = store_url_parse(bad[i], &url);
		cr_assert_not_null(wrong, "%s", bad[i]);
		cr_assert_null(strstr(wrong, "sesame"));
	}
}

Test(store_url, parts_have_their_limits)
{
	char text[2048];
	snprintf(text, sizeof(text), "unix:///%0106d", 0);
	good(text);
	snprintf(text, sizeof(text), "unix:///%0107d", 0);
	cr_assert_not_null(store_url_parse(text, &url));
	snprintf(text, sizeof(text), "redis://%0255d", 0);
	good(text);
	snprintf(text, sizeof(text), "redis://%0256d", 0);
	cr_assert_not_null(store_url_parse(text, &url));
	snprintf(text, sizeof(text), "redis://:%0512d@h", 0);
	good(text);
	snprintf(text, sizeof(text), "redis://:%0513d@h", 0);
	cr_assert_not_null(store_url_parse(text, &url));
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	fputs(text, file);
	fclose(file);
}

Test(store_url, a_password_may_come_from_a_file_or_a_credential)
{
	char folder[] = "/tmp/segar-url-XXXXXX", path[64], longest[600];
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/pass", folder);
	good("redis://u:old@h");
	write_file(path, "from a file\nand more\n");
	cr_assert_null(store_url_read_password(&url, path, NULL));
	cr_assert_str_eq(url.password, "from a file");
	write_file(path, "no newline");
	cr_assert_null(store_url_read_password(&url, "pass", folder));
	cr_assert_str_eq(url.password, "no newline");

	cr_assert_not_null(store_url_read_password(&url, "pass", NULL));
	cr_assert_not_null(store_url_read_password(&url, "other", folder));
	cr_assert_not_null(store_url_read_password(&url, folder, NULL));
	write_file(path, "\nsecond line");
	cr_assert_not_null(store_url_read_password(&url, path, NULL));
	snprintf(longest, sizeof(longest), "%0513d", 0);
	write_file(path, longest);
	cr_assert_not_null(store_url_read_password(&url, path, NULL));
	longest[512] = '\0';
	write_file(path, longest);
	cr_assert_null(store_url_read_password(&url, path, NULL));
	cr_assert_str_eq(url.password, longest);
	unlink(path);
	rmdir(folder);
}
