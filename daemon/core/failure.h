/* Why a key has no value: the status that waiters get, with the text, and for how long it holds. */
#pragma once

#include <stdint.h>

#include "base/value.h"
#include "proto/status.h"

struct failure {
	enum status status;
	const char *why;     /* static; said where there is no text; or NULL */
	struct value *text;  /* counted; NULL: the status says all */
	uint32_t streak;     /* failed builds in a row, this one included */
	int64_t until_us;    /* remembered so long (moment); 0: not remembered */
	int64_t retry_in_us; /* worth trying again after this (length); 0: unknown */
};
