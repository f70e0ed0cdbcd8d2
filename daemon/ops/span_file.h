/* Lines on their way into a file or a fifo, which may be slow, full or gone: the loop never waits.
 *
 * What is put is kept in memory, at most SPAN_BUFFER bytes, and as much again while it is written,
 * by a thread of libuv's, one write at a time. What finds no room is dropped, and so is what a
 * write fails for; both are counted. A fifo that nobody reads, or that is full, is tried again. A
 * line that was cut by that is ended, so that only that one cannot be read. On the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum { SPAN_BUFFER = 1024 * 1024 };

/* X(name, what it counts): they only grow */
#define SPAN_COUNTER_MAP(X)                                                                        \
	X(spans_written, "spans of traced requests that trace.file has taken")                     \
	X(spans_dropped, "spans that it has not, in time or at all")

struct span_counters {
#define X(name, text) uint64_t name;
	SPAN_COUNTER_MAP(X)
#undef X
};

struct span_buffer {
	char *bytes; /* owned; the first is a newline, for where a line was cut */
	size_t len;  /* with that one */
	uint32_t spans;
};

struct span_file {
	uv_loop_t *loop;
	const char *path; /* borrowed; NULL: there is none, nothing is written */
	uv_timer_t timer; /* the next try */
	uv_fs_t call;     /* one at a time */
	bool busy;        /* it is under way */
	bool is_torn;     /* what was written last ended within a line */
	bool closing;
	int fd; /* -1: not open */
	struct span_buffer filling, writing;
	size_t written; /* bytes of `writing` */
	struct span_counters counters;
};

/* Opens nothing yet; the file is made with the first line. -1: no memory. */
int span_file_init(struct span_file *file, uv_loop_t *loop, const char *path)
	__attribute__((warn_unused_result));

/* Takes a line, its newline included, with so many spans in it. */
void span_file_put(struct span_file *file, const char *line, size_t len, uint32_t spans);

/* Writes what is there, if it can be written now, and closes its handles. */
void span_file_close(struct span_file *file);
