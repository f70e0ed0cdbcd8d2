/* Prometheus' text format: heads and samples, written one after the other into a piece of a page.
 * Format: "Prometheus text-based exposition format", version 0.0.4.
 *
 * Names of keyspaces, jobs and tables need no escapes: they have neither quotes nor backslashes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/durations.h"

enum { PAGE_PIECE_MAX = 32768 }; /* all samples of one keyspace, or of a daemon, of one metric */

struct page {
	size_t len;
	char piece[PAGE_PIECE_MAX];
};

/* What a metric is called and is. */
struct metric {
	const char *name; /* without its segar_, which process_ has none of; counters get their
			     _total */
	const char *type;
	const char *help; /* without its full stop */
};

void page_head(struct page *page, const struct metric *metric);

/* `labels`: name="value" pairs with commas between, and their format's arguments; NULL: none. */
void page_sample(struct page *page, const struct metric *metric, double number, const char *labels,
		 ...) __attribute__((format(printf, 4, 5)));

/* A histogram, in seconds. `labels` as above, without a format; "" is none. */
void page_durations(struct page *page, const struct metric *metric, const char *labels,
		    const struct durations *durations);
