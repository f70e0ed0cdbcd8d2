#include "proto/method.h"

#include <criterion/criterion.h>

#include "wire_help.h"

/* Reads the params in `hex` as what follows the key of a request to `method`. */
static enum status read_hex(const char *hex, enum method method, struct options *ret_options,
			    struct wire_error *error)
{
	struct bytes m = bytes_from_hex(hex, NULL);
	enum status status;
	struct reader r;

	reader_init(&r, m.data, m.len);
	status = options_read(&r, method, ret_options, error);
	free(m.data);
	return status;
}

#define WAIT_MS     "a7 77 61 69 74 5f 6d 73"
#define TRACE       "a5 74 72 61 63 65"
#define HARD        "a4 68 61 72 64"
#define MIN_VERSION "ab 6d 69 6e 5f 76 65 72 73 69 6f 6e"

Test(method, every_name_finds_its_method)
{
	for (int i = 0; i < METHOD_COUNT; i++) {
		const char *name = method_name((enum method)i);

		cr_assert_eq(method_from_name(name, strlen(name)), i);
		cr_assert_eq(method_from_name(name, strlen(name) - 1), -1);
		cr_assert_not_null(method_params((enum method)i));
		cr_assert_not_null(method_text((enum method)i));
	}
	cr_assert_eq(method_from_name("lo", 2), -1);
	cr_assert_eq(method_from_name("", 0), -1);
}

Test(method, options_that_are_not_there_are_unset)
{
	const char *none[] = { "", "80", "de 00 00", "df 00 00 00 00", "c0", "81 " WAIT_MS " c0" };

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		struct options options = { 0 };
		struct wire_error error;

		cr_assert_eq(read_hex(none[i], METHOD_GET, &options, &error), STATUS_OK, "%s",
			     none[i]);
		cr_assert_eq(options.wait_ms, OPTION_UNSET);
		cr_assert_eq(options.max_stale_ms, OPTION_UNSET);
		cr_assert_eq(options.min_version, OPTION_UNSET);
		cr_assert_eq(options.if_older_ms, OPTION_UNSET);
		cr_assert_eq(options.hard, OPTION_UNSET);
	}
}

Test(method, options_are_read_in_any_order_and_encoding)
{
	struct options options;
	struct wire_error error;

	cr_assert_eq(read_hex("82 " MIN_VERSION " d3 ff ff ff ff ff ff ff ff"
			      " c4 07 77 61 69 74 5f 6d 73 cd 01 f4",
			      METHOD_GET, &options, &error),
		     STATUS_OK);
	cr_assert_eq(options.min_version, -1);
	cr_assert_eq(options.wait_ms, 500);
	cr_assert_eq(options.max_stale_ms, OPTION_UNSET);
	cr_assert_eq(read_hex("81 " HARD " c3", METHOD_INVALIDATE, &options, &error), STATUS_OK);
	cr_assert_eq(options.hard, 1);
	cr_assert_eq(read_hex("81 " HARD " c2", METHOD_INVALIDATE, &options, &error), STATUS_OK);
	cr_assert_eq(options.hard, 0);
}

Test(method, a_float_without_a_fraction_is_the_integer)
{
	struct options options;
	struct wire_error error;

	cr_assert_eq(
		read_hex("81 " WAIT_MS " cb 40 7f 40 00 00 00 00 00", METHOD_GET, &options, &error),
		STATUS_OK);
	cr_assert_eq(options.wait_ms, 500);
	cr_assert_eq(read_hex("81 " WAIT_MS " ca 43 fa 00 00", METHOD_GET, &options, &error),
		     STATUS_OK);
	cr_assert_eq(options.wait_ms, 500);
}

/* What is refused, and in which words. */
static const struct {
	const char *hex;
	enum method method;
	const char *text;
} refused[] = {
	{ "05", METHOD_GET, "the options of get are no map" },
	{ "90", METHOD_GET, "the options of get are no map" },
	{ "80 c0", METHOD_GET, "get has too many params" },
	{ "c0 80", METHOD_PING, "ping has too many params" },
	{ "81 05 05", METHOD_GET, "the name of an option is no string" },
	{ "81 a3 66 6f 6f 01", METHOD_GET, "get has no option \"foo\"" },
	{ "81 a2 00 ff 01", METHOD_MGET, "mget has no option \"\\x00\\xff\"" },
	{ "81 a6 77 61 69 74 5f 6d 01", METHOD_GET, "get has no option \"wait_m\"" },
	{ "81 " HARD " c3", METHOD_GET, "get has no option \"hard\"" },
	{ "81 " WAIT_MS " 01", METHOD_INSPECT, "inspect has no option \"wait_ms\"" },
	{ "81 " TRACE " c3", METHOD_GET, "option trace is a boolean; it must be a string" },
	{ "81 " TRACE " a1 30", METHOD_MGET,
	  "option trace is too short; it must be a traceparent" },
	{ "81 " TRACE " a1 30", METHOD_INSPECT, "inspect has no option \"trace\"" },
	{ "82 " WAIT_MS " 01 " WAIT_MS " 01", METHOD_GET, "option wait_ms is there twice" },
	{ "82 " WAIT_MS " c0 " WAIT_MS " 01", METHOD_GET, "option wait_ms is there twice" },
	{ "81 " WAIT_MS " a1 31", METHOD_GET, "option wait_ms is a string; it must be an integer" },
	{ "81 " WAIT_MS " c3", METHOD_GET, "option wait_ms is a boolean; it must be an integer" },
	{ "81 " WAIT_MS " 90", METHOD_GET, "option wait_ms is an array; it must be an integer" },
	{ "81 " WAIT_MS " cf ff ff ff ff ff ff ff ff", METHOD_GET,
	  "option wait_ms is an integer above 2^63-1; it must be an integer" },
	{ "81 " WAIT_MS " ff", METHOD_GET, "option wait_ms is -1; it must be 0 to 300000" },
	{ "81 " WAIT_MS " ce 00 04 93 e1", METHOD_GET,
	  "option wait_ms is 300001; it must be 0 to 300000" },
	{ "81 " WAIT_MS " cb 3f e0 00 00 00 00 00 00", METHOD_GET, /* 0.5 */
	  "option wait_ms is a float; it must be an integer" },
	{ "81 " WAIT_MS " cb 7f f8 00 00 00 00 00 00", METHOD_GET, /* NaN */
	  "option wait_ms is a float; it must be an integer" },
	{ "81 " WAIT_MS " cb 7f ef ff ff ff ff ff ff", METHOD_GET, /* the largest */
	  "option wait_ms is a float; it must be an integer" },
	{ "81 " HARD " 01", METHOD_INVALIDATE, "option hard is an integer; it must be a boolean" },
	{ "82 " WAIT_MS " 01", METHOD_GET, "the name of an option is no string" },
	{ "df ff ff ff ff", METHOD_GET, "the name of an option is no string" },
	{ "81 " WAIT_MS, METHOD_GET, "option wait_ms has no value" },
};

Test(method, options_that_are_wrong_are_refused_by_name)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct options options = { .wait_ms = 77 };
		struct wire_error error = { 0 };

		cr_assert_eq(read_hex(refused[i].hex, refused[i].method, &options, &error),
			     STATUS_BAD_REQUEST, "%s", refused[i].hex);
		cr_assert_eq(error.status, STATUS_BAD_REQUEST);
		cr_assert_str_eq(error.text, refused[i].text);
		cr_assert_eq(options.wait_ms, 77);
	}
}

Test(method, the_longest_wait_is_taken)
{
	struct options options;
	struct wire_error error;

	cr_assert_eq(read_hex("81 " WAIT_MS " ce 00 04 93 e0", METHOD_GET, &options, &error),
		     STATUS_OK);
	cr_assert_eq(options.wait_ms, WIRE_WAIT_MS_MAX);
	cr_assert_eq(read_hex("81 ab 69 66 5f 6f 6c 64 65 72 5f 6d 73 00", METHOD_REFRESH, &options,
			      &error),
		     STATUS_OK);
	cr_assert_eq(options.if_older_ms, 0);
}

Test(method, options_are_written_as_they_are_read)
{
	static const char TRACEPARENT[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
	struct options sent = options_unset(), got;
	char text[TRACE_TEXT_LEN + 1];
	struct wire_error error;
	struct wire_buf b;
	struct reader r;

	wire_buf_init(&b, 1000);
	sent.wait_ms = 0;
	sent.min_version = -5;
	options_put(&b, &sent);
	reader_init(&r, b.data, b.len);
	cr_assert_eq(options_read(&r, METHOD_GET, &got, &error), STATUS_OK);
	for (size_t i = 0; i < options_count; i++)
		cr_assert_eq(*option_at(&got, &options_all[i]), *option_at(&sent, &options_all[i]));

	wire_buf_rewind(&b, 0);
	sent = options_unset();
	sent.hard = 1;
	options_put(&b, &sent);
	reader_init(&r, b.data, b.len);
	cr_assert_eq(options_read(&r, METHOD_INVALIDATE, &got, &error), STATUS_OK);
	cr_assert_eq(got.hard, 1);

	wire_buf_rewind(&b, 0);
	sent = options_unset();
	sent.trace = 1;
	sent.trace_text = (struct wire_span){ TRACEPARENT, TRACE_TEXT_LEN };
	options_put(&b, &sent);
	reader_init(&r, b.data, b.len);
	cr_assert_eq(options_read(&r, METHOD_MGET, &got, &error), STATUS_OK);
	cr_assert_eq(got.trace, 1);
	trace_write(&got.traceparent, text);
	cr_assert_str_eq(text, TRACEPARENT);
	wire_buf_close(&b);
}
