#include "client/ctl_estimate.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/ctl.h"
#include "client/quantity.h"
#include "proto/reader.h"

/* ---- options ----------------------------------------------------------------------------- */

/* What a value is, and what people are told that it must be. */
enum kind { RATE, DURATION, WATCH, COUNT, PERCENT };
static const char *const kinds[] = {
	[RATE] = "a rate such as 1500/s or 90/m",
	[DURATION] = "a duration such as 400ms, 30s or 10m",
	[WATCH] = "a duration from 1ms to 1h",
	[COUNT] = "a whole number from 1 on",
	[PERCENT] = "a percentage from 0% to 100%",
};

/* X(NAME, name, arg, kind, default, field, what it says) */
#define ESTIMATE_OPTION_MAP(X)                                                                     \
	X(RATE, "rate", "N/s", RATE, 0, plan.rate_per_s, "requests in all, over all hosts")        \
	X(BUILD, "build", "TIME", DURATION, 0, plan.build_s, "how long a build takes")             \
	X(FRESH, "fresh", "TIME", DURATION, 0, plan.fresh_s, "how long a value is fresh")          \
	X(STALE, "stale", "TIME", DURATION, 0, plan.stale_s, "and then may be served stale (0s)")  \
	X(JITTER, "jitter", "P%", PERCENT, 0.1, plan.jitter, "how the fresh time varies (10%)")    \
	X(KEYS, "keys", "N", COUNT, 1, plan.keys, "keys that are asked for (1)")                   \
	X(HOSTS, "hosts", "N", COUNT, 1, plan.hosts, "hosts (1)")                                  \
	X(PROCESSES, "processes", "N", COUNT, 1, plan.processes,                                   \
	  "processes of each host that ask, or connections (1)")                                   \
	X(BUDGET, "budget", "N/s", RATE, 0, plan.budget_per_s,                                     \
	  "builds that the origin may begin, over all hosts")                                      \
	X(POOL, "pool", "N", COUNT, 0, plan.concurrency, "builds that the origin may run at once") \
	X(WATCH, "watch", "TIME", WATCH, 2, watch_s, "how long to watch the keyspace (2s)")

enum {
#define X(NAME, name, arg, kind, otherwise, field, text) OPTION_##NAME,
	ESTIMATE_OPTION_MAP(X)
#undef X
};
static const struct field {
	enum kind kind;
	double otherwise;
	size_t offset;
} fields[] = {
#define X(NAME, name, arg, kind, otherwise, field, text)                                           \
	{ kind, otherwise, offsetof(struct estimate_line, field) },
	ESTIMATE_OPTION_MAP(X)
#undef X
};
const struct estimate_option estimate_options[] = {
#define X(NAME, name, arg, kind, otherwise, field, text) { name, arg, text },
	ESTIMATE_OPTION_MAP(X)
#undef X
};
const int estimate_options_count = sizeof(fields) / sizeof(fields[0]);

static double *at(struct estimate_line *line, int option)
{
	return (double *)((char *)line + fields[option].offset);
}

const char *estimate_take(struct estimate_line *line, int option, const char *text)
{
	static const struct {
		enum quantity quantity;
		double least, most;
	} ranges[] = {
		[RATE] = { QUANTITY_RATE, 1e-9, 1e9 },
		[DURATION] = { QUANTITY_DURATION, 0, 3650.0 * 86400 },
		[WATCH] = { QUANTITY_DURATION, 0.001, 3600 },
		[COUNT] = { QUANTITY_COUNT, 1, 1e12 },
		[PERCENT] = { QUANTITY_PERCENT, 0, 1 },
	};
	const enum kind kind = fields[option].kind;

	if (!quantity_read(ranges[kind].quantity, text, ranges[kind].least, ranges[kind].most,
			   at(line, option)))
		return kinds[kind];
	line->given |= 1u << option;
	return NULL;
}

/* ---- a live keyspace ---------------------------------------------------------------------- */

/* The number of that name in the map, or `otherwise`. */
static double number_in(struct wire_span encoded, const char *name, double otherwise)
{
	struct wire_span key, skipped;
	struct mp_value value;
	struct reader r;
	uint32_t pairs;

	reader_init(&r, encoded.data, encoded.len);
	if (!reader_map(&r, &pairs))
		return otherwise;
	while (pairs-- > 0) {
		if (!reader_text(&r, &key) || !reader_peek(&r, &value) ||
		    !reader_skip(&r, &skipped))
			return otherwise;
		if (!wire_span_is(key, name))
			continue;
		if (value.type == MP_INT)
			return (double)value.number;
		return value.type == MP_FLOAT ? value.real : otherwise;
	}
	return otherwise;
}

/* `stats`, of a keyspace or, with NULL, of all. NULL, and the error shown, if there are none. */
static segar_reply *ask_stats(const struct ctl *ctl, const char *keyspace)
{
	segar_reply *reply;
	struct wire_buf params;

	wire_buf_init(&params, WIRE_REQUEST_MAX);
	if (keyspace)
		wire_buf_str(&params, keyspace);
	reply = segar_call(ctl->c, "stats", params.data, params.len, keyspace ? 1 : 0,
			   &ctl->options);
	wire_buf_close(&params);
	if (reply->status != SEGAR_OK)
		ctl_print_error(stdout, ctl, reply->status, reply->error, reply->retry_after_ms);
	return reply;
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void fill(struct estimate_line *line, int option, double number)
{
	if (!(line->given & 1u << option) && number > 0)
		*at(line, option) = number;
}

/* What the daemon knows of the keyspace and of the fleet, where the line does not say. */
static void fill_in(struct estimate_line *line, struct wire_span keyspace, struct wire_span daemon,
		    double rate_per_s)
{
	static const struct {
		int option;
		const char *name;
		bool of_daemon;
		double factor;
	} known[] = {
		{ OPTION_HOSTS, "origin_fleet", true, 1 },
		{ OPTION_BUDGET, "origin_budget_per_min", true, 1.0 / 60 },
		{ OPTION_POOL, "origin_concurrency", true, 1 },
		{ OPTION_FRESH, "fresh_ms", false, 0.001 },
		{ OPTION_STALE, "stale_ms", false, 0.001 },
		{ OPTION_KEYS, "near_entries", false, 1 },
		{ OPTION_BUILD, "refresh_us", false, 1e-6 },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		fill(line, known[i].option,
		     known[i].factor *
			     number_in(known[i].of_daemon ? daemon : keyspace, known[i].name, 0));
	if (!(line->given & 1u << OPTION_JITTER))
		line->plan.jitter = number_in(keyspace, "jitter", 0); /* 0 is one too */
	/* The one that asks does not count. */
	fill(line, OPTION_PROCESSES, number_in(daemon, "connections", 2) - 1);
	fill(line, OPTION_RATE, rate_per_s * line->plan.hosts);
}

static struct wire_span encoded_of(const segar_reply *reply)
{
	return (struct wire_span){ reply->encoded, reply->encoded_len };
}

static enum ctl_exit watch(struct ctl *ctl, const char *keyspace)
{
	segar_reply *before = ask_stats(ctl, keyspace), *after = NULL, *daemon = NULL;
	enum ctl_exit exit_code = ctl_exit_of(before->status);
	const double began_s = now_s();

	if (exit_code == CTL_VALUE) {
		poll(NULL, 0, (int)(ctl->estimate.watch_s * 1000));
		after = ask_stats(ctl, keyspace);
		exit_code = ctl_exit_of(after->status);
	}
	if (exit_code == CTL_VALUE) {
		daemon = ask_stats(ctl, NULL);
		exit_code = ctl_exit_of(daemon->status);
	}
	if (exit_code == CTL_VALUE) {
		const double gets = number_in(encoded_of(after), "gets_total", 0) -
				    number_in(encoded_of(before), "gets_total", 0);

		fill_in(&ctl->estimate, encoded_of(after), encoded_of(daemon),
			gets / (now_s() - began_s));
	}
	segar_reply_free(before);
	segar_reply_free(after);
	segar_reply_free(daemon);
	return exit_code;
}

/* ---- showing ------------------------------------------------------------------------------ */

/* A number of builds, keys or so, with its thousands apart: up to 999,999,999,999,999. */
static const char *count_text(double number, char ret_text[24])
{
	char digits[24];
	const int len = snprintf(digits, sizeof(digits), "%.0f", number);
	char *to = ret_text;

	for (int i = 0; i < len && to < ret_text + 22; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
	return ret_text;
}

/* Small ones need their decimals, great ones their commas. */
static const char *rate_text(double per_s, char ret_text[24])
{
	if (per_s >= 100)
		return count_text(per_s, ret_text);
	snprintf(ret_text, 24, "%.3g", per_s);
	return ret_text;
}

static void print_at_once(FILE *out, const struct estimate_plan *plan, const struct estimate *e)
{
	static const char *const names[] = { "without protection", "single-flight in each process",
					     "segar" };
	const double builds[] = { e->unprotected, e->single_flight, e->segar };
	char number[24];

	fprintf(out, "builds at once when what they build is lost\n");
	for (int i = 0; i < 3; i++) {
		fprintf(out, "  %-30s %15s", names[i], count_text(builds[i], number));
		if (plan->concurrency > 0)
			fprintf(out, "  %s the pool of %s",
				builds[i] <= plan->concurrency ? "within" : "over",
				count_text(plan->concurrency, number));
		if (i == 0 && plan->hosts * plan->processes > 1)
			fprintf(out, ", %s in each process",
				count_text(e->in_each_process, number));
		fputc('\n', out);
	}
}

/* A length of time: "800 ms", "30 s", "1,051 s". */
static const char *time_text(double seconds, char ret_text[32])
{
	char number[24];

	if (seconds < 1)
		snprintf(ret_text, 32, "%.3g ms", seconds * 1000);
	else
		snprintf(ret_text, 32, "%s s", rate_text(seconds, number));
	return ret_text;
}

static void print_expiry(FILE *out, const struct estimate_plan *plan, const struct estimate *e)
{
	char number[24], peak[24], at_once[24], time[32];

	fprintf(out, "keys that were built together and are all asked for expire\n");
	if (plan->keys > 1)
		fprintf(out, "  %-30s %15s  at once\n", "without jitter",
			count_text(e->expired_at_once, number));
	if (plan->keys > 1 && e->wave_s > 1)
		fprintf(out, "  %-30s %15s  a second, for %s; in the worst one about %s\n",
			"with jitter", rate_text(e->wave_per_s, number), time_text(e->wave_s, time),
			count_text(e->wave_peak_per_s, peak));
	fprintf(out, "  %-30s %15s  a second, %s builds at once", "in the long run",
		rate_text(e->steady_per_s, number), rate_text(e->steady_at_once, at_once));
	if (plan->concurrency > 0)
		fprintf(out, ", %s the pool", e->steady_fits ? "within" : "over");
	fputc('\n', out);
}

static void print_budget(FILE *out, const struct estimate_plan *plan, const struct estimate *e)
{
	char number[24], drain[32], needed[32], stale[32];

	fprintf(out, "segar begins at most %s builds a second\n",
		rate_text(e->rate_limit_per_s, number));
	fprintf(out, "  %-30s %s\n", "in the long run",
		e->budget_holds ? "enough" : "too few: not all of these keys can be kept fresh");
	fprintf(out, "  %-30s %s; nobody waits if stale is %s, and it is %s\n",
		"all keys are built anew in", time_text(e->drain_s, drain),
		time_text(e->stale_needed_s, needed), time_text(plan->stale_s, stale));
}

static void print_plan(FILE *out, const struct estimate_plan *plan)
{
	char rate[24], keys[24], build[32], hosts[24], processes[24];

	fprintf(out, "%s requests a second for %s key%s, builds of %s, %s host%s of %s process%s\n",
		rate_text(plan->rate_per_s, rate), count_text(plan->keys, keys),
		plan->keys == 1 ? "" : "s", time_text(plan->build_s, build),
		count_text(plan->hosts, hosts), plan->hosts == 1 ? "" : "s",
		count_text(plan->processes, processes), plan->processes == 1 ? "" : "es");
}

static void print_text(FILE *out, const struct estimate_plan *plan, const struct estimate *e)
{
	print_plan(out, plan);
	print_at_once(out, plan, e);
	if (plan->fresh_s > 0)
		print_expiry(out, plan, e);
	if (plan->fresh_s > 0 && plan->budget_per_s > 0)
		print_budget(out, plan, e);
}

static void print_json(FILE *out, const struct estimate_plan *plan, const struct estimate *e)
{
	fprintf(out, "{\"rate_per_s\": %.6g, \"build_ms\": %.6g, \"keys\": %.0f, \"hosts\": %.0f",
		plan->rate_per_s, plan->build_s * 1000, plan->keys, plan->hosts);
	fprintf(out, ", \"processes\": %.0f, \"at_once\": {\"unprotected\": %.0f", plan->processes,
		e->unprotected);
	fprintf(out, ", \"in_each_process\": %.0f, \"single_flight\": %.0f, \"segar\": %.0f}",
		e->in_each_process, e->single_flight, e->segar);
	if (plan->concurrency > 0)
		fprintf(out,
			", \"pool\": %.0f, \"fits\": {\"unprotected\": %s, \"single_flight\": %s}",
			plan->concurrency, e->unprotected_fits ? "true" : "false",
			e->single_flight_fits ? "true" : "false");
	if (plan->fresh_s > 0)
		fprintf(out,
			", \"wave\": {\"begins_s\": %.6g, \"seconds\": %.6g, \"per_s\": %.6g"
			", \"peak_per_s\": %.6g}, \"steady_per_s\": %.6g, \"steady_at_once\": %.6g",
			e->wave_begins_s, e->wave_s, e->wave_per_s, e->wave_peak_per_s,
			e->steady_per_s, e->steady_at_once);
	if (plan->fresh_s > 0 && plan->budget_per_s > 0)
		fprintf(out,
			", \"limit_per_s\": %.6g, \"drain_s\": %.6g, \"stale_needed_s\": %.6g"
			", \"budget_holds\": %s, \"wave_holds\": %s",
			e->rate_limit_per_s, e->drain_s, e->stale_needed_s,
			e->budget_holds ? "true" : "false", e->wave_holds ? "true" : "false");
	fputs("}\n", out);
}

static enum ctl_exit refuse(const char *why)
{
	fprintf(stderr, "segarctl: %s\n", why);
	return CTL_USAGE;
}

enum ctl_exit ctl_estimate(struct ctl *ctl, const char *keyspace)
{
	struct estimate_line *line = &ctl->estimate;
	struct estimate e;

	for (int option = 0; option < estimate_options_count; option++)
		if (!(line->given & 1u << option))
			*at(line, option) = fields[option].otherwise;
	if (keyspace) {
		const enum ctl_exit exit_code = watch(ctl, keyspace);

		if (exit_code != CTL_VALUE)
			return exit_code;
		if (line->plan.rate_per_s <= 0)
			return refuse("nobody asks for that keyspace now: say a --rate");
		if (line->plan.build_s <= 0)
			return refuse("nothing of that keyspace was built yet: say how long by "
				      "--build");
	} else if (line->given & 1u << OPTION_WATCH) {
		return refuse("--watch is for a keyspace: estimate KEYSPACE");
	}
	if (line->plan.rate_per_s <= 0 || line->plan.build_s <= 0)
		return refuse("estimate needs --rate and --build, or a keyspace to watch");
	estimate_make(&line->plan, &e);
	(ctl->json ? print_json : print_text)(stdout, &line->plan, &e);
	return CTL_VALUE;
}
