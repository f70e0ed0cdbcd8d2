#include "base/log.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log_line.h"

/* ---- lines ----------------------------------------------------------------------------------- */

static const char *line_of(const struct log_record *record, enum log_format format)
{
	static char line[LOG_LINE_MAX + 1];
	size_t len = log_line_write(record, format, line);
	cr_assert_leq(len, LOG_LINE_MAX);
	line[len] = '\0';
	return line;
}

#define FIELDS(...)                                                                                \
	.fields = (const struct log_field[]){ __VA_ARGS__ },                                       \
	.fields_count = sizeof(const struct log_field[]){ __VA_ARGS__ } / sizeof(struct log_field)

Test(log, a_line_is_time_level_and_pairs)
{
	const struct log_record record = {
		.time_us = 951868799000042, /* a leap day */
		.level = LOG_LEVEL_WARNING,
		FIELDS(LOG_TEXT("event", "origin.lost"), LOG_INT("port", -5),
		       LOG_UINT("n", UINT64_MAX), LOG_MS("after_ms", 1234567),
		       LOG_MS("ago_ms", INT64_MIN)),
		.suppressed = 3,
		.lost = 4,
	};
	cr_assert_str_eq(line_of(&record, LOG_FORMAT_TEXT),
			 "time=2000-02-29T23:59:59.000042Z level=warning event=origin.lost port=-5 "
			 "n=18446744073709551615 after_ms=1234.567 ago_ms=-9223372036854775.808 "
			 "suppressed=3 lost=4\n");
	cr_assert_str_eq(line_of(&record, LOG_FORMAT_JSON),
			 "{\"time\":\"2000-02-29T23:59:59.000042Z\",\"level\":\"warning\","
			 "\"event\":\"origin.lost\",\"port\":-5,\"n\":18446744073709551615,"
			 "\"after_ms\":1234.567,\"ago_ms\":-9223372036854775.808,"
			 "\"suppressed\":3,\"lost\":4}\n");
}

Test(log, the_journal_gets_a_priority_and_no_time)
{
	struct log_record record = { .has_priority = true, FIELDS(LOG_TEXT("event", "a")) };
	record.level = LOG_LEVEL_ERROR;
	cr_assert_str_eq(line_of(&record, LOG_FORMAT_TEXT), "<3>level=error event=a\n");
	record.level = LOG_LEVEL_DEBUG;
	cr_assert_str_eq(line_of(&record, LOG_FORMAT_JSON),
			 "<7>{\"level\":\"debug\",\"event\":\"a\"}\n");
}

Test(log, no_value_can_forge_a_line_or_another_field)
{
	static const struct {
		const char *value;
		size_t len;
		const char *text;
		const char *json;
	} cases[] = {
		{ "a/b:c.d-e", 9, "a/b:c.d-e", "\"a/b:c.d-e\"" },
		{ "", 0, "\"\"", "\"\"" },
		{ NULL, 0, "-", "null" },
		{ "two words", 9, "\"two words\"", "\"two words\"" },
		{ "a=b", 3, "\"a=b\"", "\"a=b\"" },
		{ "a\nlevel=error", 13, "\"a\\nlevel=error\"", "\"a\\nlevel=error\"" },
		{ "\"}\\", 3, "\"\\\"}\\\\\"", "\"\\\"}\\\\\"" },
		{ "\0\x1b\x7f", 3, "\"\\x00\\x1b\\x7f\"", "\"\\u0000\\u001b\\u007f\"" },
		{ "\xC3\xA9", 2, "\"\xC3\xA9\"", "\"\xC3\xA9\"" },
		{ "\xFF\xC3", 2, "\"\\xff\\xc3\"", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"" },
		{ "\xC2\x9B", 2, "\"\\xc2\\x9b\"", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"" },
		{ "\xED\xA0\x80", 3, "\"\\xed\\xa0\\x80\"",
		  "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct log_record record = {
			.has_priority = true,
			.level = LOG_LEVEL_INFO,
			FIELDS(LOG_BYTES("v", cases[i].value, cases[i].len)),
		};
		char expected[200];
		snprintf(expected, sizeof expected, "<6>level=info v=%s\n", cases[i].text);
		cr_expect_str_eq(line_of(&record, LOG_FORMAT_TEXT), expected);
		snprintf(expected, sizeof expected, "<6>{\"level\":\"info\",\"v\":%s}\n",
			 cases[i].json);
		cr_expect_str_eq(line_of(&record, LOG_FORMAT_JSON), expected);
	}
}

Test(log, what_does_not_fit_is_cut_and_the_line_stays_whole)
{
	char *big = malloc(100000);
	for (int fill = 0; fill < 3; fill++) {
		memset(big, "x\x01\xFF"[fill], 100000);
		for (size_t len = 0; len < 2000; len++) {
			const struct log_record record = {
				.level = LOG_LEVEL_INFO,
				FIELDS(LOG_BYTES("a", big, len), LOG_BYTES("b", big, 700 + len),
				       LOG_BYTES("c", big, len), LOG_BYTES("d", big, 100000),
				       LOG_BYTES("e", big, len), LOG_INT("f", INT64_MIN)),
				.suppressed = UINT64_MAX,
				.lost = UINT64_MAX,
			};
			for (int format = 0; format < 2; format++) {
				const char *line = line_of(&record, (enum log_format)format);
				const char *end =
					format == LOG_FORMAT_JSON ? ",\"cut\":1}\n" : " cut=1\n";
				size_t line_len = strlen(line);
				cr_assert_str_eq(line + line_len - strlen(end), end);
				cr_assert_eq(strchr(line, '\n'), line + line_len - 1);
			}
		}
	}
	free(big);
}

Test(log, a_value_that_grows_over_the_line_by_quoting_is_cut)
{
	char value[LOG_VALUE_MAX];
	memset(value, 1, sizeof value);
	const struct log_record record = {
		.level = LOG_LEVEL_INFO,
		FIELDS(LOG_BYTES("v", value, sizeof value)),
	};
	const char *line = line_of(&record, LOG_FORMAT_TEXT);
	cr_assert_str_eq(line + strlen(line) - strlen("\\x01\" cut=1\n"), "\\x01\" cut=1\n");
	line = line_of(&record, LOG_FORMAT_JSON);
	cr_assert_str_eq(line + strlen(line) - strlen("\\u0001\",\"cut\":1}\n"),
			 "\\u0001\",\"cut\":1}\n");
}

/* ---- writing --------------------------------------------------------------------------------- */

/* What has been written to the other end, up to now. */
static const char *received(int fd)
{
	static char text[1 << 20];
	size_t len = 0;
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	while (len < sizeof text - 1 && poll(&poll_fd, 1, 0) == 1) {
		ssize_t n = read(fd, text + len, sizeof text - 1 - len);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	text[len] = '\0';
	return text;
}

static int count_of(const char *text, const char *part)
{
	int count = 0;
	for (; (text = strstr(text, part)); text++)
		count++;
	return count;
}

Test(log, only_events_of_the_level_are_written)
{
	int ends[2];
	cr_assert_eq(pipe(ends), 0);
	log_open(ends[1], LOG_LEVEL_WARNING, LOG_FORMAT_TEXT);
	cr_assert(log_enabled(LOG_LEVEL_ERROR));
	cr_assert_not(log_enabled(LOG_LEVEL_INFO));
	log_error("a.error");
	log_warning("a.warning", LOG_INT("n", 1));
	log_info("an.info");
	log_debug("a.debug");
	const char *text = received(ends[0]);
	cr_assert_eq(count_of(text, "\n"), 2);
	cr_assert_not_null(strstr(text, "Z level=error event=a.error\n"));
	cr_assert_not_null(strstr(text, "Z level=warning event=a.warning n=1\n"));
}

/* One place in the source. */
static void say(int n)
{
	log_info("a.burst", LOG_INT("n", n));
}

Test(log, one_place_cannot_fill_the_log_and_others_go_on)
{
	int ends[2];
	cr_assert_eq(pipe(ends), 0);
	log_open(ends[1], LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	for (int i = 0; i < 10000; i++)
		say(i);
	log_info("another");
	log_flush();
	log_flush();
	const char *text = received(ends[0]);
	int lines = count_of(text, "event=a.burst ");
	cr_assert_geq(lines, LOG_SITE_BURST);
	cr_assert_eq(count_of(text, "event=another\n"), 1);
	/* The burst may have run into a second or third second: all lines are accounted for. */
	int untold = 0;
	for (const char *at = text; (at = strstr(at, "suppressed=")); at++)
		untold += atoi(at + strlen("suppressed="));
	cr_assert_eq(lines + untold, 10000);
	cr_assert_leq(count_of(text, "event=log.suppressed of=a.burst "), 1);
}

static void fill_and_drain(int reader, int writer)
{
	log_open(writer, LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	char big[LOG_VALUE_MAX];
	memset(big, 'x', sizeof big);
	int written = 0;
	struct log_site sites[2000] = { 0 };
	for (size_t i = 0; i < 2000; i++, written++) {
		const struct log_field fields[] = { LOG_TEXT("event", "big"),
						    LOG_BYTES("v", big, sizeof big) };
		log_write(&sites[i], LOG_LEVEL_INFO, fields, 2);
	}
	int arrived = count_of(received(reader), "event=big ");
	cr_assert_gt(arrived, 0);
	cr_assert_lt(arrived, written);
	log_info("after");
	char expected[100];
	snprintf(expected, sizeof expected, " event=after lost=%d\n", written - arrived);
	cr_assert_not_null(strstr(received(reader), expected), "%s", expected);
	log_info("later");
	cr_assert_not_null(strstr(received(reader), " event=later\n"));
	log_open(STDERR_FILENO, LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
}

Test(log, a_full_pipe_loses_lines_and_counts_them_but_does_not_wait, .timeout = 10)
{
	int ends[2];
	cr_assert_eq(pipe(ends), 0);
	fill_and_drain(ends[0], ends[1]);
}

Test(log, a_full_socket_loses_lines_and_counts_them_but_does_not_wait, .timeout = 10)
{
	int ends[2];
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	fill_and_drain(ends[0], ends[1]);
}

Test(log, a_socket_whose_reader_is_gone_does_not_end_the_process)
{
	int ends[2];
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	close(ends[0]);
	log_open(ends[1], LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	errno = ERANGE;
	log_info("into.the.void");
	cr_assert_eq(errno, ERANGE);
}

Test(log, the_journal_is_known_by_its_device_and_inode)
{
	int ends[2];
	struct stat st;
	char stream[64];
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	cr_assert_eq(fstat(ends[1], &st), 0);
	snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_open(ends[1], LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	log_info("a");
	cr_assert_str_eq(received(ends[0]), "<6>level=info event=a\n");

	snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino + 1);
	setenv("JOURNAL_STREAM", stream, 1);
	log_open(ends[1], LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	log_info("a");
	cr_assert_eq(strncmp(received(ends[0]), "time=", 5), 0);
}

/* ---- secrets --------------------------------------------------------------------------------- */

Test(log, connection_strings_are_shown_without_what_may_be_secret)
{
	static const struct {
		const char *dsn;
		const char *shown;
	} cases[] = {
		{ "", "" },
		{ "service=app", "service=app" },
		{ "host=h port=5 user=u password=sesame", "host=h port=5 user=u password=***" },
		{ " password = 'open \\' sesame' host = 'h' ", "password=*** host='h'" },
		{ "password=open\\ sesame host=h", "password=*** host=h" },
		{ "password=open'sesame sesame' host=h", "password=*** *** host=h" },
		{ "password='sesame", "password=***" },
		{ "sslpassword=sesame pasword=sesame", "sslpassword=*** pasword=***" },
		{ "sesame", "***" },
		{ "dbname=postgres://u:sesame@h", "dbname=***" },
		{ "dbname='password=sesame'", "dbname=***" },
		{ "postgres://h", "postgres://h" },
		{ "postgres://u@h:5/d", "postgres://u@h:5/d" },
		{ "postgresql://u:sesame@h:5/d?sslmode=require",
		  "postgresql://u:***@h:5/d?sslmode=require" },
		{ "postgres://u:open@ses/ame?@h/d", "postgres://u:***@h/d" },
		{ "postgres://:sesame@h", "postgres://:***@h" },
		{ "postgres:///d?host=/run&password=sesame&user=u",
		  "postgres:///d?host=/run&password=***&user=u" },
		{ "postgres:///d?pass%77ord=sesame", "postgres:///d?pass%77ord=***" },
		{ "postgres:///d?sesame", "postgres:///d?***" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char shown[200];
		cr_expect_str_eq(log_redact_dsn(cases[i].dsn, shown, sizeof shown), cases[i].shown);
	}
}

Test(log, a_connection_string_is_cut_to_its_buffer)
{
	char shown[8];
	cr_assert_str_eq(log_redact_dsn("service=application", shown, sizeof shown), "service");
	cr_assert_str_eq(log_redact_dsn("service=application", shown, 1), "");
}
