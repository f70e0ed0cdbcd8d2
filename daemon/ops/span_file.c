#include "ops/span_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"

enum {
	FULL_MS = 100,    /* until a full fifo is tried again */
	FAILED_MS = 1000, /* the same of what could not be opened or written */
	FILE_MODE = 0640,
};

static void span_file_step(struct span_file *file);

int span_file_init(struct span_file *file, uv_loop_t *loop, const char *path)
{
	*file = (struct span_file){ .loop = loop, .path = path, .fd = -1 };
	if (!path)
		return 0;
	file->filling.bytes = mem_alloc(1 + SPAN_BUFFER);
	file->writing.bytes = mem_alloc(1 + SPAN_BUFFER);
	if (!file->filling.bytes || !file->writing.bytes) {
		mem_free(file->filling.bytes);
		mem_free(file->writing.bytes);
		file->path = NULL;
		return -1;
	}
	file->filling.bytes[0] = file->writing.bytes[0] = '\n';
	file->filling.len = file->writing.len = 1;
	CHECK(uv_timer_init(loop, &file->timer) == 0);
	file->timer.data = file;
	return 0;
}

static void drop(struct span_file *file, struct span_buffer *buffer)
{
	file->counters.spans_dropped += buffer->spans;
	buffer->len = 1;
	buffer->spans = 0;
}

static void shut(struct span_file *file)
{
	uv_fs_t call;

	if (file->fd >= 0)
		uv_fs_close(file->loop, &call, file->fd, NULL);
	file->fd = -1;
}

static void end(struct span_file *file)
{
	drop(file, &file->filling);
	drop(file, &file->writing);
	shut(file);
	mem_free(file->filling.bytes);
	mem_free(file->writing.bytes);
	file->path = NULL;
	uv_close((uv_handle_t *)&file->timer, NULL);
}

static void on_timer(uv_timer_t *timer)
{
	span_file_step(timer->data);
}

/* Not now. What is to be closed does not wait. */
static void try_again(struct span_file *file, uint64_t in_ms)
{
	if (file->closing)
		end(file);
	else
		uv_timer_start(&file->timer, on_timer, in_ms, 0);
}

static void complain(const struct span_file *file, int error)
{
	log_warning("trace.file", LOG_TEXT("path", file->path),
		    LOG_TEXT("why", uv_strerror(error)));
}

static void on_open(uv_fs_t *call)
{
	struct span_file *file = call->data;
	const int result = (int)call->result;

	uv_fs_req_cleanup(call);
	file->busy = false;
	if (result < 0) {
		/* ENXIO: a fifo without a reader */
		if (result != UV_ENXIO)
			complain(file, result);
		try_again(file, FAILED_MS);
		return;
	}
	file->fd = result;
	span_file_step(file);
}

static void take_written(struct span_file *file, size_t count)
{
	struct span_buffer *writing = &file->writing;

	file->written += count;
	if (count > 0)
		file->is_torn = writing->bytes[file->written - 1] != '\n';
	if (file->written < writing->len)
		return;
	file->counters.spans_written += writing->spans;
	writing->len = 1;
	writing->spans = 0;
}

static void on_write(uv_fs_t *call)
{
	struct span_file *file = call->data;
	const ssize_t result = call->result;

	uv_fs_req_cleanup(call);
	file->busy = false;
	if (result >= 0) {
		take_written(file, (size_t)result);
		span_file_step(file);
	} else if (result == UV_EAGAIN) {
		try_again(file, FULL_MS);
	} else {
		complain(file, (int)result);
		drop(file, &file->writing);
		shut(file);
		try_again(file, FAILED_MS);
	}
}

static void swap(struct span_file *file)
{
	struct span_buffer full = file->filling;

	file->filling = file->writing;
	file->writing = full;
	file->written = file->is_torn ? 0 : 1;
}

/* The next call, if there is something to write and none is under way. */
static void span_file_step(struct span_file *file)
{
	struct span_buffer *writing = &file->writing;
	int error;

	if (file->busy || uv_is_active((uv_handle_t *)&file->timer))
		return;
	if (writing->len == 1 && file->filling.len > 1)
		swap(file);
	if (writing->len == 1) {
		if (file->closing)
			end(file);
		return;
	}
	file->call.data = file;
	if (file->fd < 0) {
		/* Without O_NONBLOCK a thread would wait for a fifo's reader. */
		error = uv_fs_open(file->loop, &file->call, file->path,
				   O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC |
					   O_NOCTTY,
				   FILE_MODE, on_open);
	} else {
		const uv_buf_t rest = uv_buf_init(writing->bytes + file->written,
						  (unsigned)(writing->len - file->written));
		error = uv_fs_write(file->loop, &file->call, file->fd, &rest, 1, -1, on_write);
	}
	CHECK(error == 0);
	file->busy = true;
}

void span_file_put(struct span_file *file, const char *line, size_t len, uint32_t spans)
{
	struct span_buffer *filling = &file->filling;

	if (!file->path || file->closing)
		return;
	if (filling->len + len > 1 + SPAN_BUFFER) {
		file->counters.spans_dropped += spans;
		return;
	}
	memcpy(filling->bytes + filling->len, line, len);
	filling->len += len;
	filling->spans += spans;
	span_file_step(file);
}

void span_file_close(struct span_file *file)
{
	if (!file->path || file->closing)
		return;
	file->closing = true;
	if (!file->busy) {
		uv_timer_stop(&file->timer);
		span_file_step(file);
	}
}
