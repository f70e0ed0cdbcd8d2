#include "proto/utf8.h"

#include <stdint.h>
#include <string.h>

/* The bytes of one well-formed character at `at`, by Unicode's table 3-7; 0 if there is none. */
static size_t char_len(const uint8_t *at, size_t len)
{
	uint8_t low = 0x80, high = 0xbf; /* what the second byte may be */
	size_t need;

	if (at[0] < 0x80)
		return 1;
	if (at[0] < 0xc2 || at[0] > 0xf4)
		return 0;
	if (at[0] < 0xe0) {
		need = 2;
	} else if (at[0] < 0xf0) {
		need = 3;
		low = at[0] == 0xe0 ? 0xa0 : 0x80;
		high = at[0] == 0xed ? 0x9f : 0xbf;
	} else {
		need = 4;
		low = at[0] == 0xf0 ? 0x90 : 0x80;
		high = at[0] == 0xf4 ? 0x8f : 0xbf;
	}
	if (len < need || at[1] < low || at[1] > high)
		return 0;
	for (size_t i = 2; i < need; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return need;
}

size_t utf8_valid_len(const char *text, size_t len)
{
	const uint8_t *bytes = (const uint8_t *)text;
	size_t at = 0;

	while (at < len) {
		uint64_t eight;
		size_t n;

		/* Keys and values are mostly ASCII: take that in strides. */
		while (len - at >= sizeof(eight)) {
			memcpy(&eight, bytes + at, sizeof(eight));
			if (eight & 0x8080808080808080u)
				break;
			at += sizeof(eight);
		}
		if (at == len)
			break;
		n = char_len(bytes + at, len - at);
		if (n == 0)
			break;
		at += n;
	}
	return at;
}
