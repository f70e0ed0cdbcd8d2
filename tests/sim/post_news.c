/* What the store tells: letters, in order over one connection, which can break. */
#include <stdlib.h>

#include "base/check.h"
#include "fleet.h"
#include "post.h"

enum { RELISTEN_US = 100 * MS, UNNOTICED_US = 3 * SECOND };

struct letter {
	struct errand errand;
	struct list_node link; /* in post->letters, but for a stray one */
	struct tiding tiding;
	bool lost; /* its connection broke while it was under way */
};

static void tell_trusted(struct post *post, int64_t until_us)
{
	struct store_listener listener = pump_listener(&post->node->pump);
	listener.trusted(listener.impl, until_us);
}

static void tell_emptied(struct post *post)
{
	struct store_listener listener = pump_listener(&post->node->pump);
	trace(post->node->fleet, "node=%d ev=emptied", post->node->number);
	listener.emptied(listener.impl);
	post->epochs_due = true;
}

/* As in store/news.c, like what follows. */
static void trust_goes_on(struct post *post)
{
	int64_t trust_us = post->node->fleet->scene.trust_us, clock_us = post_store_clock(post);
	int64_t age_us = clock_us > post->heard_us ? clock_us - post->heard_us : 0;
	if (!post->trust_waits && post->heard_us != 0 && age_us < trust_us) {
		post->trusted_until_us = node_now(post->node) - age_us + trust_us;
		tell_trusted(post, post->trusted_until_us);
	}
}

void post_epochs_are_known(struct post *post)
{
	if (!post->trust_waits)
		return;
	post->trust_waits = false;
	trust_goes_on(post);
}

static void hear_beat(struct post *post, const struct tiding *tiding)
{
	switch (trust_hear(&post->trust, tiding->fence)) {
	case TRUST_REPEATED:
		if (tiding->emptied)
			tell_emptied(post);
		return;
	case TRUST_BEGINS:
		trace(post->node->fleet, "node=%d ev=gap", post->node->number);
		post->trusted_until_us = 0;
		tell_trusted(post, 0);
		post->trust_waits = post->epochs_due = true;
		break;
	case TRUST_GOES_ON:
		if (tiding->emptied)
			tell_emptied(post);
		break;
	}
	post->heard_us = tiding->told_us;
	post->beat_heard_us = post_local(post);
	trust_goes_on(post);
}

int64_t post_take_epoch(struct post *post, int keyspace, int64_t store_us, int64_t spread_us)
{
	struct store_listener listener = pump_listener(&post->node->pump);
	const char *name = post->node->fleet->scene.policies[keyspace].name;
	int64_t moment_us = fleet_clock_from_store(&post->clock, store_us, post_local(post));
	bool is_new = false;
	const struct epoch_line *line = epoch_book_enter(post->epochs, name, strlen(name), store_us,
							 moment_us, spread_us, &is_new);
	if (!line)
		return moment_us;
	if (is_new) {
		trace(post->node->fleet, "node=%d ev=epoch keyspace=%s moment=%" PRId64,
		      post->node->number, name, store_us);
		listener.epoch(listener.impl, name, strlen(name), line->moment_us, line->spread_us);
	}
	return line->moment_us;
}

void post_write_epochs(const struct post *post, struct epochs ret_epochs[KEYSPACES])
{
	for (int i = 0; i < KEYSPACES; i++)
		ret_epochs[i] = (struct epochs){ 0 };
	for (uint32_t i = 0; i < post->epochs->count; i++) {
		const struct epoch_page *page = &post->epochs->pages[i];
		struct keyspace *keyspace =
			engine_keyspace(post->node->engine, page->keyspace, strlen(page->keyspace));
		for (uint32_t j = 0; j < page->count; j++)
			epochs_add(&ret_epochs[keyspace->index],
				   (struct epoch){ .moment_us = page->lines[j].store_us,
						   .spread_us = page->lines[j].spread_us });
	}
}

static void note_heard(struct node *node, const struct tiding *tiding)
{
	uint64_t *heard = node->heard[tiding->key];
	memmove(heard + 1, heard, (HEARD_MAX - 1) * sizeof(*heard));
	heard[0] = tiding->fence;
}

static void hear(struct node *node, const struct tiding *tiding)
{
	struct store_listener listener = pump_listener(&node->pump);
	const struct subject *key = &node->fleet->scene.keys[tiding->key];
	trace(node->fleet, "node=%d ev=%s key=%s fence=%" PRIu64, node->number,
	      tiding->kind == TIDING_SETTLED   ? "settled"
	      : tiding->kind == TIDING_CHANGED ? "changed"
					       : "row_changed",
	      key->bytes, tiding->fence);
	if (tiding->hard)
		note_heard(node, tiding);
	if (tiding->kind == TIDING_SETTLED)
		listener.settled(listener.impl, key->bytes, key->len, tiding->fence);
	else if (tiding->kind == TIDING_ROW)
		listener.row_changed(listener.impl, key->bytes, key->len,
				     &(struct row_change){ .floor = tiding->fence,
							   .hard = tiding->hard,
							   .has_version = tiding->has_version,
							   .version = tiding->version });
	else
		listener.changed(listener.impl, key->bytes, key->len, tiding->fence, tiding->hard);
}

/* It is the turn of the first on its way, whichever errand has come: after a pause they come in any
   order. A stray one is told when its own comes. */
static void on_letter(struct errand *errand)
{
	struct letter *letter = container_of(errand, struct letter, errand);
	struct node *node = errand->node;
	struct list *letters = &node->post.letters;
	struct tiding tiding = letter->tiding;
	bool lost = false;
	if (list_linked(&letter->link)) {
		struct letter *first = container_of(list_first(letters), struct letter, link);
		tiding = first->tiding;
		lost = first->lost;
		first->tiding = letter->tiding;
		first->lost = letter->lost;
		list_remove(letters, &letter->link);
	}
	free(letter);
	if (lost)
		return;
	if (tiding.kind == TIDING_BEAT)
		hear_beat(&node->post, &tiding);
	else if (tiding.kind == TIDING_EPOCH)
		post_take_epoch(&node->post, tiding.key, tiding.told_us, tiding.spread_us);
	else
		hear(node, &tiding);
}

static void on_letter_drop(struct errand *errand)
{
	struct letter *letter = container_of(errand, struct letter, errand);
	if (list_linked(&letter->link))
		list_remove(&errand->node->post.letters, &letter->link);
	free(letter);
}

static void letter_send(struct post *post, const struct tiding *tiding, bool stray, int64_t at_us)
{
	struct letter *letter = calloc(1, sizeof(*letter));
	CHECK(letter);
	letter->tiding = *tiding;
	list_node_init(&letter->link);
	if (!stray)
		list_push_back(&post->letters, &letter->link);
	node_at(post->node, &letter->errand, at_us, on_letter, on_letter_drop);
}

void post_tell(struct post *post, const struct tiding *tiding)
{
	struct node *node = post->node;
	if (!node || node->state == NODE_DOWN || node->buried || !post->listening)
		return;
	struct weather *weather = &node->fleet->weather;
	if (post->cut || weather_loses(weather)) {
		post_deafen(post, draw_chance(&weather->rng, 0.5));
		return;
	}
	int64_t at_us = node->fleet->vtime.now_us + weather_delay(weather);
	if (at_us <= post->last_arrival_us)
		at_us = post->last_arrival_us + 1; /* one connection keeps their order */
	post->last_arrival_us = at_us;
	letter_send(post, tiding, false, at_us);
	if (weather_doubles(weather))
		letter_send(post, tiding, true,
			    at_us + rng_between(&weather->rng, 1, POST_CONTROL_US));
}

/* Connected anew: from here on nothing is missed, but what was told meanwhile may have been. */
static void on_listen(struct errand *errand)
{
	struct node *node = errand->node;
	struct post *post = &node->post;
	if (post->cut || node->fleet->shared.down || node->fleet->shared.stalled) {
		node_at(node, errand, node->fleet->vtime.now_us + RELISTEN_US, on_listen, NULL);
		return;
	}
	trust_lose(&post->trust);
	post->heard_us = 0;
	post->trusted_until_us = 0;
	post->trust_waits = false;
	tell_trusted(post, 0);
	post->listening = true;
}

void post_deafen(struct post *post, bool noticed)
{
	struct node *node = post->node;
	if (!post->listening)
		return;
	trace(node->fleet, "node=%d ev=deaf noticed=%d", node->number, noticed);
	post->listening = false;
	list_foreach (&post->letters, link)
		container_of(link, struct letter, link)->lost = true;
	int64_t after_us =
		rng_between(&node->fleet->weather.rng, 1, noticed ? RELISTEN_US : UNNOTICED_US);
	node_at(node, &post->listen, node->fleet->vtime.now_us + after_us, on_listen, NULL);
}

void post_news_begin(struct post *post)
{
	tell_trusted(post, 0);
	node_at(post->node, &post->listen, post->node->fleet->vtime.now_us + 1, on_listen, NULL);
}

void post_news_close(struct post *post)
{
	CHECK(list_empty(&post->letters));
}
