/* segarctl estimate: its options, and the command. */
#pragma once

#include <stdbool.h>

#include "client/estimate.h"

struct ctl;

/* One option of it on the command line. */
struct estimate_option {
	const char *name;
	const char *arg;
	const char *text;
};
extern const struct estimate_option estimate_options[];
extern const int estimate_options_count;

/* The bit of --rate, which `warm` takes too. */
enum { ESTIMATE_RATE = 1 };

/* What the options say: a plan, in which `given` has a bit for each option that was. */
struct estimate_line {
	struct estimate_plan plan;
	double watch_s; /* how long a live keyspace is watched */
	unsigned given;
};

/* Takes the option of that number. NULL, or what its value must be. */
const char *estimate_take(struct estimate_line *line, int option, const char *text);
