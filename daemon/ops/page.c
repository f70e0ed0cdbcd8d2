#include "ops/page.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

enum { LABELS_MAX = 256 };

static void put(struct page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct page *page, const char *format, ...)
{
	const size_t room = sizeof(page->piece) - page->len;
	va_list args;
	va_start(args, format);
	int len = vsnprintf(page->piece + page->len, room, format, args);
	va_end(args);
	CHECK(len >= 0 && (size_t)len < room);
	page->len += (size_t)len;
}

static bool ends_with(const char *text, const char *end)
{
	const size_t len = strlen(text), end_len = strlen(end);
	return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static void put_name(struct page *page, const struct metric *metric)
{
	const bool is_standard = strncmp(metric->name, "process_", 8) == 0;
	const char *end = strcmp(metric->type, "counter") == 0 ? "_total" : "";
	if (ends_with(metric->name, end))
		end = "";
	put(page, "%s%s%s", is_standard ? "" : "segar_", metric->name, end);
}

void page_head(struct page *page, const struct metric *metric)
{
	put(page, "# HELP ");
	put_name(page, metric);
	put(page, " %c%s.\n# TYPE ", toupper((unsigned char)metric->help[0]), metric->help + 1);
	put_name(page, metric);
	put(page, " %s\n", metric->type);
}

void page_sample(struct page *page, const struct metric *metric, double number, const char *labels,
		 ...)
{
	put_name(page, metric);
	if (labels) {
		char text[LABELS_MAX];
		va_list args;
		va_start(args, labels);
		int len = vsnprintf(text, sizeof(text), labels, args);
		va_end(args);
		CHECK(len >= 0 && (size_t)len < sizeof(text));
		put(page, "{%s}", text);
	}
	/* All digits of what counts; of what is measured, as many as it is good for. */
	const bool is_whole = number > -1e15 && number < 1e15 && number == (double)(int64_t)number;
	put(page, is_whole ? " %.0f\n" : " %.9g\n", number);
}

/* Every power of two is a bucket: `durations` has finer ones, more than a monitor should keep. */
void page_durations(struct page *page, const struct metric *metric, const char *labels,
		    const struct durations *durations)
{
	uint64_t count = 0;
	const char *comma = *labels ? "," : "";
	for (unsigned i = 0; i + 1 < DURATIONS_BUCKETS; i++) {
		count += durations->buckets[i];
		if (i % DURATIONS_STEPS == 0) {
			put_name(page, metric);
			put(page, "_bucket{%s%sle=\"%.9g\"} %" PRIu64 "\n", labels, comma,
			    (double)durations_end(i) / 1e6, count);
		}
	}
	put_name(page, metric);
	put(page, "_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", labels, comma, durations->count);
	const char *open = *labels ? "{" : "", *close = *labels ? "}" : "";
	put_name(page, metric);
	put(page, "_sum%s%s%s %.9g\n", open, labels, close, (double)durations->sum_us / 1e6);
	put_name(page, metric);
	put(page, "_count%s%s%s %" PRIu64 "\n", open, labels, close, durations->count);
}
