#include "doctor/doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { APART_US = 1000 * 1000 };

const char *doctor_grade_name(enum doctor_grade grade)
{
	static const char *const names[] = { "ok", "hint", "bad" };
	return names[grade];
}

struct doctor_finding *doctor_add(struct doctor_report *report, enum doctor_grade grade,
				  const char *check, const char *found, ...)
{
	static _Thread_local struct doctor_finding unseen;
	bool fits = report->count < DOCTOR_FINDINGS_MAX;
	struct doctor_finding *finding = fits ? &report->findings[report->count++] : &unseen;
	va_list args;
	report->more += !fits;
	report->bad += grade == DOCTOR_BAD;
	finding->grade = grade;
	snprintf(finding->check, sizeof(finding->check), "%s", check);
	va_start(args, found);
	vsnprintf(finding->found, sizeof(finding->found), found, args);
	va_end(args);
	finding->remedy[0] = '\0';
	/* Servers' messages end in a newline, and may have several lines. */
	for (char *at = finding->found; (at = strchr(at, '\n'));)
		*at = at[1] ? ' ' : '\0';
	return finding;
}

void doctor_advise(struct doctor_finding *finding, const char *remedy, ...)
{
	va_list args;
	va_start(args, remedy);
	vsnprintf(finding->remedy, sizeof(finding->remedy), remedy, args);
	va_end(args);
}

void doctor_compare_clock(struct doctor_report *report, const char *check, int64_t its_us)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	int64_t apart_us = its_us - ((int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
	bool is_apart = llabs(apart_us) > APART_US;
	struct doctor_finding *finding =
		doctor_add(report, is_apart ? DOCTOR_HINT : DOCTOR_OK, check,
			   "%+.3f s from this host's", (double)apart_us / 1e6);
	if (is_apart)
		doctor_advise(
			finding,
			"segar does not need it, but logs and alerts do: let all hosts follow "
			"the time, such as by systemd-timesyncd (timedatectl set-ntp true)");
}

void doctor_print(const struct doctor_report *report, FILE *out)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct doctor_finding *finding = &report->findings[i];
		fprintf(out, "%-4s  %s: %s\n", doctor_grade_name(finding->grade), finding->check,
			finding->found);
		if (finding->remedy[0])
			fprintf(out, "      %s\n", finding->remedy);
	}
	if (report->more > 0)
		fprintf(out, "and %zu more\n", report->more);
}

static void look_at_file(const struct config_errors *errors, struct doctor_report *report)
{
	for (size_t i = 0; i < errors->errors.count; i++) {
		const struct config_finding *wrong = &errors->errors.items[i];
		doctor_advise(doctor_add(report, DOCTOR_BAD, "config", "%s:%d:%d: %s", errors->path,
					 wrong->place.line, wrong->place.column, wrong->text),
			      "docs/CONFIG.md has every key; segard --check says whether the file "
			      "is right");
	}
	for (size_t i = 0; i < errors->warnings.count; i++) {
		const struct config_finding *odd = &errors->warnings.items[i];
		doctor_advise(doctor_add(report, DOCTOR_HINT, "config", "%s:%d:%d: %s",
					 errors->path, odd->place.line, odd->place.column,
					 odd->text),
			      "change it there, or leave it if it is meant");
	}
}

void doctor_examine(const char *config_path, struct doctor_report *ret_report)
{
	struct config_errors *errors = calloc(1, sizeof(*errors));
	struct config *config = NULL;
	memset(ret_report, 0, sizeof(*ret_report));
	if (!errors) {
		doctor_add(ret_report, DOCTOR_BAD, "config", "there is too little memory");
		return;
	}
	bool loaded = config_load(config_path, &config, errors) == 0;
	look_at_file(errors, ret_report);
	if (loaded) {
		doctor_add(ret_report, DOCTOR_OK, "config", "%s: %zu keyspace%s", config_path,
			   config->keyspaces_count, config->keyspaces_count == 1 ? "" : "s");
		doctor_look_at_host(config, ret_report);
		doctor_look_at_origin(config, ret_report);
		doctor_look_at_feed(config, ret_report);
		doctor_look_at_store(config, ret_report);
	}
	config_free(config);
	free(errors);
}
