#include "proto/wire.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/utf8.h"

enum status wire_refuse(struct wire_error *error, enum status status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	error->text[utf8_valid_len(error->text, strlen(error->text))] = '\0';
	error->status = status;
	return status;
}

const char *wire_quote(const void *bytes, size_t len, char ret_quoted[WIRE_QUOTED_MAX])
{
	static const char hex[] = "0123456789abcdef";
	const size_t room = WIRE_QUOTED_MAX - sizeof("...");
	const uint8_t *from = bytes;
	size_t at = 0;

	for (size_t i = 0; i < len; i++) {
		const int plain = from[i] >= 0x20 && from[i] < 0x7f && from[i] != '\\';

		if (at + (plain ? 1 : 4) > room) {
			memcpy(ret_quoted + at, "...", 3);
			at += 3;
			break;
		}
		if (plain) {
			ret_quoted[at++] = (char)from[i];
			continue;
		}
		ret_quoted[at++] = '\\';
		ret_quoted[at++] = 'x';
		ret_quoted[at++] = hex[from[i] >> 4];
		ret_quoted[at++] = hex[from[i] & 15];
	}
	ret_quoted[at] = '\0';
	return ret_quoted;
}
