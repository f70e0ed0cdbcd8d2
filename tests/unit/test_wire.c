#include "proto/wire.h"

#include <criterion/criterion.h>
#include <string.h>

#include "proto/utf8.h"

Test(wire, a_refusal_says_status_and_text)
{
	struct wire_error error;

	cr_assert_eq(wire_refuse(&error, STATUS_DENIED, "%s may not %s", "he", "do that"),
		     STATUS_DENIED);
	cr_assert_eq(error.status, STATUS_DENIED);
	cr_assert_str_eq(error.text, "he may not do that");
}

Test(wire, a_long_refusal_is_cut_at_a_characters_border)
{
	struct wire_error error;
	char text[sizeof(error.text) + 10];

	for (size_t lead = 0; lead < 3; lead++) {
		memset(text, 'a', lead);
		for (size_t at = lead; at + 3 < sizeof(text); at += 3)
			memcpy(text + at, "\xe2\x82\xac", 4);
		wire_refuse(&error, STATUS_BAD_REQUEST, "%s", text);
		cr_assert_eq(strlen(error.text), sizeof(error.text) - 1 - (255 - lead) % 3);
		cr_assert_eq(utf8_valid_len(error.text, strlen(error.text)), strlen(error.text));
	}
}

Test(wire, quotes_what_is_not_plain)
{
	char quoted[WIRE_QUOTED_MAX];

	cr_assert_str_eq(wire_quote("wait_ms", 7, quoted), "wait_ms");
	cr_assert_str_eq(wire_quote("a\0\n\\\xff z", 7, quoted), "a\\x00\\x0a\\x5c\\xff z");
	cr_assert_str_eq(wire_quote("", 0, quoted), "");
}

Test(wire, cuts_quotes_that_are_long)
{
	char quoted[WIRE_QUOTED_MAX], text[100];

	for (size_t len = 0; len <= sizeof(text); len++) {
		memset(text, 'q', sizeof(text));
		wire_quote(text, len, quoted);
		cr_assert_lt(strlen(quoted), WIRE_QUOTED_MAX);
		cr_assert_eq(strcmp(quoted + (len > 60 ? 60 : len), len > 60 ? "..." : ""), 0);
		memset(text, 0, sizeof(text));
		wire_quote(text, len, quoted);
		cr_assert_eq(strlen(quoted), len > 15 ? 63 : 4 * len);
	}
}
