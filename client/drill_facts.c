/* What daemons say before a drill begins: of the keyspace, of the fleet, and of others' use of
 * both.
 */
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>

#include "client/ctl_find.h"
#include "client/drill.h"
#include "proto/reader.h"

enum { LOOK_MS = 500 }; /* how long others are watched */

enum ctl_exit drill_refuse(enum ctl_exit exit_code, const char *format, ...)
{
	va_list args;

	fputs("segarctl: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return exit_code;
}

segar_reply *drill_call(const struct drill *drill, segar *c, const char *method, const char *param,
			int64_t number, enum ctl_exit *ret_exit)
{
	struct wire_buf params;
	segar_reply *reply;

	wire_buf_init(&params, WIRE_REQUEST_MAX);
	if (param)
		wire_buf_str(&params, param);
	else if (number > 0)
		wire_buf_int(&params, number);
	reply = segar_call(c, method, params.data, params.len, param || number > 0,
			   &drill->ctl->options);
	wire_buf_close(&params);
	*ret_exit = ctl_exit_of(reply->status);
	if (*ret_exit == CTL_VALUE)
		return reply;
	ctl_print_error(stdout, drill->ctl, reply->status, reply->error, reply->retry_after_ms);
	segar_reply_free(reply);
	return NULL;
}

struct search {
	const char *name;
	struct wire_span found;
};

static void find_keyspace(struct search *search, struct wire_span keyspaces)
{
	struct wire_span item;
	struct reader r;
	uint32_t count;

	reader_init(&r, keyspaces.data, keyspaces.len);
	if (!reader_array(&r, &count))
		return;
	while (count-- > 0 && reader_skip(&r, &item))
		if (wire_span_is(ctl_text(item, "name"), search->name))
			search->found = item;
}

static bool is_true(struct wire_span map, const char *name)
{
	const struct wire_span at = ctl_find(map, name);
	struct mp_value value;
	struct reader r;

	reader_init(&r, at.data, at.len);
	return reader_next(&r, &value) && value.type == MP_BOOL && value.boolean;
}

static enum ctl_exit take_keyspace(const struct drill *drill, const char *socket,
				   struct wire_span keyspaces, struct judge_policy *ret_policy)
{
	struct search search = { .name = drill->plan.keyspace };

	find_keyspace(&search, keyspaces);
	if (!search.found.data)
		return drill_refuse(CTL_ERROR, "%s: there is no keyspace %s", socket,
				    drill->plan.keyspace);
	if (!wire_span_is(ctl_text(search.found, "state"), "serving")) {
		fprintf(stderr, "segarctl: %s: %s is not served: ", socket, drill->plan.keyspace);
		ctl_put_text(stderr, ctl_text(search.found, "error"));
		fputc('\n', stderr);
		return CTL_ERROR;
	}
	if (is_true(search.found, "superseded"))
		return drill_refuse(
			CTL_ERROR,
			"%s: another daemon has a later query of %s: reload this one first", socket,
			drill->plan.keyspace);
	ret_policy->single_row = is_true(search.found, "single_row");
	ret_policy->fresh_ms = (int64_t)ctl_number(search.found, "fresh_ms");
	ret_policy->stale_ms = (int64_t)ctl_number(search.found, "stale_ms");
	ret_policy->negative_ms = (int64_t)ctl_number(search.found, "negative_ms");
	ret_policy->wait_ms = (int64_t)ctl_number(search.found, "wait_ms");
	return CTL_VALUE;
}

/* Replies of one daemon. */
struct word {
	segar_reply *keyspaces, *all, *keyspace;
};

static enum ctl_exit ask_daemon(const struct drill *drill, segar *c, struct word *ret_word)
{
	enum ctl_exit exit_code;

	*ret_word = (struct word){ 0 };
	ret_word->keyspaces = drill_call(drill, c, "keyspaces", NULL, 0, &exit_code);
	if (ret_word->keyspaces)
		ret_word->all = drill_call(drill, c, "stats", NULL, 0, &exit_code);
	if (ret_word->all)
		ret_word->keyspace =
			drill_call(drill, c, "stats", drill->plan.keyspace, 0, &exit_code);
	return exit_code;
}

static void word_free(struct word *word)
{
	segar_reply_free(word->keyspaces);
	segar_reply_free(word->all);
	segar_reply_free(word->keyspace);
}

static bool is_same_policy(const struct judge_policy *a, const struct judge_policy *b)
{
	return a->single_row == b->single_row && a->fresh_ms == b->fresh_ms &&
	       a->stale_ms == b->stale_ms && a->negative_ms == b->negative_ms &&
	       a->wait_ms == b->wait_ms && a->jitter == b->jitter;
}

static enum ctl_exit check_store(const struct drill *drill, uint32_t at, struct wire_span all,
				 double *places)
{
	const char *socket = drill->ctl->sockets[at];

	if (!ctl_find(all, "store_up").data)
		return drill->ctl->sockets_count == 1
			       ? CTL_VALUE
			       : drill_refuse(
					 CTL_USAGE,
					 "%s: this daemon stands alone (store: none): drill it by "
					 "itself",
					 socket);
	places[at] = ctl_number(all, "store_place");
	for (uint32_t i = 0; i < at; i++)
		if (places[i] >= 0 && places[i] == places[at])
			return drill_refuse(CTL_USAGE, "%s and %s are the same daemon",
					    drill->ctl->sockets[i], socket);
	if (ctl_number(all, "store_up") == 0 || ctl_number(all, "store_alone") != 0)
		return drill_refuse(CTL_ERROR,
				    "%s: its store is out of reach: segarctl doctor tells more",
				    socket);
	return CTL_VALUE;
}

/* Takes the word of the daemon of that number. */
static enum ctl_exit take_word(struct drill *drill, uint32_t at, const struct word *word,
			       double *places)
{
	const struct wire_span all = ctl_encoded(word->all), own = ctl_encoded(word->keyspace);
	struct drill_facts *facts = &drill->facts;
	struct judge_policy policy = { .max_age_ms = -1 };
	enum ctl_exit exit_code = take_keyspace(drill, drill->ctl->sockets[at],
						ctl_encoded(word->keyspaces), &policy);

	if (exit_code == CTL_VALUE)
		exit_code = check_store(drill, at, all, places);
	if (exit_code != CTL_VALUE)
		return exit_code;
	policy.jitter = ctl_number(own, "jitter");
	if (at > 0 && !is_same_policy(&policy, &facts->policy))
		return drill_refuse(CTL_USAGE, "%s has another policy for %s than %s",
				    drill->ctl->sockets[at], drill->plan.keyspace,
				    drill->ctl->sockets[0]);
	facts->policy = policy;
	facts->budget_per_s = ctl_number(all, "origin_budget_per_min") / 60;
	facts->concurrency = ctl_number(all, "origin_concurrency");
	facts->fleet = ctl_number(all, "origin_fleet");
	facts->build_us = fmax(facts->build_us, ctl_number(own, "refresh_us"));
	watch_take_all(&drill->watch, at, all);
	watch_take_keyspace(&drill->watch, at, own);
	return CTL_VALUE;
}

/* Asks all daemons. */
static enum ctl_exit look(struct drill *drill)
{
	double places[LOAD_SOCKETS_MAX];
	enum ctl_exit exit_code = CTL_VALUE;

	for (int i = 0; i < drill->ctl->sockets_count; i++)
		places[i] = -1;
	for (int i = 0; exit_code == CTL_VALUE && i < drill->ctl->sockets_count; i++) {
		segar *c = segar_open(drill->ctl->sockets[i]);
		struct word word;

		if (!c)
			return drill_refuse(CTL_USAGE, "%s: no socket has so long a path",
					    drill->ctl->sockets[i]);
		segar_set_attempts(c, 1);
		exit_code = ask_daemon(drill, c, &word);
		if (exit_code == CTL_VALUE)
			exit_code = take_word(drill, (uint32_t)i, &word, places);
		word_free(&word);
		segar_close(c);
	}
	return exit_code;
}

static int64_t all_builds(const struct watch *watch)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < watch->daemons; i++)
		sum += watch->seen[i].all_builds;
	return sum;
}

/* Twice, so that others' use of keyspace and budget shows. */
enum ctl_exit drill_look_at_others(struct drill *drill)
{
	struct drill_facts *facts = &drill->facts;
	enum ctl_exit exit_code = look(drill);
	const struct watch_counts before = watch_sum(&drill->watch);
	const int64_t builds = all_builds(&drill->watch), begun_us = load_now_us();

	if (exit_code == CTL_VALUE) {
		poll(NULL, 0, LOOK_MS);
		exit_code = look(drill);
	}
	if (exit_code != CTL_VALUE)
		return exit_code;
	const double seconds = (double)(load_now_us() - begun_us) / 1e6;

	drill->before = watch_sum(&drill->watch);
	const struct watch_counts since = watch_less(drill->before, before);

	facts->gets_per_s = (double)since.gets_total / seconds;
	facts->builds_per_s = (double)(since.builds - since.locks_held) / seconds;
	facts->all_builds_per_s = (double)(all_builds(&drill->watch) - builds) / seconds;
	/* Two in half a second are no rate. */
	if (facts->all_builds_per_s > 4 && facts->all_builds_per_s > facts->budget_per_s / 2)
		return drill_refuse(
			CTL_ERROR,
			"the fleet begins %.0f builds a second now, and its budget is %.4g: a "
			"drill needs half of it free",
			facts->all_builds_per_s, facts->budget_per_s);
	return CTL_VALUE;
}
