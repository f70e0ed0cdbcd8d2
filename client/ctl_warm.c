/* segarctl warm: starts a warm-up, and shows how it goes. */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/ctl.h"
#include "proto/reader.h"

enum {
	SCREEN_MS = 200,     /* between two looks, on a terminal … */
	LOOK_MS = 500,       /* … and elsewhere, where … */
	LINE_MS = 10 * 1000, /* … so often there is a line */
	AWAY_MS = 60 * 1000, /* a daemon that is started again may be away so long */
	BAR = 24,
	LINE_MAX_BYTES = 256,
};

/* How a job stands, by warm_status. */
struct job_view {
	char state[16];
	char error[320];
	int64_t keys; /* -1: not known yet */
	int64_t done, fresh, built, failed, elapsed_ms;
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void pause_ms(int64_t ms)
{
	poll(NULL, 0, (int)ms);
}

/* ---- reading ------------------------------------------------------------------------------- */

static void copy_text(const struct mp_value *value, char *ret_text, size_t size)
{
	const bool is_text = value->type == MP_STR || value->type == MP_BIN;
	const size_t len = is_text ? value->bytes.len : 0;
	const size_t kept = len < size ? len : size - 1;

	if (kept > 0)
		memcpy(ret_text, value->bytes.data, kept);
	ret_text[kept] = '\0';
}

static void take_number(struct job_view *view, struct wire_span name, int64_t number)
{
	static const struct {
		const char *name;
		size_t offset;
	} fields[] = {
		{ "keys", offsetof(struct job_view, keys) },
		{ "done", offsetof(struct job_view, done) },
		{ "fresh", offsetof(struct job_view, fresh) },
		{ "built", offsetof(struct job_view, built) },
		{ "failed", offsetof(struct job_view, failed) },
		{ "elapsed_ms", offsetof(struct job_view, elapsed_ms) },
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (wire_span_is(name, fields[i].name))
			*(int64_t *)((char *)view + fields[i].offset) = number;
}

static bool read_view(const segar_reply *reply, struct job_view *ret_view)
{
	struct wire_span name, skipped;
	struct mp_value value;
	struct reader r;
	uint32_t pairs;

	*ret_view = (struct job_view){ .keys = -1 };
	reader_init(&r, reply->encoded, reply->encoded_len);
	if (!reader_map(&r, &pairs))
		return false;
	for (uint32_t i = 0; i < pairs; i++) {
		if (!reader_text(&r, &name) || !reader_peek(&r, &value) ||
		    !reader_skip(&r, &skipped))
			return false;
		if (wire_span_is(name, "state"))
			copy_text(&value, ret_view->state, sizeof(ret_view->state));
		else if (wire_span_is(name, "error"))
			copy_text(&value, ret_view->error, sizeof(ret_view->error));
		else if (value.type == MP_INT)
			take_number(ret_view, name, value.number);
	}
	return ret_view->state[0] != '\0';
}

/* ---- showing ------------------------------------------------------------------------------- */

/* As 1:02:03 or 2:03. */
static void put_time(char *to, size_t size, double seconds)
{
	const int64_t s = seconds < 1e7 ? (int64_t)seconds : 9999999;

	if (s >= 3600)
		snprintf(to, size, "%" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60),
			 (int)(s % 60));
	else
		snprintf(to, size, "%d:%02d", (int)(s / 60), (int)(s % 60));
}

/* What is done, and how fast: over all the time that it took. */
static void put_progress(const struct job_view *view, char *to, size_t size)
{
	const double seconds = (double)view->elapsed_ms / 1e3;
	const double rate = seconds > 0 ? (double)view->done / seconds : 0;
	char keys[32] = "?", eta[32] = "-";

	if (view->keys >= 0)
		snprintf(keys, sizeof(keys), "%" PRId64, view->keys);
	if (view->keys >= 0 && rate > 0)
		put_time(eta, sizeof(eta), (double)(view->keys - view->done) / rate);
	snprintf(to, size,
		 "%" PRId64 " of %s done: fresh %" PRId64 ", built %" PRId64 ", failed %" PRId64
		 ", %.0f/s, ETA %s",
		 view->done, keys, view->fresh, view->built, view->failed, rate, eta);
}

static void show_bar(const struct job_view *view)
{
	char line[LINE_MAX_BYTES], bar[BAR + 1];
	const double part = view->keys > 0 ? (double)view->done / (double)view->keys : 0;
	const int full = part < 1 ? (int)(part * BAR) : BAR;

	for (int i = 0; i < BAR; i++)
		bar[i] = i < full ? '#' : '.';
	bar[BAR] = '\0';
	put_progress(view, line, sizeof(line));
	printf("\r[%s] %3.0f %%  %s\033[K", bar, part * 100, line);
	fflush(stdout);
}

static void show_line(const struct job_view *view)
{
	char line[LINE_MAX_BYTES];

	put_progress(view, line, sizeof(line));
	printf("%s\n", line);
	fflush(stdout);
}

/* The keys that failed, as far as they are listed, with what was wrong. */
static void show_failures(const segar_reply *reply)
{
	struct wire_span name, key, error, skipped;
	struct reader r;
	uint32_t pairs, count = 0, two;

	reader_init(&r, reply->encoded, reply->encoded_len);
	if (!reader_map(&r, &pairs))
		return;
	for (uint32_t i = 0; i < pairs && reader_text(&r, &name); i++) {
		if (wire_span_is(name, "failures") && reader_array(&r, &count))
			break;
		if (!reader_skip(&r, &skipped))
			return;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!reader_map(&r, &two) || !reader_text(&r, &name) || !reader_text(&r, &key) ||
		    !reader_text(&r, &name) || !reader_text(&r, &error))
			return;
		fputs("segarctl: ", stderr);
		ctl_put_text(stderr, key);
		fputs(": ", stderr);
		ctl_put_text(stderr, error);
		fputc('\n', stderr);
	}
}

/* ---- waiting ------------------------------------------------------------------------------- */

static segar_reply *ask_about(struct ctl *ctl, const char *method, const char *job)
{
	struct wire_buf params;
	segar_reply *reply;

	wire_buf_init(&params, WIRE_REQUEST_MAX);
	wire_buf_str(&params, job);
	reply = segar_call(ctl->c, method, params.data, params.len, 1, &ctl->options);
	wire_buf_close(&params);
	return reply;
}

static enum ctl_exit conclude(struct ctl *ctl, const segar_reply *reply,
			      const struct job_view *view)
{
	const double good = view->done > 0
				    ? (double)(view->done - view->failed) * 100 / (double)view->done
				    : 100;

	if (ctl->json) {
		ctl_print_json(stdout, (struct wire_span){ reply->encoded, reply->encoded_len });
	} else {
		show_line(view);
		show_failures(reply);
	}
	if (strcmp(view->state, "done") != 0) {
		fprintf(stderr, "segarctl: the warm-up is %s%s%s\n", view->state,
			view->error[0] ? ": " : "", view->error);
		return CTL_ERROR;
	}
	if (good >= ctl->warm.fail_under)
		return CTL_VALUE;
	fprintf(stderr, "segarctl: %.4g %% of the keys are warm, not %.4g %%\n", good,
		ctl->warm.fail_under);
	return CTL_FAIL_UNDER;
}

static void show_progress(const struct ctl *ctl, const struct job_view *view, bool screen,
			  int64_t *line_ms)
{
	if (ctl->json)
		return;
	if (screen) {
		show_bar(view);
	} else if (now_ms() >= *line_ms) {
		show_line(view);
		*line_ms = now_ms() + LINE_MS;
	}
}

/* Until the job has ended, also while its daemon is started again. */
static enum ctl_exit wait_for(struct ctl *ctl, const char *job)
{
	const bool screen = isatty(STDOUT_FILENO) && !ctl->json;
	int64_t heard_ms = now_ms(), line_ms = now_ms() + LINE_MS;

	for (;;) {
		segar_reply *reply = ask_about(ctl, "warm_status", job);
		enum ctl_exit exit_code = ctl_exit_of(reply->status);
		struct job_view view;

		if (exit_code == CTL_VALUE && !read_view(reply, &view))
			exit_code = CTL_NO_DAEMON;
		if (exit_code == CTL_VALUE && strcmp(view.state, "running") != 0) {
			if (screen)
				fputs("\r\033[K", stdout);
			exit_code = conclude(ctl, reply, &view);
			segar_reply_free(reply);
			return exit_code;
		}
		bool gives_up = exit_code == CTL_ERROR && reply->status != SEGAR_UNAVAILABLE;
		if (exit_code == CTL_VALUE)
			heard_ms = now_ms();
		if (gives_up || now_ms() - heard_ms > AWAY_MS) {
			ctl_print_error(stdout, ctl, reply->status, reply->error, -1);
			segar_reply_free(reply);
			return exit_code;
		}
		if (exit_code == CTL_VALUE)
			show_progress(ctl, &view, screen, &line_ms);
		segar_reply_free(reply);
		pause_ms(screen ? SCREEN_MS : LOOK_MS);
	}
}

/* ---- commands ------------------------------------------------------------------------------ */

static void put_start(const struct ctl *ctl, struct wire_buf *params)
{
	const bool keys = strchr(ctl->args[0], ':') != NULL;

	wire_buf_map(params, ctl->warm.rate_per_s > 0 ? 2 : 1);
	wire_buf_str(params, keys ? "keys" : "plan");
	if (keys)
		wire_buf_array(params, (uint32_t)ctl->args_count);
	for (int i = 0; i < (keys ? ctl->args_count : 1); i++)
		wire_buf_str(params, ctl->args[i]);
	if (ctl->warm.rate_per_s > 0) {
		wire_buf_str(params, "rate");
		wire_buf_float(params, ctl->warm.rate_per_s);
	}
}

/* The job's name, from warm's reply; owned. */
static char *job_of(const segar_reply *reply)
{
	struct wire_span name, job;
	struct reader r;
	uint32_t pairs;

	reader_init(&r, reply->encoded, reply->encoded_len);
	if (!reader_map(&r, &pairs) || !reader_text(&r, &name) || !wire_span_is(name, "job") ||
	    !reader_text(&r, &job))
		return NULL;
	return strndup(job.data, job.len);
}

enum ctl_exit ctl_warm(struct ctl *ctl)
{
	struct wire_buf params;
	enum ctl_exit exit_code;
	segar_reply *reply;
	char *job;

	if (ctl->args_count > 1 && !strchr(ctl->args[0], ':')) {
		fprintf(stderr,
			"segarctl: warm takes one plan, or keys: %s is no key, and %s comes after "
			"it\n",
			ctl->args[0], ctl->args[1]);
		return CTL_USAGE;
	}
	wire_buf_init(&params, WIRE_REQUEST_MAX);
	put_start(ctl, &params);
	reply = segar_call(ctl->c, "warm", params.data, params.len, 1, &ctl->options);
	wire_buf_close(&params);
	exit_code = ctl_exit_of(reply->status);
	job = exit_code == CTL_VALUE ? job_of(reply) : NULL;
	if (exit_code != CTL_VALUE)
		ctl_print_error(stdout, ctl, reply->status, reply->error, reply->retry_after_ms);
	else if (!job)
		exit_code = CTL_NO_DAEMON;
	else if (ctl->warm.wait)
		exit_code = wait_for(ctl, job);
	else if (ctl->json)
		ctl_print_json(stdout, (struct wire_span){ reply->encoded, reply->encoded_len });
	else
		printf("%s\n", job);
	free(job);
	segar_reply_free(reply);
	return exit_code;
}

enum ctl_exit ctl_warm_ask(struct ctl *ctl, const char *method)
{
	segar_reply *reply = ctl->args_count > 0
				     ? ask_about(ctl, method, ctl->args[0])
				     : segar_call(ctl->c, method, NULL, 0, 0, &ctl->options);
	const struct wire_span encoded = { reply->encoded, reply->encoded_len };
	enum ctl_exit exit_code = ctl_exit_of(reply->status);

	if (exit_code != CTL_VALUE)
		ctl_print_error(stdout, ctl, reply->status, reply->error, reply->retry_after_ms);
	else if (ctl->json)
		ctl_print_json(stdout, encoded);
	else if (strcmp(method, "warm_status") == 0)
		ctl_print_text(stdout, encoded);
	segar_reply_free(reply);
	return exit_code;
}
