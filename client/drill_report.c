/* What a drill shows: its plan before, a table and the verdict after; or all of it as JSON. */
#include <inttypes.h>
#include <string.h>

#include "client/drill.h"

static const double percents[] = { 50, 99, 99.9 };
enum { PERCENTS = sizeof(percents) / sizeof(percents[0]) };

static void put_plain(FILE *out, const char *text)
{
	ctl_put_text(out, (struct wire_span){ text, strlen(text) });
}

void drill_show_plan(const struct drill *drill)
{
	static const char *const texts[] = {
#define X(NAME, name, text) text,
		DRILL_SCENE_MAP(X)
#undef X
	};
	const struct drill_plan *plan = &drill->plan;
	const struct drill_facts *facts = &drill->facts;
	FILE *out = stderr;

	fprintf(out, "%.4g requests a second for %u key%s (", plan->rate_per_s, plan->keys_count,
		plan->keys_count == 1 ? "" : "s");
	put_plain(out, plan->keys[0]);
	fprintf(out, "%s) by %d daemon%s, on %u connections each, of a fleet of %.0f\n",
		plan->keys_count > 1 ? ", ..." : "", drill->ctl->sockets_count,
		drill->ctl->sockets_count == 1 ? "" : "s", plan->connections, facts->fleet);
	for (uint32_t i = 0; i < plan->scenes_count; i++)
		fprintf(out, "  %-7s %.1f s  %s%s%s\n", drill_scene_name(plan->scenes[i]),
			(double)plan->scene_us / 1e6, texts[plan->scenes[i]],
			plan->scenes[i] == SCENE_ABSENT && plan->no_absent ? "; not played: " : "",
			plan->scenes[i] == SCENE_ABSENT && plan->no_absent ? plan->no_absent : "");
	fprintf(out,
		"%" PRId64 " builds, of a budget of %.4g/s; it stops after %" PRId64
		" of the keyspace\nothers ask for the keyspace %.4g times a second now, with %.4g "
		"builds\n",
		plan->builds_planned, facts->budget_per_s, plan->builds_max, facts->gets_per_s,
		facts->builds_per_s);
}

/* ---- for people ---------------------------------------------------------------------------- */

static void put_share(FILE *out, uint64_t part, uint64_t whole)
{
	if (part == 0)
		fprintf(out, " %8s", "-");
	else
		fprintf(out, " %7.2f%%", 100 * (double)part / (double)whole);
}

static uint64_t refused(const struct judge_tally *tally)
{
	uint64_t sum = 0;

	for (int i = 0; i < JUDGE_STATUSES; i++)
		sum += tally->errors[i];
	return sum;
}

static void put_row(FILE *out, const struct drill_result *result)
{
	const struct judge_tally *tally = &result->tally;
	char builds[48] = "?";

	if (result->whole && result->exact)
		snprintf(builds, sizeof(builds), "%" PRId64 " of %" PRId64, result->builds,
			 result->builds_allowed);
	else if (result->whole)
		snprintf(builds, sizeof(builds), "%" PRIu64 "+ of %" PRId64, tally->builds_seen,
			 result->builds_allowed);
	fprintf(out, "%-7s %7" PRIu64, tally->name, tally->asked);
	for (int i = 0; i < JUDGE_STATES; i++)
		put_share(out, tally->states[i], tally->answered);
	put_share(out, refused(tally), tally->answered);
	fprintf(out, " %10s", builds);
	for (int i = 0; i < PERCENTS; i++)
		fprintf(out, " %8.1f",
			(double)histogram_percentile(&tally->latencies, percents[i]) / 1e6);
	fprintf(out, " %8.1f %8" PRId64 "\n", (double)tally->latencies.max_ns / 1e6,
		tally->oldest_ms);
}

static void put_reasons(FILE *out, const struct drill_result *result)
{
	const struct judge_tally *tally = &result->tally;
	const char *comma = "";

	for (int i = SEGAR_REASON_NONE + 1; i < JUDGE_REASONS; i++) {
		if (tally->reasons[i] == 0)
			continue;
		fprintf(out, "%s%s %" PRIu64, *comma ? comma : "        reasons: ",
			segar_reason_name((enum segar_reason)i), tally->reasons[i]);
		comma = ", ";
	}
	for (int i = 1; i < JUDGE_STATUSES; i++) {
		if (tally->errors[i] == 0)
			continue;
		fprintf(out, "%serror %s %" PRIu64, *comma ? comma : "        ",
			segar_status_name(i), tally->errors[i]);
		comma = ", ";
	}
	if (*comma)
		fputc('\n', out);
}

static bool all_exact(const struct drill *drill)
{
	for (uint32_t i = 0; i < drill->results_count; i++)
		if (!drill->results[i].exact)
			return false;
	return true;
}

static void put_promise(FILE *out, const struct drill *drill, enum drill_promise promise)
{
	const struct judge_breach *breach = &drill->judge.breaches[promise];

	fprintf(out, "%-10s %-6s  %s\n", drill_promise_name(promise),
		breach->count > 0 ? "BROKEN" : "kept", drill_promise_text(promise));
	if (breach->count == 0)
		return;
	fprintf(out, "    %" PRIu64 " time%s, first: ", breach->count,
		breach->count == 1 ? "" : "s");
	put_plain(out, breach->first);
	fputc('\n', out);
}

static void put_text(FILE *out, const struct drill *drill)
{
	fprintf(out,
		"scene     asked    fresh    stale  default   absent  refused     builds   p50 ms "
		"  p99 ms p99.9 ms   max ms   oldest\n");
	for (uint32_t i = 0; i < drill->results_count; i++) {
		put_row(out, &drill->results[i]);
		put_reasons(out, &drill->results[i]);
	}
	fprintf(out,
		"\nbuilds of the keyspace %" PRId64 ", %" PRId64
		" of them to begin with; at most %" PRId64
		" a second over all keyspaces, of %.4g, and %" PRId64
		" at once, of %.0f, as far as counters show\n",
		drill->builds, drill->begin_builds, drill->watch.most_in_a_second,
		drill->facts.budget_per_s, drill->watch.most_at_once, drill->facts.concurrency);
	if (!all_exact(drill))
		fputs("others asked for the keyspace, or other daemons did not tell: builds are "
		      "what "
		      "clients saw of them, at least\n",
		      out);
	fprintf(out, "segarctl itself came late by %.1f ms at most\n\n",
		(double)drill->load.noise_us / 1e3);
	for (int i = 0; i < DRILL_PROMISES; i++)
		put_promise(out, drill, (enum drill_promise)i);
	if (drill->end != DRILL_WHOLE) {
		fputs("\nnot whole: ", out);
		put_plain(out, drill->why);
		fputc('\n', out);
	}
}

/* ---- for programs -------------------------------------------------------------------------- */

static void put_counts(FILE *out, const char *name, const uint64_t *counts, int from, int count,
		       const char *(*name_of)(int))
{
	const char *comma = "";

	fprintf(out, ", \"%s\": {", name);
	for (int i = from; i < count; i++) {
		if (counts[i] == 0)
			continue;
		fprintf(out, "%s\"%s\": %" PRIu64, comma, name_of(i), counts[i]);
		comma = ", ";
	}
	fputc('}', out);
}

static const char *state_name(int state)
{
	return segar_state_name((enum segar_state)state);
}

static const char *reason_name(int reason)
{
	return segar_reason_name((enum segar_reason)reason);
}

static void put_json_scene(FILE *out, const struct drill_result *result)
{
	const struct judge_tally *tally = &result->tally;

	fprintf(out,
		"{\"scene\": \"%s\", \"whole\": %s, \"asked\": %" PRIu64 ", \"answered\": %" PRIu64,
		tally->name, result->whole ? "true" : "false", tally->asked, tally->answered);
	put_counts(out, "states", tally->states, 0, JUDGE_STATES, state_name);
	put_counts(out, "reasons", tally->reasons, 1, JUDGE_REASONS, reason_name);
	put_counts(out, "errors", tally->errors, 1, JUDGE_STATUSES, segar_status_name);
	fprintf(out,
		", \"builds\": %" PRId64 ", \"builds_seen\": %" PRIu64
		", \"builds_allowed\": %" PRId64 ", \"exact\": %s, \"leases\": %" PRId64,
		result->builds, tally->builds_seen, result->builds_allowed,
		result->exact ? "true" : "false", result->counts.leases_acquired);
	for (int i = 0; i < PERCENTS; i++)
		fprintf(out, ", \"p%g_ms\": %.3f", percents[i],
			(double)histogram_percentile(&tally->latencies, percents[i]) / 1e6);
	fprintf(out, ", \"max_ms\": %.3f, \"longest_ms\": %.3f, \"oldest_ms\": %" PRId64 "}",
		(double)tally->latencies.max_ns / 1e6, (double)tally->longest_us / 1e3,
		tally->oldest_ms);
}

static void put_json(FILE *out, const struct drill *drill)
{
	static const char *const ends[] = { [DRILL_WHOLE] = "whole",
					    [DRILL_STOPPED] = "stopped",
					    [DRILL_INTERRUPTED] = "interrupted" };
	const struct drill_plan *plan = &drill->plan;

	fputs("{\"keyspace\": ", out);
	ctl_put_json_text(out, plan->keyspace);
	fputs(", \"keys\": [", out);
	for (uint32_t i = 0; i < plan->keys_count; i++) {
		fputs(i > 0 ? ", " : "", out);
		ctl_put_json_text(out, plan->keys[i]);
	}
	fprintf(out, "], \"daemons\": %d, \"fleet\": %.0f, \"rate_per_s\": %.6g, \"scenes\": [",
		drill->ctl->sockets_count, drill->facts.fleet, plan->rate_per_s);
	for (uint32_t i = 0; i < drill->results_count; i++) {
		fputs(i > 0 ? ", " : "", out);
		put_json_scene(out, &drill->results[i]);
	}
	fprintf(out,
		"], \"builds\": %" PRId64 ", \"begin_builds\": %" PRId64
		", \"most_in_a_second\": %" PRId64
		", \"budget_per_s\": %.6g, \"most_at_once\": %" PRId64
		", \"noise_ms\": %.3f, \"promises\": {",
		drill->builds, drill->begin_builds, drill->watch.most_in_a_second,
		drill->facts.budget_per_s, drill->watch.most_at_once,
		(double)drill->load.noise_us / 1e3);
	for (int i = 0; i < DRILL_PROMISES; i++) {
		const struct judge_breach *breach = &drill->judge.breaches[i];

		fprintf(out, "%s\"%s\": {\"broken\": %" PRIu64 ", \"first\": ", i > 0 ? ", " : "",
			drill_promise_name((enum drill_promise)i), breach->count);
		if (breach->count > 0)
			ctl_put_json_text(out, breach->first);
		else
			fputs("null", out);
		fputc('}', out);
	}
	fprintf(out, "}, \"kept\": %s, \"end\": \"%s\", \"why\": ",
		judge_found(&drill->judge) ? "false" : "true", ends[drill->end]);
	if (drill->end == DRILL_WHOLE)
		fputs("null", out);
	else
		ctl_put_json_text(out, drill->why);
	fputs("}\n", out);
}

enum ctl_exit drill_report(const struct drill *drill)
{
	(drill->ctl->json ? put_json : put_text)(stdout, drill);
	return judge_found(&drill->judge)  ? CTL_NOT_KEPT
	       : drill->end == DRILL_WHOLE ? CTL_VALUE
					   : CTL_ERROR;
}
