#include "proto/utf8.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

/* UTF-8 by its definition: decode, then ask whether the code point may be written so. */
static size_t plain_valid_len(const uint8_t *bytes, size_t len)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t at = 0;

	while (at < len) {
		const uint8_t b = bytes[at];
		const size_t n = b < 0x80       ? 1
				 : b >> 5 == 6  ? 2
				 : b >> 4 == 14 ? 3
				 : b >> 3 == 30 ? 4
						: 0;
		uint32_t point = n < 2 ? b : b & (0x7f >> n);

		if (n == 0 || n > len - at)
			return at;
		for (size_t i = 1; i < n; i++) {
			if (bytes[at + i] >> 6 != 2)
				return at;
			point = point << 6 | (bytes[at + i] & 0x3f);
		}
		if (point < least[n] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
			return at;
		at += n;
	}
	return at;
}

Test(utf8, agrees_with_its_definition_on_all_of_three_bytes)
{
	for (uint32_t n = 0; n < 1u << 24; n++) {
		const uint8_t bytes[3] = { (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n };

		if (utf8_valid_len((const char *)bytes, 3) != plain_valid_len(bytes, 3))
			cr_assert_fail("%06x", n);
	}
}

Test(utf8, agrees_with_its_definition_on_all_four_byte_heads)
{
	const uint8_t tails[] = {
		0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff
	};
	const size_t count = sizeof(tails);

	for (unsigned first = 0xe0; first < 256; first++) {
		for (unsigned second = 0; second < 256; second++) {
			for (size_t i = 0; i < count * count; i++) {
				const uint8_t bytes[4] = { (uint8_t)first, (uint8_t)second,
							   tails[i % count], tails[i / count] };

				if (utf8_valid_len((const char *)bytes, 4) !=
				    plain_valid_len(bytes, 4))
					cr_assert_fail("%02x %02x %02x %02x", first, second,
						       bytes[2], bytes[3]);
			}
		}
	}
}

Test(utf8, finds_the_first_fault_at_every_offset)
{
	char text[40];

	for (size_t len = 0; len <= sizeof(text); len++) {
		memset(text, 'a', sizeof(text));
		cr_assert_eq(utf8_valid_len(text, len), len);
		for (size_t at = 0; at < len; at++) {
			memset(text, 'a', sizeof(text));
			text[at] = '\xff';
			cr_assert_eq(utf8_valid_len(text, len), at);
		}
	}
}
