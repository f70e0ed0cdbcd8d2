/* What segarctl can do: each command asks by libsegar and shows what it is told. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl.h"
#include "client/ctl_top.h"
#include "client/drill.h"

/* The key that the arguments name: one in string form, or a keyspace and its arguments. Owned. */
static char *key_of(const struct ctl *ctl)
{
	const char *const *parts = (const char *const *)ctl->args + 1;
	const size_t count = (size_t)ctl->args_count - 1;
	size_t len;
	char *key;

	if (count == 0)
		return strdup(ctl->args[0]);
	len = segar_key(NULL, 0, ctl->args[0], parts, count);
	key = malloc(len + 1);
	if (key)
		segar_key(key, len + 1, ctl->args[0], parts, count);
	return key;
}

/* Shows a reply by `on_value` if it is none of an error, and frees it. */
static enum ctl_exit show(const struct ctl *ctl, segar_reply *reply,
			  enum ctl_exit (*on_value)(const struct ctl *ctl,
						    const segar_reply *reply))
{
	enum ctl_exit exit_code = ctl_exit_of(reply->status);

	if (exit_code == CTL_VALUE)
		exit_code = on_value(ctl, reply);
	else
		ctl_print_error(stdout, ctl, reply->status, reply->error, reply->retry_after_ms);
	segar_reply_free(reply);
	return exit_code;
}

static enum ctl_exit show_result(const struct ctl *ctl, const segar_reply *reply)
{
	ctl_print_result(stdout, ctl, &reply->results[0]);
	if (ctl->json)
		putchar('\n');
	return reply->results[0].state == SEGAR_ABSENT ? CTL_ABSENT : CTL_VALUE;
}

/* An error among the results decides the exit code, then a row that is not there. */
static enum ctl_exit show_results(const struct ctl *ctl, const segar_reply *reply)
{
	bool error = false, absent = false;

	for (size_t i = 0; i < reply->results_count; i++) {
		const segar_result *result = &reply->results[i];

		if (!ctl->json && !ctl->raw)
			printf("%skey      %s\n", i > 0 ? "\n" : "", ctl->args[i]);
		ctl_print_result(stdout, ctl, result);
		if (ctl->json)
			putchar('\n');
		error |= result->status != SEGAR_OK;
		absent |= result->status == SEGAR_OK && result->state == SEGAR_ABSENT;
	}
	return error ? CTL_ERROR : absent ? CTL_ABSENT : CTL_VALUE;
}

static enum ctl_exit show_encoded(const struct ctl *ctl, const segar_reply *reply)
{
	const struct wire_span encoded = { reply->encoded, reply->encoded_len };

	if (!(ctl->json ? ctl_print_json : ctl_print_text)(stdout, encoded))
		return CTL_ERROR;
	return CTL_VALUE;
}

/* Of a command whose success has nothing to tell. */
static enum ctl_exit show_done(const struct ctl *ctl, const segar_reply *reply)
{
	if (ctl->json)
		return show_encoded(ctl, reply);
	return CTL_VALUE;
}

static enum ctl_exit
with_key(struct ctl *ctl,
	 segar_reply *(*call)(segar *c, const char *key, const segar_options *options),
	 enum ctl_exit (*on_value)(const struct ctl *ctl, const segar_reply *reply))
{
	char *key = key_of(ctl);
	enum ctl_exit exit_code;

	if (!key) {
		ctl_print_error(stdout, ctl, SEGAR_NO_MEMORY, "out of memory", -1);
		return CTL_ERROR;
	}
	exit_code = show(ctl, call(ctl->c, key, &ctl->options), on_value);
	free(key);
	return exit_code;
}

static enum ctl_exit run_get(struct ctl *ctl, const struct command *command)
{
	(void)command;
	return with_key(ctl, segar_get, show_result);
}

static enum ctl_exit run_refresh(struct ctl *ctl, const struct command *command)
{
	(void)command;
	return with_key(ctl, segar_refresh, show_encoded);
}

static enum ctl_exit run_invalidate(struct ctl *ctl, const struct command *command)
{
	(void)command;
	return with_key(ctl, segar_invalidate, show_done);
}

static enum ctl_exit bad_spread(const char *text)
{
	fprintf(stderr, "segarctl: SPREAD_MS is a number of milliseconds, not %s\n", text);
	return CTL_USAGE;
}

/* invalidate of {keyspace, spread_ms}: every key of it, over that time. */
static enum ctl_exit run_invalidate_keyspace(struct ctl *ctl, const struct command *command)
{
	struct wire_buf params;
	enum ctl_exit exit_code;
	char *end = NULL;
	long long spread_ms = 0;

	(void)command;
	if (ctl->args_count > 1) {
		errno = 0;
		spread_ms = strtoll(ctl->args[1], &end, 10);
		if (end == ctl->args[1] || *end || spread_ms < 0 || errno)
			return bad_spread(ctl->args[1]);
	}
	wire_buf_init(&params, WIRE_REQUEST_MAX);
	wire_buf_map(&params, 2);
	wire_buf_str(&params, "keyspace");
	wire_buf_str(&params, ctl->args[0]);
	wire_buf_str(&params, "spread_ms");
	wire_buf_int(&params, spread_ms);
	exit_code = show(
		ctl, segar_call(ctl->c, "invalidate", params.data, params.len, 1, &ctl->options),
		show_done);
	wire_buf_close(&params);
	return exit_code;
}

static enum ctl_exit run_inspect(struct ctl *ctl, const struct command *command)
{
	(void)command;
	return with_key(ctl, segar_inspect, show_encoded);
}

static enum ctl_exit run_mget(struct ctl *ctl, const struct command *command)
{
	(void)command;
	return show(ctl,
		    segar_mget(ctl->c, (const char *const *)ctl->args, (size_t)ctl->args_count,
			       &ctl->options),
		    show_results);
}

/* A method without params. */
static enum ctl_exit run_plain(struct ctl *ctl, const struct command *command)
{
	return show(ctl, segar_call(ctl->c, command->name, NULL, 0, 0, &ctl->options),
		    show_encoded);
}

static enum ctl_exit run_stats(struct ctl *ctl, const struct command *command)
{
	enum ctl_exit exit_code;
	struct wire_buf params;

	if (ctl->args_count == 0)
		return run_plain(ctl, command);
	wire_buf_init(&params, WIRE_REQUEST_MAX);
	wire_buf_str(&params, ctl->args[0]);
	exit_code =
		show(ctl, segar_call(ctl->c, "stats", params.data, params.len, 1, &ctl->options),
		     show_encoded);
	wire_buf_close(&params);
	return exit_code;
}

static enum ctl_exit run_bench(struct ctl *ctl, const struct command *command)
{
	char *key = key_of(ctl);
	enum ctl_exit exit_code = key ? ctl_bench(ctl, key) : CTL_ERROR;

	(void)command;
	free(key);
	return exit_code;
}

static enum ctl_exit run_trace(struct ctl *ctl, const struct command *command)
{
	char *key = key_of(ctl);
	enum ctl_exit exit_code = key ? ctl_trace(ctl, key) : CTL_ERROR;

	(void)command;
	free(key);
	return exit_code;
}

static enum ctl_exit run_estimate(struct ctl *ctl, const struct command *command)
{
	(void)command;
	return ctl_estimate(ctl, ctl->args_count > 0 ? ctl->args[0] : NULL);
}

static enum ctl_exit run_top(struct ctl *ctl, const struct command *command)
{
	char *end = NULL;
	unsigned long keys = ctl->args_count > 0 ? strtoul(ctl->args[0], &end, 10) : 0;

	(void)command;
	if (ctl->args_count > 0 && (*end || end == ctl->args[0] || keys < 1 || keys > UINT16_MAX)) {
		fprintf(stderr, "segarctl: COUNT is a number of keys, not %s\n", ctl->args[0]);
		return CTL_USAGE;
	}
	return ctl_top(ctl, (uint32_t)keys);
}

/* log of {level, keyspace, rate}, as far as they are said. */
static enum ctl_exit run_log(struct ctl *ctl, const struct command *command)
{
	static const char *const names[] = { "level", "keyspace" };
	const bool has_rate = ctl->estimate.given & ESTIMATE_RATE;
	struct wire_buf params;
	enum ctl_exit exit_code;

	wire_buf_init(&params, WIRE_REQUEST_MAX);
	wire_buf_map(&params, (uint32_t)ctl->args_count + has_rate);
	for (int i = 0; i < ctl->args_count; i++) {
		wire_buf_str(&params, names[i]);
		wire_buf_str(&params, ctl->args[i]);
	}
	if (has_rate) {
		wire_buf_str(&params, "rate");
		wire_buf_int(&params, (int64_t)ctl->estimate.plan.rate_per_s);
	}
	exit_code = show(
		ctl, segar_call(ctl->c, command->name, params.data, params.len, 1, &ctl->options),
		show_encoded);
	wire_buf_close(&params);
	return exit_code;
}

static enum ctl_exit run_doctor(struct ctl *ctl, const struct command *command)
{
	(void)command;
	return ctl_doctor(ctl);
}

static enum ctl_exit run_warm(struct ctl *ctl, const struct command *command)
{
	(void)command;
	return ctl_warm(ctl);
}

static enum ctl_exit run_warm_status(struct ctl *ctl, const struct command *command)
{
	(void)command;
	return ctl_warm_ask(ctl, "warm_status");
}

static enum ctl_exit run_warm_cancel(struct ctl *ctl, const struct command *command)
{
	(void)command;
	return ctl_warm_ask(ctl, "warm_cancel");
}

static enum ctl_exit run_drill(struct ctl *ctl, const struct command *command)
{
	(void)command;
	return ctl_drill(ctl);
}

#define KEY     "KEY | KEYSPACE ARG..."
#define KEY_MAX (1 + WIRE_KEY_ARGS_MAX)

const struct command commands[] = {
	{ "get", KEY, "show a value", 1, KEY_MAX, OPTION_IN(GET), run_get },
	{ "mget", "KEY...", "show many values", 1, WIRE_MGET_KEYS_MAX, OPTION_IN(MGET), run_mget },
	{ "refresh", KEY, "build a value anew", 1, KEY_MAX, OPTION_IN(REFRESH), run_refresh },
	{ "invalidate", KEY, "what is cached is no longer fresh", 1, KEY_MAX, OPTION_IN(INVALIDATE),
	  run_invalidate },
	{ "invalidate-keyspace", "KEYSPACE [SPREAD_MS]",
	  "no key of it is fresh any longer, one after the other", 1, 2, 0,
	  run_invalidate_keyspace },
	{ "inspect", KEY, "show all that the daemon knows of a key", 1, KEY_MAX, 0, run_inspect },
	{ "trace", KEY, "show what happens to a key, as it happens", 1, KEY_MAX, 0, run_trace },
	{ "hello", "", "show the daemon's name, version and methods", 0, 0, 0, run_plain },
	{ "ping", "", "ask whether it answers", 0, 0, 0, run_plain },
	{ "stats", "[KEYSPACE]", "show counters and gauges, of all or of one keyspace", 0, 1, 0,
	  run_stats },
	{ "keyspaces", "", "show the keyspaces and how each stands", 0, 0, 0, run_plain },
	{ "top", "[COUNT]", "show what goes on, again and again", 0, 1, 0, run_top },
	{ "warm status", "[JOB]", "show how a warm-up stands, or all that run", 0, 1, 0,
	  run_warm_status },
	{ "warm cancel", "JOB", "end a warm-up", 1, 1, 0, run_warm_cancel },
	{ "warm", "PLAN | KEY...", "have keys built before they are asked for", 1,
	  WIRE_MGET_KEYS_MAX, 0, run_warm },
	{ "reload", "", "have the configuration read anew", 0, 0, 0, run_plain },
	{ "log", "[LEVEL [KEYSPACE]]", "show what is logged, or change it until the next reload", 0,
	  2, 0, run_log },
	{ "doctor", "", "look for what is wrong, and say how to mend it", 0, 0, 0, run_doctor },
	{ "bench", KEY, "load one key, and show how quickly it is answered", 1, KEY_MAX,
	  OPTION_IN(GET), run_bench },
	{ "drill", "KEYSPACE [KEY...]",
	  "let keys expire under load, and judge whether the fleet keeps its promises", 1,
	  1 + DRILL_KEYS_MAX, OPTION_IN(GET), run_drill },
	{ "estimate", "[KEYSPACE]", "how many builds at once the loss of values makes", 0, 1, 0,
	  run_estimate },
};
const int commands_count = sizeof(commands) / sizeof(commands[0]);
