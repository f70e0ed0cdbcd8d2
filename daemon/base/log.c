#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"
#include "base/log_line.h"

static_assert(LOG_LINE_MAX <= PIPE_BUF, "a pipe takes a line whole or not at all");

static struct {
	pthread_mutex_t lock; /* held for a line: formatting, and a write that does not wait */
	int fd;
	_Atomic enum log_level level;
	enum log_format format;
	_Atomic unsigned rate;
	bool is_journal;
	bool is_socket;
	bool hides_keys;
	uint64_t salt;
	uint64_t lost;          /* lines since the last one that got through */
	struct log_site *sites; /* that have ever suppressed something */
	char line[LOG_LINE_MAX];
} the_log = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.fd = STDERR_FILENO,
	.level = LOG_LEVEL_INFO,
	.format = LOG_FORMAT_TEXT,
	.rate = LOG_SITE_BURST,
};

bool log_is_journal(int fd)
{
	const char *stream = getenv("JOURNAL_STREAM"); /* names device and inode */
	struct stat st;
	unsigned long long device;
	unsigned long long inode;
	if (!stream || sscanf(stream, "%llu:%llu", &device, &inode) != 2)
		return false;
	return fstat(fd, &st) == 0 && device == st.st_dev && inode == st.st_ino;
}

void log_open(int fd, enum log_level level, enum log_format format)
{
	struct stat st;
	bool is_known = fstat(fd, &st) == 0;
	pthread_mutex_lock(&the_log.lock);
	the_log.fd = fd;
	the_log.level = level;
	the_log.format = format;
	the_log.rate = LOG_SITE_BURST;
	the_log.is_socket = is_known && S_ISSOCK(st.st_mode);
	the_log.is_journal = log_is_journal(fd);
	pthread_mutex_unlock(&the_log.lock);
}

void log_set_level(enum log_level level)
{
	the_log.level = level;
}

enum log_level log_level(void)
{
	return the_log.level;
}

void log_set_rate(unsigned lines)
{
	CHECK(lines >= 1 && lines <= LOG_RATE_MAX);
	the_log.rate = lines;
}

unsigned log_rate(void)
{
	return the_log.rate;
}

static const char *const level_names[] = {
	[LOG_LEVEL_ERROR] = "error",
	[LOG_LEVEL_WARNING] = "warning",
	[LOG_LEVEL_INFO] = "info",
	[LOG_LEVEL_DEBUG] = "debug",
};

const char *log_level_name(enum log_level level)
{
	return level_names[level];
}

int log_level_from_name(const char *name, size_t len)
{
	for (int i = 0; i <= LOG_LEVEL_DEBUG; i++)
		if (strlen(level_names[i]) == len && memcmp(level_names[i], name, len) == 0)
			return i;
	return -1;
}

void log_hide_keys(bool hidden, const char *salt)
{
	pthread_mutex_lock(&the_log.lock);
	the_log.hides_keys = hidden;
	the_log.salt = salt ? XXH3_64bits(salt, strlen(salt)) : 0;
	pthread_mutex_unlock(&the_log.lock);
}

bool log_enabled(enum log_level level)
{
	return level <= the_log.level;
}

bool log_enabled_for(enum log_level level, unsigned own_level)
{
	return own_level > 0 ? level <= own_level - 1 : log_enabled(level);
}

static int64_t clock_us(clockid_t clock)
{
	struct timespec ts;
	clock_gettime(clock, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* Whether the site may say one more line in this second; if not, that is counted. */
static bool site_admits(struct log_site *site)
{
	int64_t second = clock_us(CLOCK_MONOTONIC) / 1000000;
	if (second != site->second) {
		site->second = second;
		site->lines = 0;
	}
	if (site->lines < the_log.rate) {
		site->lines++;
		return true;
	}
	site->suppressed++;
	if (!site->listed) {
		site->listed = true;
		site->next = the_log.sites;
		the_log.sites = site;
	}
	return false;
}

/* Writes without waiting, and without touching the flags of a descriptor that others share. */
static bool write_now(const char *line, size_t len)
{
	ssize_t n;
	if (the_log.is_socket) {
		n = send(the_log.fd, line, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	} else {
		/* A pipe that polls writable has room for PIPE_BUF bytes. */
		struct pollfd poll_fd = { .fd = the_log.fd, .events = POLLOUT };
		if (poll(&poll_fd, 1, 0) != 1 || !(poll_fd.revents & POLLOUT))
			return false;
		n = write(the_log.fd, line, len);
	}
	return n == (ssize_t)len;
}

/* Whether the line got through. */
static bool write_line(enum log_level level, const struct log_field *fields, size_t fields_count,
		       uint64_t suppressed)
{
	struct log_record record = {
		.has_priority = the_log.is_journal,
		.time_us = clock_us(CLOCK_REALTIME),
		.level = level,
		.fields = fields,
		.fields_count = fields_count,
		.suppressed = suppressed,
		.lost = the_log.lost,
		.hides_keys = the_log.hides_keys,
		.salt = the_log.salt,
	};
	size_t len = log_line_write(&record, the_log.format, the_log.line);
	if (!write_now(the_log.line, len)) {
		the_log.lost++;
		return false;
	}
	the_log.lost = 0;
	return true;
}

void log_write(struct log_site *site, enum log_level level, const struct log_field *fields,
	       size_t fields_count)
{
	int saved_errno = errno;
	pthread_mutex_lock(&the_log.lock);
	if (site_admits(site) && write_line(level, fields, fields_count, site->suppressed))
		site->suppressed = 0;
	pthread_mutex_unlock(&the_log.lock);
	errno = saved_errno;
}

void log_flush(void)
{
	pthread_mutex_lock(&the_log.lock);
	for (struct log_site *site = the_log.sites; site; site = site->next) {
		if (site->suppressed == 0)
			continue;
		const struct log_field fields[] = { LOG_TEXT("event", "log.suppressed"),
						    LOG_TEXT("of", site->event) };
		if (write_line(LOG_LEVEL_WARNING, fields, sizeof fields / sizeof *fields,
			       site->suppressed))
			site->suppressed = 0;
	}
	pthread_mutex_unlock(&the_log.lock);
}
