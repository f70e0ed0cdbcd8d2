#include "proto/trace.h"

#include <criterion/criterion.h>
#include <string.h>

#define ID     "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"
#define REST   "-" ID "-" PARENT

/* What is taken, and as what it goes on. */
static const struct {
	const char *text, *on;
} taken[] = {
	{ "00" REST "-01", "00" REST "-01" },
	{ "00" REST "-00", "00" REST "-00" },
	{ "00" REST "-ff", "00" REST "-ff" },
	{ "00-ffffffffffffffffffffffffffffffff-0000000000000001-02",
	  "00-ffffffffffffffffffffffffffffffff-0000000000000001-02" },
	/* later versions, which may be longer */
	{ "cc" REST "-01", "00" REST "-01" },
	{ "cc" REST "-ff", "00" REST "-01" },
	{ "fe" REST "-fe-", "00" REST "-00" },
	{ "01" REST "-01-what-the-future-will-be-like", "00" REST "-01" },
};

Test(trace, what_the_recommendation_allows_is_taken)
{
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
		char text[TRACE_TEXT_LEN + 1];
		struct trace trace;
		const char *why = trace_parse(taken[i].text, strlen(taken[i].text), &trace);

		cr_assert_null(why, "%s %s", taken[i].text, why);
		trace_write(&trace, text);
		cr_assert_str_eq(text, taken[i].on);
	}
}

static const struct {
	const char *text, *why;
} refused[] = {
	{ "", "is too short" },
	{ "00" REST "-0", "is too short" },
	{ "00" REST "-011", "is too long" },
	{ "00" REST "-01-", "is too long" },
	{ "00" REST "-01 ", "is too long" },
	{ "01" REST "-01.more", "has no dash behind its flags" },
	{ "01" REST "-011", "has no dash behind its flags" },
	{ "ff" REST "-01", "has version ff, which is none" },
	{ "0A" REST "-01", "has a version that is not two lowercase hex digits" },
	{ "0g" REST "-01", "has a version that is not two lowercase hex digits" },
	{ "00-0AF7651916cd43dd8448eb211c80319c-" PARENT "-01",
	  "has a trace id that is not 32 lowercase hex digits" },
	{ "00-0af7651916cd43dd8448eb211c80319:-" PARENT "-01",
	  "has a trace id that is not 32 lowercase hex digits" },
	{ "00-00000000000000000000000000000000-" PARENT "-01",
	  "has a trace id of zeros, which is none" },
	{ "00-" ID "-B7ad6b7169203331-01", "has a parent id that is not 16 lowercase hex digits" },
	{ "00-" ID "-0000000000000000-01", "has a parent id of zeros, which is none" },
	{ "00" REST "-0A", "has flags that are not two lowercase hex digits" },
	{ "00" REST "--1", "has flags that are not two lowercase hex digits" },
	{ "00_" ID "-" PARENT "-01", "has not its four fields, with dashes between them" },
	{ "00-" ID "_" PARENT "-01", "has not its four fields, with dashes between them" },
	{ "00" REST "_01", "has not its four fields, with dashes between them" },
};

Test(trace, what_it_does_not_allow_is_refused_and_said_why)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct trace trace = { .flags = 77 };
		const char *why = trace_parse(refused[i].text, strlen(refused[i].text), &trace);

		cr_assert_not_null(why, "%s", refused[i].text);
		cr_assert_str_eq(why, refused[i].why, "%s %s", refused[i].text, why);
		cr_assert_eq(trace.flags, 77);
	}
}
