#include "proto/wire_buf.h"

#include <criterion/criterion.h>
#include <string.h>

Test(wire_buf, grows_up_to_its_maximum_and_no_further)
{
	struct wire_buf b;

	wire_buf_init(&b, 1000);
	cr_assert_null(b.data);
	for (int i = 0; i < 10; i++)
		wire_buf_raw(&b, (char[100]){ (char)i }, 100);
	cr_assert_not(wire_buf_failed(&b));
	cr_assert_eq(b.len, 1000);
	for (int i = 0; i < 10; i++)
		cr_assert_eq(b.data[100 * i], i);
	wire_buf_raw(&b, "x", 1);
	cr_assert(wire_buf_failed(&b));
	cr_assert_eq(b.len, 1000);
	wire_buf_close(&b);
}

Test(wire_buf, takes_its_maximum_at_once)
{
	char bytes[700] = { 0 };

	for (size_t max = 1; max <= sizeof(bytes); max++) {
		struct wire_buf b;

		wire_buf_init(&b, max);
		wire_buf_raw(&b, bytes, max);
		cr_assert_not(wire_buf_failed(&b));
		wire_buf_raw(&b, bytes, 1);
		cr_assert(wire_buf_failed(&b));
		wire_buf_close(&b);
	}
}

Test(wire_buf, stays_failed_until_it_is_rewound)
{
	struct wire_buf b;

	wire_buf_init(&b, 10);
	wire_buf_int(&b, 1);
	wire_buf_bin(&b, "0123456789", 10);
	cr_assert(wire_buf_failed(&b));
	wire_buf_int(&b, 2);
	cr_assert_null(wire_buf_reserve(&b, 1));
	cr_assert(wire_buf_failed(&b));
	wire_buf_rewind(&b, 1);
	wire_buf_int(&b, 2);
	cr_assert_not(wire_buf_failed(&b));
	cr_assert_eq(b.len, 2);
	cr_assert_arr_eq(b.data, "\x01\x02", 2);
	wire_buf_close(&b);
}

Test(wire_buf, writes_into_memory_that_it_is_given)
{
	uint8_t memory[4];
	struct wire_buf b;

	wire_buf_wrap(&b, memory, sizeof(memory));
	wire_buf_str(&b, "abc");
	cr_assert_not(wire_buf_failed(&b));
	cr_assert_arr_eq(memory,
			 "\xa3"
			 "abc",
			 4);
	wire_buf_nil(&b);
	cr_assert(wire_buf_failed(&b));
	wire_buf_close(&b);
}

Test(wire_buf, refuses_lengths_that_would_wrap_around)
{
	struct wire_buf b;

	wire_buf_init(&b, SIZE_MAX);
	wire_buf_nil(&b);
	cr_assert_null(wire_buf_reserve(&b, SIZE_MAX));
	cr_assert(wire_buf_failed(&b));
	wire_buf_close(&b);
}

Test(wire_buf, closes_when_zeroed_and_twice)
{
	struct wire_buf b = { 0 };

	wire_buf_close(&b);
	wire_buf_init(&b, 100);
	wire_buf_nil(&b);
	wire_buf_close(&b);
	wire_buf_close(&b);
	cr_assert_null(b.data);
}

Test(wire_buf, encodes_each_kind_of_value)
{
	static const uint8_t expected[] =
		"\xc0\xc2\xc3\xd0\x80\xcb\x3f\xf8\0\0\0\0\0\0\xa1k\xc4\x02v\0\xc4\x09\x93\x82";
	struct wire_buf b;

	wire_buf_init(&b, 100);
	wire_buf_nil(&b);
	wire_buf_bool(&b, false);
	wire_buf_bool(&b, true);
	wire_buf_int(&b, -128);
	wire_buf_float(&b, 1.5);
	wire_buf_str_len(&b, "key", 1);
	wire_buf_bin(&b, "v", 2);
	wire_buf_bin_head(&b, 9);
	wire_buf_array(&b, 3);
	wire_buf_map(&b, 2);
	cr_assert_eq(b.len, sizeof(expected) - 1);
	cr_assert_arr_eq(b.data, expected, b.len);
	wire_buf_close(&b);
}
