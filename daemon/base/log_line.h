/* One line of the log, as text: key=value pairs, or a JSON object. Stateless; any thread. */
#pragma once

#include "base/log.h"

struct log_record {
	bool has_priority; /* begin with the journal's <N> instead of the time */
	int64_t time_us;   /* since 1970, UTC */
	enum log_level level;
	const struct log_field *fields; /* borrowed */
	size_t fields_count;
	uint64_t suppressed; /* told if not 0 */
	uint64_t lost;       /* told if not 0 */
	bool hides_keys;     /* LOG_FIELD_KEY: all but the keyspace is a number … */
	uint64_t salt;       /* … that depends on this */
};

/* Writes the record as one line that ends in a newline (and no NUL), whatever bytes are in it, and
 * returns its length. What does not fit is cut, and the line then says `cut`. */
size_t log_line_write(const struct log_record *record, enum log_format format,
		      char buf[LOG_LINE_MAX]);
