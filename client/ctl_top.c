/* segarctl top: what goes on in the daemon, as two looks at its counters tell. */
#include "client/ctl_top.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/ctl.h"
#include "client/ctl_find.h"
#include "client/ctl_screen.h"
#include "proto/reader.h"

enum {
	KEYSPACES_MOST = 1024, /* of a daemon */
	KEYS_SHOWN = 10,       /* if the command line does not say */
	INTERVAL_MS = 2000,    /* between two looks of the screen */
	ONCE_MS = 1000,        /* and of --once */
	BAR = 20,              /* characters */
	ROWS_FIXED = 10,       /* of a screen: all but the lists' items */
	NAME_MOST = 32,
};

/* The counters of a keyspace that is looked at. */
#define COLUMN_MAP(X)                                                                              \
	X(gets)                                                                                    \
	X(near)                                                                                    \
	X(store)                                                                                   \
	X(origin)                                                                                  \
	X(stale)                                                                                   \
	X(errors)                                                                                  \
	X(builds)                                                                                  \
	X(build_us)                                                                                \
	X(stale_us)                                                                                \
	X(waiting)                                                                                 \
	X(near_entries)

struct look_keyspace {
	struct wire_span name;
	int64_t asked; /* since the look before; for sort_keyspaces() */
#define X(name) int64_t name;
	COLUMN_MAP(X)
#undef X
};

/* One look: the replies, and what they say of the keyspaces. */
struct look {
	segar_reply *top, *stats;
	int64_t at_us;
	struct look_keyspace keyspaces[KEYSPACES_MOST];
	uint32_t count;
};

static int64_t now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- reading ------------------------------------------------------------------------------- */

static void take_keyspace(void *arg, struct wire_span item)
{
	struct look *look = arg;
	if (look->count == KEYSPACES_MOST)
		return;
	struct look_keyspace *keyspace = &look->keyspaces[look->count++];
	keyspace->name = ctl_text(item, "name");
#define X(name) keyspace->name = (int64_t)ctl_number(item, #name);
	COLUMN_MAP(X)
#undef X
}

static void look_close(struct look *look)
{
	segar_reply_free(look->top);
	segar_reply_free(look->stats);
	*look = (struct look){ 0 };
}

/* The first error of it that must be shown, or NULL. */
static const segar_reply *look_take(struct ctl *ctl, uint32_t keys, struct look *ret_look)
{
	struct wire_buf params;
	wire_buf_init(&params, WIRE_REQUEST_MAX);
	wire_buf_int(&params, keys);
	*ret_look = (struct look){ 0 };
	ret_look->top = segar_call(ctl->c, "top", params.data, params.len, 1, &ctl->options);
	wire_buf_close(&params);
	if (ret_look->top->status != SEGAR_OK)
		return ret_look->top;
	/* Who may not ask for all numbers sees those of `top`. */
	ret_look->stats = segar_call(ctl->c, "stats", NULL, 0, 0, &ctl->options);
	ret_look->at_us = now_us();
	ctl_each(ctl_encoded(ret_look->top), "keyspaces", take_keyspace, ret_look);
	return NULL;
}

static const struct look_keyspace *find_keyspace(const struct look *look, struct wire_span name)
{
	for (uint32_t i = 0; i < look->count; i++)
		if (look->keyspaces[i].name.len == name.len &&
		    memcmp(look->keyspaces[i].name.data, name.data, name.len) == 0)
			return &look->keyspaces[i];
	return NULL;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void put_time(FILE *out, int width, double us)
{
	if (us <= 0)
		fprintf(out, "%*s", width, "-");
	else if (us < 1e4)
		fprintf(out, "%*.1fms", width - 2, us / 1e3);
	else if (us < 1e6)
		fprintf(out, "%*.0fms", width - 2, us / 1e3);
	else
		fprintf(out, "%*.1fs", width - 1, us / 1e6);
}

static void put_share(FILE *out, int width, double part, double whole)
{
	if (whole > 0)
		fprintf(out, "%*.1f%%", width - 1, 100 * part / whole);
	else
		fprintf(out, "%*s", width, "-");
}

/* What has been counted between the two looks, a second. A daemon that was started anew counts from
 * 0: then nothing is known. */
static double per_second(int64_t before, int64_t now, double seconds)
{
	return now >= before ? (double)(now - before) / seconds : 0;
}

static void put_keyspace(FILE *out, const struct look_keyspace *now,
			 const struct look_keyspace *before, double seconds)
{
	static const struct look_keyspace none;
	before = before ? before : now;
	if (now->gets < before->gets)
		before = &none;
	double gets = (double)(now->gets - before->gets);
	ctl_put_text(out, now->name);
	fprintf(out, "%*s %9.1f ", now->name.len < NAME_MOST ? (int)(NAME_MOST - now->name.len) : 0,
		"", gets / seconds);
	put_share(out, 7, (double)(now->near - before->near), gets);
	put_share(out, 7, (double)(now->store - before->store), gets);
	put_share(out, 7, (double)(now->origin - before->origin), gets);
	put_share(out, 7, (double)(now->stale - before->stale), gets);
	put_share(out, 7, (double)(now->errors - before->errors), gets);
	fprintf(out, " %8.1f ", per_second(before->builds, now->builds, seconds));
	put_time(out, 8, (double)now->build_us);
	put_time(out, 9, (double)now->stale_us);
	fprintf(out, " %7" PRId64 " %8" PRId64 "\n", now->waiting, now->near_entries);
}

/* The origin's budget, and how much of it this daemon takes. */
static void put_head(FILE *out, const struct look *before, const struct look *now, double seconds)
{
	struct wire_span stats = ctl_encoded(now->stats), earlier = ctl_encoded(before->stats);
	double budget = ctl_number(stats, "origin_budget_per_min") / 60;
	double gets = 0;
	for (uint32_t i = 0; i < now->count; i++) {
		const struct look_keyspace *was = find_keyspace(before, now->keyspaces[i].name);
		gets += was ? per_second(was->gets, now->keyspaces[i].gets, seconds) : 0;
	}
	fprintf(out, "gets %.1f/s, %.0f connections, %.0f requests waiting, near cache %.1f MiB\n",
		gets, ctl_number(stats, "connections"), ctl_number(stats, "waiters"),
		ctl_number(stats, "near_bytes") / (1024 * 1024));
	if (budget <= 0)
		return;
	double builds = per_second((int64_t)ctl_number(earlier, "builds"),
				   (int64_t)ctl_number(stats, "builds"), seconds);
	int full = builds >= budget ? BAR : (int)(BAR * builds / budget + 0.5);
	fprintf(out, "builds [");
	for (int i = 0; i < BAR; i++)
		fputc(i < full ? '#' : '.', out);
	fprintf(out, "] %.1f/s here, of %.1f/s for the fleet of %.0f; %.0f run, %.0f queued\n",
		builds, budget, ctl_number(stats, "origin_fleet"), ctl_number(stats, "permits"),
		ctl_number(stats, "queued"));
}

struct key_list {
	FILE *out;
	uint32_t left; /* so many more are shown */
};

static void put_key(void *arg, struct wire_span item)
{
	struct key_list *list = arg;
	FILE *out = list->out;
	if (list->left == 0)
		return;
	list->left--;
	struct wire_span near = ctl_text(item, "near");
	fprintf(out, "%9.1f ", ctl_number(item, "rate"));
	put_time(out, 8, ctl_number(item, "build_us"));
	fprintf(out, " %8.2f  %-6.*s ", ctl_number(item, "load"), near.len > 0 ? (int)near.len : 1,
		near.len > 0 ? near.data : "-");
	put_time(out, 8, 1e3 * ctl_number(item, "age_ms"));
	fputs("  ", out);
	ctl_put_text(out, ctl_text(item, "key"));
	fputc('\n', out);
}

static void put_keys(FILE *out, const struct look *look, const char *title, const char *name,
		     uint32_t most)
{
	struct key_list list = { out, most };
	fprintf(out, "\n%s\n   gets/s    build     load  near        age  key\n", title);
	ctl_each(ctl_encoded(look->top), name, put_key, &list);
}

/* ---- what fits ----------------------------------------------------------------------------- */

static int compare_asked(const void *a, const void *b)
{
	const struct look_keyspace *one = a, *other = b;
	if (one->asked != other->asked)
		return one->asked < other->asked ? 1 : -1;
	size_t len = one->name.len < other->name.len ? one->name.len : other->name.len;
	int order = memcmp(one->name.data, other->name.data, len);
	return order ? order
		     : (one->name.len > other->name.len) - (one->name.len < other->name.len);
}

/* How much of each list is shown. */
struct share {
	uint32_t keyspaces, keys;
};

/* Each list has a third of the rows, and what the others leave of theirs. */
static struct share share_of(uint32_t rows, uint32_t keyspaces, uint32_t keys)
{
	uint32_t room = rows > ROWS_FIXED ? rows - ROWS_FIXED : 0;
	uint32_t left = room > 2 * keys ? room - 2 * keys : 0;
	struct share share = { .keyspaces = left > room / 3 ? left : room / 3 };
	if (share.keyspaces >= keyspaces)
		share.keyspaces = keyspaces;
	else if (share.keyspaces > 0)
		share.keyspaces--; /* a row says that there are more */
	room -= share.keyspaces + (share.keyspaces < keyspaces && room > 0);
	share.keys = room / 2 < keys ? room / 2 : keys;
	return share;
}

/* By what they were asked for since `before`, the most first. */
static void sort_keyspaces(struct look *now, const struct look *before)
{
	for (uint32_t i = 0; i < now->count; i++) {
		struct look_keyspace *each = &now->keyspaces[i];
		const struct look_keyspace *was = find_keyspace(before, each->name);
		each->asked = was && each->gets >= was->gets ? each->gets - was->gets : each->gets;
	}
	qsort(now->keyspaces, now->count, sizeof(now->keyspaces[0]), compare_asked);
}

/* `rows`: of a screen that it is to fit; 0: it is no screen. */
static void put_all(FILE *out, const struct look *before, struct look *now, uint32_t keys,
		    uint32_t rows)
{
	struct share share = { now->count, keys };
	if (rows > 0) {
		sort_keyspaces(now, before);
		share = share_of(rows, now->count, keys);
	}
	double seconds = (double)(now->at_us - before->at_us) / 1e6;
	if (seconds <= 0)
		seconds = 1;
	put_head(out, before, now, seconds);
	fprintf(out,
		"\n%-*s    gets/s    near  store origin  stale errors builds/s    build    stale "
		"waiting  entries\n",
		NAME_MOST, "keyspace");
	for (uint32_t i = 0; i < share.keyspaces; i++)
		put_keyspace(out, &now->keyspaces[i], find_keyspace(before, now->keyspaces[i].name),
			     seconds);
	if (share.keyspaces < now->count)
		fprintf(out, "and %" PRIu32 " that are asked for less\n",
			now->count - share.keyspaces);
	put_keys(out, now, "asked for most", "hot", share.keys);
	put_keys(out, now, "would cost most: gets/s x build, as builds at once", "costly",
		 share.keys);
}

/* ---- the command --------------------------------------------------------------------------- */

static enum ctl_exit refused(const struct ctl *ctl, const segar_reply *reply)
{
	ctl_print_error(stdout, ctl, reply->status, reply->error, reply->retry_after_ms);
	return ctl_exit_of(reply->status);
}

static enum ctl_exit show_once(struct ctl *ctl, uint32_t keys, struct look *before,
			       struct look *now)
{
	const segar_reply *error = look_take(ctl, keys, before);
	if (!error && !ctl->json) {
		poll(NULL, 0, ONCE_MS);
		error = look_take(ctl, keys, now);
	}
	if (error)
		return refused(ctl, error);
	if (ctl->json)
		ctl_print_json(stdout, ctl_encoded(before->top));
	else
		put_all(stdout, before, now, keys, 0);
	return CTL_VALUE;
}

/* Until someone has seen enough. */
static enum ctl_exit show_screen(struct ctl *ctl, uint32_t keys, struct look *before,
				 struct look *now)
{
	const segar_reply *error = look_take(ctl, keys, before);
	if (error)
		return refused(ctl, error);
	if (!screen_open())
		return show_once(ctl, keys, before, now);
	int64_t wait_ms = ONCE_MS; /* the first rates come soon */
	while (!error && screen_wait(wait_ms)) {
		error = look_take(ctl, keys, now);
		if (error)
			break;
		FILE *out = screen_begin();
		if (!out)
			break;
		put_all(out, before, now, keys, screen_rows());
		screen_end(out);
		look_close(before);
		*before = *now;
		*now = (struct look){ 0 };
		wait_ms = INTERVAL_MS;
	}
	screen_close();
	return error ? refused(ctl, error) : CTL_VALUE;
}

enum ctl_exit ctl_top(struct ctl *ctl, uint32_t keys)
{
	struct look *looks = calloc(2, sizeof(*looks));
	if (!looks) {
		ctl_print_error(stdout, ctl, SEGAR_NO_MEMORY, "out of memory", -1);
		return CTL_ERROR;
	}
	bool screen = !ctl->once && !ctl->json && screen_is_there();
	enum ctl_exit exit_code = (screen ? show_screen : show_once)(ctl, keys ? keys : KEYS_SHOWN,
								     &looks[0], &looks[1]);
	look_close(&looks[0]);
	look_close(&looks[1]);
	free(looks);
	return exit_code;
}
