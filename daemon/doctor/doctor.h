/* The doctor: looks at all that a daemon lives by, and says how to mend what is wrong.
 *
 * It makes connections of its own, so that it sees what the daemon would see if it were started
 * now, and does nothing that lasts. It blocks: some seconds for each server that does not answer.
 * Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/config.h"

enum {
	DOCTOR_FINDINGS_MAX = 256, /* more are counted only */
	DOCTOR_NAME_MAX = 96,
	DOCTOR_TEXT_MAX = 400,
	DOCTOR_WAIT_S = 3, /* for a connection, and for a reply */
};

enum doctor_grade {
	DOCTOR_OK,
	DOCTOR_HINT, /* it works, and could be better */
	DOCTOR_BAD,
};
const char *doctor_grade_name(enum doctor_grade grade);

struct doctor_finding {
	enum doctor_grade grade;
	char check[DOCTOR_NAME_MAX]; /* what was looked at, such as origin.role */
	char found[DOCTOR_TEXT_MAX];
	char remedy[DOCTOR_TEXT_MAX]; /* empty where it is OK */
};

struct doctor_report {
	struct doctor_finding findings[DOCTOR_FINDINGS_MAX];
	size_t count;
	size_t more; /* that found no place */
	size_t bad;
};

/* Reads the file as a daemon that starts would, and looks at all that it names. */
void doctor_examine(const char *config_path, struct doctor_report *ret_report);

/* The parts: this host, the origin and its log of changes, the shared store. They add to the
 * report.
 */
void doctor_look_at_host(const struct config *config, struct doctor_report *report);
void doctor_look_at_origin(const struct config *config, struct doctor_report *report);
void doctor_look_at_feed(const struct config *config, struct doctor_report *report);
void doctor_look_at_store(const struct config *config, struct doctor_report *report);

/* A line for each finding, and one for its remedy. */
void doctor_print(const struct doctor_report *report, FILE *out);

/* Adds a finding, and returns it; texts that are too long are cut. Where there is no more room, it
   is one that nobody sees. */
struct doctor_finding *doctor_add(struct doctor_report *report, enum doctor_grade grade,
				  const char *check, const char *found, ...)
	__attribute__((format(printf, 4, 5)));

/* Says how to mend it. */
void doctor_advise(struct doctor_finding *finding, const char *remedy, ...)
	__attribute__((format(printf, 2, 3)));

/* What the clock of another host is from ours, in µs; graded, under that name. */
void doctor_compare_clock(struct doctor_report *report, const char *check, int64_t its_us);
