/* segarctl drill: its options, and the command. */
#pragma once

#include <stdbool.h>

struct ctl;

/* One option of it on the command line. */
struct drill_option {
	const char *name;
	const char *arg; /* NULL: it takes none */
	const char *text;
};
extern const struct drill_option drill_options[];
extern const int drill_options_count;

/* What the options say. */
struct drill_line {
	double seconds, builds, max_age_s; /* 0: not said */
	const char *scenes, *absent;       /* NULL: not said */
	bool whole_keyspace, yes, given;
	int connections; /* 0: not said */
};

/* Takes the option of that number. NULL, or what its value must be. */
const char *drill_take(struct drill_line *line, int option, const char *text);
