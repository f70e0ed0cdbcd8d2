#include "base/config_errors.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "base/log.h"

void config_errors_init(struct config_errors *errors, const char *path)
{
	errors->path = path;
	errors->errors.count = errors->errors.more = 0;
	errors->warnings.count = errors->warnings.more = 0;
}

static bool place_before(struct config_place a, struct config_place b)
{
	return a.line != b.line ? a.line < b.line : a.column < b.column;
}

/* Cuts text that was longer than its buffer, visibly and between two characters. */
static void text_cut(char text[CONFIG_FINDING_TEXT_MAX], int len)
{
	static const char mark[] = "...";
	if (len < CONFIG_FINDING_TEXT_MAX)
		return;
	size_t end = CONFIG_FINDING_TEXT_MAX - sizeof mark;
	while (end > 0 && (text[end] & 0xC0) == 0x80)
		end--;
	memcpy(text + end, mark, sizeof mark);
}

/* The slot for a finding at `place`, or NULL if the list is full of earlier ones. The list is kept
 * in the file's order; findings at one place stay in the order they were made. */
static struct config_finding *findings_insert(struct config_findings *list,
					      struct config_place place)
{
	size_t at = list->count;
	while (at > 0 && place_before(place, list->items[at - 1].place))
		at--;
	if (list->count == CONFIG_FINDINGS_MAX) {
		list->more++;
		if (at == CONFIG_FINDINGS_MAX)
			return NULL;
		list->count--;
	}
	struct config_finding *finding = &list->items[at];
	memmove(finding + 1, finding, (list->count - at) * sizeof *finding);
	list->count++;
	finding->place = place;
	return finding;
}

void config_error(struct config_errors *errors, struct config_place place, const char *format, ...)
{
	struct config_finding *finding = findings_insert(&errors->errors, place);
	if (!finding)
		return;
	va_list args;
	va_start(args, format);
	text_cut(finding->text, vsnprintf(finding->text, sizeof finding->text, format, args));
	va_end(args);
}

void config_warning(struct config_errors *errors, struct config_place place, const char *format,
		    ...)
{
	struct config_finding *finding = findings_insert(&errors->warnings, place);
	if (!finding)
		return;
	va_list args;
	va_start(args, format);
	text_cut(finding->text, vsnprintf(finding->text, sizeof finding->text, format, args));
	va_end(args);
}

static void findings_print(const struct config_findings *list, const char *path,
			   const char *priority, const char *mark, const char *noun, FILE *out)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct config_finding *finding = &list->items[i];
		if (finding->place.line == 0)
			fprintf(out, "%s%s: %s%s\n", priority, path, mark, finding->text);
		else
			fprintf(out, "%s%s:%d:%d: %s%s\n", priority, path, finding->place.line,
				finding->place.column, mark, finding->text);
	}
	if (list->more > 0)
		fprintf(out, "%s%s: and %zu more %s%s\n", priority, path, list->more, noun,
			list->more == 1 ? "" : "s");
}

void config_errors_print(const struct config_errors *errors, FILE *out)
{
	const bool is_journal = log_is_journal(fileno(out));
	findings_print(&errors->errors, errors->path, is_journal ? "<3>" : "", "", "error", out);
	findings_print(&errors->warnings, errors->path, is_journal ? "<4>" : "",
		       "warning: ", "warning", out);
}
