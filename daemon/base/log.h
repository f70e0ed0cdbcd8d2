/* The daemon's log: one line an event, on stderr.
 *
 *   log_warning("origin.lost", LOG_TEXT("host", host), LOG_INT("port", port), LOG_MS("after_ms",
 * us));
 *
 *   time=2026-03-01T08:15:30.123456Z level=warning event=origin.lost host=db1 port=5432
 * after_ms=0.25
 *
 * An event has a constant name (part.what) and fields; values are quoted where they need it, so
 * that bytes of a client cannot forge a line. Under the journal each line carries its priority, and
 * not the time, which the journal adds.
 *
 * The log never waits: what the reader of stderr has no room for is lost, and what one place in the
 * source says more than LOG_SITE_BURST times a second is suppressed. Both are counted, and told as
 * `lost` and `suppressed` in the next line that gets through. Secrets are the caller's to keep out:
 * log_redact_dsn().
 *
 * One log for the process. log_open() before all else, then any thread. The process must ignore
 * SIGPIPE.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/policy.h"

enum {
	LOG_LINE_MAX = 4096,        /* bytes with the newline: what a pipe takes whole (PIPE_BUF) */
	LOG_VALUE_MAX = 1024,       /* bytes of one value; more are cut */
	LOG_SITE_BURST = 20,        /* lines of one place in the source, a second, unless … */
	LOG_RATE_MAX = 1000 * 1000, /* … log_set_rate() says another number, up to this */
};

enum log_field_type {
	LOG_FIELD_TEXT,
	LOG_FIELD_KEY,
	LOG_FIELD_QUOTE,
	LOG_FIELD_INT,
	LOG_FIELD_UINT,
	LOG_FIELD_MS
};

/* Made by the macros below; borrows its key and text for the call. */
struct log_field {
	const char *key; /* [a-z0-9_]+ */
	enum log_field_type type;
	const char *text; /* NULL: no value */
	size_t len;
	int64_t number;
	uint64_t count;
};

static inline struct log_field log_field_text(const char *key, const char *text)
{
	return (struct log_field){
		.key = key, .type = LOG_FIELD_TEXT, .text = text, .len = text ? strlen(text) : 0
	};
}

/* Text up to its NUL; NULL is printed as no value. */
#define LOG_TEXT(name, value) log_field_text(name, value)
/* `size` bytes, which may be anything. */
#define LOG_BYTES(name, value, size)                                                               \
	((struct log_field){ .key = name, .type = LOG_FIELD_TEXT, .text = value, .len = size })
/* The bytes of a client's key: where keys are to be hidden (log_hide_keys), its keyspace and a
   number that stands for the rest. */
#define LOG_KEY(name, value, size)                                                                 \
	((struct log_field){ .key = name, .type = LOG_FIELD_KEY, .text = value, .len = size })
/* Words of others that may quote a key's arguments: left out where keys are to be hidden. */
#define LOG_QUOTE(name, value, size)                                                               \
	((struct log_field){ .key = name, .type = LOG_FIELD_QUOTE, .text = value, .len = size })
#define LOG_INT(name, value)                                                                       \
	((struct log_field){ .key = name, .type = LOG_FIELD_INT, .number = value })
#define LOG_UINT(name, value)                                                                      \
	((struct log_field){ .key = name, .type = LOG_FIELD_UINT, .count = value })
/* A time in microseconds, printed in milliseconds; so name it. */
#define LOG_MS(name, value_us)                                                                     \
	((struct log_field){ .key = name, .type = LOG_FIELD_MS, .number = value_us })

/* The lines of one place in the source; owned by the macro, known to the log. */
struct log_site {
	int64_t second;      /* of the current window */
	unsigned lines;      /* written in it */
	uint64_t suppressed; /* since the last line */
	const char *event;
	struct log_site *next; /* sites that have ever suppressed something */
	bool listed;
};

#define LOG_AT(at_level, name, ...) LOG_IF(log_enabled(at_level), at_level, name, ##__VA_ARGS__)

#define LOG_IF(wanted, at_level, name, ...)                                                        \
	do {                                                                                       \
		if (wanted) {                                                                      \
			static struct log_site log_site_here_ = { .event = name };                 \
			const struct log_field log_fields_here_[] = { LOG_TEXT("event", name),     \
								      ##__VA_ARGS__ };             \
			log_write(&log_site_here_, at_level, log_fields_here_,                     \
				  sizeof log_fields_here_ / sizeof *log_fields_here_);             \
		}                                                                                  \
	} while (0)

#define log_error(name, ...)   LOG_AT(LOG_LEVEL_ERROR, name, ##__VA_ARGS__)
#define log_warning(name, ...) LOG_AT(LOG_LEVEL_WARNING, name, ##__VA_ARGS__)
#define log_info(name, ...)    LOG_AT(LOG_LEVEL_INFO, name, ##__VA_ARGS__)
#define log_debug(name, ...)   LOG_AT(LOG_LEVEL_DEBUG, name, ##__VA_ARGS__)

/* Sends the log to `fd` (borrowed, stays open) and finds out what that is. Without it, the log goes
 * to stderr as text, from level info. Again at a reload, on the same thread as before; what the
 * functions below have set is then over. */
void log_open(int fd, enum log_level level, enum log_format format);

/* From which level on events are written, and how many lines of one place a second (1 to
 * LOG_RATE_MAX). */
void log_set_level(enum log_level level);
enum log_level log_level(void);
void log_set_rate(unsigned lines);
unsigned log_rate(void);

/* Static. -1: no level has that name. */
const char *log_level_name(enum log_level level);
int log_level_from_name(const char *name, size_t len);

/* Whether keys are hidden from now on. Equal keys under an equal salt have equal numbers, on all
 * hosts, so that events can be put together; who has the salt can find out whether a key that he
 * thinks of is meant (XXH3 is no cryptographic hash). */
void log_hide_keys(bool hidden, const char *salt);

/* Whether it is what systemd connected to the journal, which takes "<3>" before a line for its
 * priority. */
bool log_is_journal(int fd);

/* Whether events of that level are written. */
bool log_enabled(enum log_level level);

/* The same for an event of a keyspace with a level of its own (struct policy, log_level). */
bool log_enabled_for(enum log_level level, unsigned own_level);

/* Tells what is still suppressed of each place, at most one line each: before the end, and now and
 * then, or the last count of a burst stays untold. */
void log_flush(void);

/* The macros' function: formats and writes one line, unless the site has said too much. */
void log_write(struct log_site *site, enum log_level level, const struct log_field *fields,
	       size_t fields_count);

/* Copies a libpq connection string or URI into `buf`, what may be a password replaced by "***";
 * cut to `size` bytes with its NUL. Returns `buf`. */
const char *log_redact_dsn(const char *dsn, char *buf, size_t size);
