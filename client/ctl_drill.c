/* segarctl drill: its command line, what it asks of people, and its end. */
#include "client/ctl_drill.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/drill.h"
#include "client/quantity.h"

enum { FOR, SCENES, BUILDS, ABSENT, MAX_AGE, WHOLE_KEYSPACE, YES };
const struct drill_option drill_options[] = {
	[FOR] = { "for", "TIME", "how long in all (20s; at most 10m)" },
	[SCENES] = { "scenes", "LIST",
		     "of calm,soft,hard,burst,absent,spread (soft,hard,burst,absent)" },
	[BUILDS] = { "builds", "N",
		     "stop once the keyspace had so many builds (by the plan; at most 10000)" },
	[ABSENT] = { "absent", "PREFIX", "absent: keys that aren't there begin so, then a number" },
	[MAX_AGE] = { "max-age", "TIME", "the bound on age, where rows have times of their own" },
	[WHOLE_KEYSPACE] = { "whole-keyspace", NULL, "spread: yes, all of its keys" },
	[YES] = { "yes", NULL, "do not ask before it starts" },
};
const int drill_options_count = sizeof(drill_options) / sizeof(drill_options[0]);

const char *drill_take(struct drill_line *line, int option, const char *text)
{
	line->given = true;
	switch (option) {
	case FOR:
		return quantity_read(QUANTITY_DURATION, text, 1, DRILL_SECONDS_MAX, &line->seconds)
			       ? NULL
			       : "a duration from 1s to 10m";
	case BUILDS:
		return quantity_read(QUANTITY_COUNT, text, 1, DRILL_BUILDS_MAX, &line->builds)
			       ? NULL
			       : "a whole number from 1 to 10000";
	case MAX_AGE:
		return quantity_read(QUANTITY_DURATION, text, 0.001, 3650.0 * 86400,
				     &line->max_age_s)
			       ? NULL
			       : "a duration such as 400ms, 30s or 10m";
	case SCENES:
		line->scenes = text;
		return NULL;
	case ABSENT:
		line->absent = text;
		return NULL;
	case WHOLE_KEYSPACE:
		line->whole_keyspace = true;
		return NULL;
	default:
		line->yes = true;
		return NULL;
	}
}

/* Whether people want it. */
static enum ctl_exit ask(const struct drill *drill)
{
	char line[16];

	if (drill->ctl->drill.yes)
		return CTL_VALUE;
	if (!isatty(STDIN_FILENO)) {
		fprintf(stderr, "segarctl: nobody can be asked here: say --yes\n");
		return CTL_USAGE;
	}
	fputs("go on? [y/N] ", stderr);
	fflush(stderr);
	if (fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y'))
		return CTL_VALUE;
	fputs("segarctl: nothing was done\n", stderr);
	return CTL_ERROR;
}

enum ctl_exit ctl_drill(struct ctl *ctl)
{
	struct drill *drill = calloc(1, sizeof(*drill));
	enum ctl_exit exit_code;

	if (!drill) {
		ctl_print_error(stdout, ctl, SEGAR_NO_MEMORY, "out of memory", -1);
		return CTL_ERROR;
	}
	drill->ctl = ctl;
	exit_code = drill_prepare(drill);
	if (exit_code == CTL_VALUE) {
		drill_show_plan(drill);
		exit_code = ask(drill);
	}
	if (exit_code == CTL_VALUE)
		exit_code = drill_run(drill);
	if (exit_code == CTL_VALUE)
		exit_code = drill_report(drill);
	drill_close(drill);
	free(drill);
	return exit_code;
}
