/* What is wrong with a configuration file: every finding with its place, in the order of the file.
 *
 * Errors keep the daemon from starting, warnings do not. Both lists are bounded and lie inside the
 * struct, so that reporting cannot fail and there is nothing to free; of more findings than fit,
 * the first in the file are kept and the others counted. One thread at a time.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

enum {
	CONFIG_FINDINGS_MAX = 50,
	CONFIG_FINDING_TEXT_MAX = 400, /* bytes with the NUL; longer ones are cut */
};

/* A place in the file, counted from 1; line 0: the file as a whole. */
struct config_place {
	int line;
	int column; /* in characters */
};

struct config_finding {
	struct config_place place;
	char text[CONFIG_FINDING_TEXT_MAX]; /* "what is wrong; what was expected" */
};

struct config_findings {
	struct config_finding items[CONFIG_FINDINGS_MAX];
	size_t count;
	size_t more; /* found, but not kept */
};

struct config_errors {
	const char *path; /* borrowed, as long as the struct is in use */
	struct config_findings errors;
	struct config_findings warnings;
};

/* Makes `errors` empty. `path` is what the file is called in every line. */
void config_errors_init(struct config_errors *errors, const char *path);

void config_error(struct config_errors *errors, struct config_place place, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void config_warning(struct config_errors *errors, struct config_place place, const char *format,
		    ...) __attribute__((format(printf, 3, 4)));

/* Writes "path:line:column: text" a line for each error, then the warnings (marked "warning:"). To
 * the journal, with their priorities. */
void config_errors_print(const struct config_errors *errors, FILE *out);
