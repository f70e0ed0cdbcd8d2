/* segarctl trace: follows a key, and shows what happens to it, until it is interrupted. */
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "client/ctl.h"
#include "proto/reader.h"

enum { LOOK_MS = 100 }; /* between two looks */

/* One event, as it is told. */
struct told {
	int64_t at_us, took_us, left_us, fence; /* -1: none */
	struct wire_span event, what;           /* data NULL: none */
};

static bool read_told(struct reader *r, struct told *ret_told)
{
	struct told told = { -1, -1, -1, -1, { 0 }, { 0 } };
	struct wire_span name;
	struct mp_value value;
	uint32_t pairs;

	if (!reader_map(r, &pairs))
		return false;
	for (; pairs > 0; pairs--) {
		if (!reader_text(r, &name) || !reader_next(r, &value) || mp_is_container(&value))
			return false;
		const bool is_text = value.type == MP_STR;
		const int64_t number = value.type == MP_INT ? value.number : -1;

		if (wire_span_is(name, "at_us"))
			told.at_us = number;
		else if (wire_span_is(name, "took_us"))
			told.took_us = number;
		else if (wire_span_is(name, "left_us"))
			told.left_us = number;
		else if (wire_span_is(name, "fence"))
			told.fence = number;
		else if (wire_span_is(name, "event") && is_text)
			told.event = value.bytes;
		else if (wire_span_is(name, "what") && is_text)
			told.what = value.bytes;
	}
	*ret_told = told;
	return true;
}

static void print_ms(const char *before, int64_t us, const char *behind)
{
	if (us >= 0)
		printf("%s%" PRId64 ".%03d ms%s", before, us / 1000, (int)(us % 1000), behind);
}

/* 12:00:00.123456  built      row, took 800.123 ms, fence 1764597600123456 */
static void print_told(const struct told *told)
{
	const time_t seconds = (time_t)(told->at_us / 1000000);
	char clock[16];
	struct tm tm;

	localtime_r(&seconds, &tm);
	strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	printf("%s.%06d  ", clock, (int)(told->at_us % 1000000));
	ctl_put_text(stdout, told->event);
	printf("%*s", told->event.len < 10 ? 10 - (int)told->event.len : 0, "");
	if (told->what.data) {
		putchar(' ');
		ctl_put_text(stdout, told->what);
	}
	print_ms(", took ", told->took_us, "");
	print_ms(", for another ", told->left_us, "");
	if (told->fence >= 0)
		printf(", fence %" PRId64, told->fence);
	putchar('\n');
}

static bool show_events(const struct ctl *ctl, struct reader *r)
{
	struct reader each;
	struct wire_span encoded;
	struct told told;
	uint32_t count;

	if (!reader_array(r, &count))
		return false;
	for (; count > 0; count--) {
		each = *r;
		if (!reader_skip(r, &encoded) || !read_told(&each, &told))
			return false;
		if (!ctl->json)
			print_told(&told);
		else if (!ctl_print_json(stdout, encoded))
			return false;
	}
	return true;
}

static bool show(const struct ctl *ctl, const segar_reply *reply)
{
	struct wire_span name, skipped;
	struct mp_value value;
	struct reader r;
	uint32_t pairs;

	reader_init(&r, reply->encoded, reply->encoded_len);
	if (!reader_map(&r, &pairs))
		return false;
	for (; pairs > 0; pairs--) {
		if (!reader_text(&r, &name))
			return false;
		if (wire_span_is(name, "events")) {
			if (!show_events(ctl, &r))
				return false;
		} else if (wire_span_is(name, "lost")) {
			if (!reader_next(&r, &value))
				return false;
			if (value.type == MP_INT && value.number > 0)
				fprintf(stderr, "segarctl: %" PRId64 " events were lost here\n",
					value.number);
		} else if (!reader_skip(&r, &skipped)) {
			return false;
		}
	}
	return fflush(stdout) == 0;
}

enum ctl_exit ctl_trace(struct ctl *ctl, const char *key)
{
	enum ctl_exit exit_code = CTL_VALUE;
	struct wire_buf params;

	wire_buf_init(&params, WIRE_REQUEST_MAX);
	wire_buf_str(&params, key);
	fputs("segarctl: following ", stderr);
	ctl_put_text(stderr, (struct wire_span){ key, strlen(key) });
	fputs("; hits in the daemon's memory are not told\n", stderr);
	while (exit_code == CTL_VALUE) {
		segar_reply *reply =
			segar_call(ctl->c, "trace", params.data, params.len, 1, &ctl->options);

		exit_code = ctl_exit_of(reply->status);
		if (exit_code != CTL_VALUE)
			ctl_print_error(stdout, ctl, reply->status, reply->error,
					reply->retry_after_ms);
		else if (!show(ctl, reply))
			exit_code = CTL_ERROR;
		segar_reply_free(reply);
		if (exit_code == CTL_VALUE)
			poll(NULL, 0, LOOK_MS);
	}
	wire_buf_close(&params);
	return exit_code;
}
