#include "base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *expr, const char *file, int line, const char *format, ...)
{
	va_list args;
	fprintf(stderr, "check failed: %s at %s:%d ", expr, file, line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	abort();
}
