#include "core/near.h"

#include <assert.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "proto/key.h"

static_assert(KEY_TEXT_MAX <= UINT16_MAX, "near_entry.key_len");

enum {
	NEAR_TABLE_SIZE = 1024,
	SHRINK_MOST = 8,
	CACHE_LINE = 64,
	VALUE_FETCHED = 3 * CACHE_LINE, /* the processor's own prefetching goes on from there */
};

int near_init(struct near *near, size_t bytes_max)
{
	*near = (struct near){ .bytes_max = bytes_max,
			       .bytes_wanted = bytes_max,
			       .bytes_ever = bytes_max };
	list_init(&near->rows.queue);
	list_init(&near->absent.queue);
	if (ghosts_init(&near->ghosts, bytes_max / NEAR_GHOST_SHARE) != 0)
		return -1;
	return table_init(&near->table, NEAR_TABLE_SIZE);
}

static void segment_clear(struct near *near, struct near_segment *segment)
{
	struct list_node *node;
	while ((node = list_first(&segment->queue)))
		near_remove(near, container_of(node, struct near_entry, link));
}

void near_close(struct near *near)
{
	ghosts_close(&near->ghosts);
	if (!near->table.buckets)
		return;
	segment_clear(near, &near->rows);
	segment_clear(near, &near->absent);
	table_close(&near->table);
}

size_t near_cost(const struct near *near)
{
	return near->rows.bytes + near->absent.bytes + table_cost(&near->table) +
	       mem_cost(near->ghosts.at);
}

static struct near_segment *segment_of(struct near *near, const struct entry *entry)
{
	return entry->absent ? &near->absent : &near->rows;
}

static inline struct near_entry *find(const struct near *near, uint64_t hash, const char *bytes,
				      size_t len)
{
	for (struct table_node *node = table_find(&near->table, hash); node;
	     node = table_next(node)) {
		struct near_entry *ne = container_of(node, struct near_entry, node);
		if (ne->key_len == len && memcmp(ne->key, bytes, len) == 0)
			return ne;
	}
	return NULL;
}

struct near_entry *near_find(const struct near *near, const struct key *key)
{
	return find(near, key->hash, key->bytes, key->len);
}

struct near_entry *near_hit(const struct near *near, uint64_t hash, const char *bytes, size_t len,
			    int64_t now_us)
{
	struct near_entry *ne = find(near, hash, bytes, len);
	if (!ne || now_us >= ne->next_at_us || ne->generation != ne->keyspace->generation ||
	    ne->entry.absent)
		return NULL;
	ne->visited = true;
	ne->hits++;
	return ne;
}

/* Group prefetching: each stage issues all its fetches before the next one needs the first of them.
   Source: Chen, Ailamaki, Gibbons, Mowry, "Improving hash join performance through prefetching",
   ICDE 2004. Of one hash alone, an entry's lines still come together. A node that follows another
   in its bucket is left to chance. */
void near_prefetch(const struct near *near, const uint64_t *hashes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		table_prefetch(&near->table, hashes[i]);
	for (uint32_t i = 0; i < count; i++) {
		const char *node = (const char *)table_peek(&near->table, hashes[i]);
		for (size_t line = 0; node && line < sizeof(struct near_entry); line += CACHE_LINE)
			__builtin_prefetch(node + line);
	}
	for (uint32_t i = 0; i < count; i++) {
		struct table_node *node = table_peek(&near->table, hashes[i]);
		const char *value =
			node ? (char *)container_of(node, struct near_entry, node)->entry.value
			     : NULL;
		for (size_t line = 0; value && line < VALUE_FETCHED; line += CACHE_LINE)
			__builtin_prefetch(value + line);
	}
}

int64_t near_refresh_us(const struct near_entry *ne)
{
	return ne->keyspace->refresh_us > 0 ? ne->keyspace->refresh_us : ne->entry.build_us;
}

void near_settle(struct near_entry *ne, bool wasted)
{
	ne->keyspace->account.wasted[ne->cause] += ne->unread && wasted;
	ne->unread = false;
}

/* The sweep goes on at `newer`, or behind the segment. */
static void sweep_on(struct near *near, struct list_node *newer)
{
	near->sweep = newer;
	if (newer)
		return;
	near->sweeping = near->sweeping == &near->rows ? &near->absent : NULL;
	near->sweep = near->sweeping ? list_last(&near->sweeping->queue) : NULL;
	if (!near->sweep)
		near->sweeping = NULL;
}

/* What it is counted with; the same as long as it is there, since its value is. */
static size_t cost_of(const struct near_entry *ne)
{
	return mem_cost(ne) + value_cost(ne->entry.value);
}

void near_remove(struct near *near, struct near_entry *ne)
{
	near_settle(ne, ne->hits == 0);
	struct near_segment *segment = segment_of(near, &ne->entry);
	struct list_node *newer = ne->link.prev == &segment->queue.head ? NULL : ne->link.prev;
	if (segment->hand == &ne->link)
		segment->hand = newer;
	if (near->sweep == &ne->link)
		sweep_on(near, newer);
	if (near->walk == &ne->link)
		near->walk = newer;
	list_remove(&segment->queue, &ne->link);
	table_remove(&near->table, &ne->node);
	const size_t cost = cost_of(ne);
	CHECK(segment->bytes >= cost);
	segment->bytes -= cost;
	ne->keyspace->account.near_bytes -= cost;
	ne->keyspace->account.near_entries--;
	value_unref(ne->entry.value);
	ne->keyspace->users--;
	mem_free(ne);
}

static void leave_ghost(struct near *near, const struct near_entry *ne, int64_t now_us)
{
	const struct entry *entry = &ne->entry;
	int64_t until_us = entry_matters_until(entry, ne->keyspace->policy);
	if (ne->keyspace->policy->single_row && entry->has_version && now_us < until_us)
		ghosts_note(&near->ghosts, ne->node.hash ^ entry->definition, entry->version,
			    until_us, now_us);
}

void near_drop(struct near *near, struct near_entry *ne, int64_t now_us)
{
	leave_ghost(near, ne, now_us);
	near_remove(near, ne);
}

/* Each step evicts one entry or takes one entry's mark away: at most two rounds of the queue. */
static void segment_evict_one(struct near *near, struct near_segment *segment, int64_t now_us)
{
	for (;;) {
		struct list_node *node = segment->hand ? segment->hand : list_last(&segment->queue);
		CHECK(node);
		struct near_entry *ne = container_of(node, struct near_entry, link);
		segment->hand = node->prev == &segment->queue.head ? NULL : node->prev;
		if (!ne->visited) {
			if (near->evicts)
				near->evicts(near->evicts_arg, ne);
			near_drop(near, ne, now_us);
			near->evictions++;
			return;
		}
		ne->visited = false;
	}
}

/* Room for `cost` more bytes in the segment. */
static void make_room(struct near *near, struct near_segment *segment, size_t cost, int64_t now_us)
{
	while (segment == &near->absent && !list_empty(&segment->queue) &&
	       segment->bytes + cost > near->bytes_max / NEAR_ABSENT_SHARE)
		segment_evict_one(near, segment, now_us);
	while (near_cost(near) + table_growth(&near->table) + cost > near->bytes_max) {
		/* Each makes room for its own kind, as long as there is any of it. */
		struct near_segment *other = segment == &near->rows ? &near->absent : &near->rows;
		segment_evict_one(near, list_empty(&segment->queue) ? other : segment, now_us);
	}
}

static struct near_entry *near_entry_create(const struct key *key)
{
	struct near_entry *ne = mem_zalloc(sizeof(*ne) + key->len);
	if (!ne)
		return NULL;
	ne->keyspace = key->keyspace;
	ne->key_len = (uint16_t)key->len;
	memcpy(ne->key, key->bytes, key->len);
	list_node_init(&ne->link);
	return ne;
}

struct near_entry *near_put(struct near *near, const struct key *key, const struct entry *entry,
			    int64_t now_us)
{
	struct near_entry *ne = near_find(near, key);
	bool visited = ne && ne->visited;
	if (ne && !entry->has_version)
		leave_ghost(near, ne, now_us);
	if (ne)
		near_remove(near, ne);
	ne = key->keyspace->removed ? NULL : near_entry_create(key);
	if (!ne)
		return NULL;
	struct near_segment *segment = segment_of(near, entry);
	size_t most = entry->absent ? near->bytes_max / NEAR_ABSENT_SHARE
				    : near->bytes_max - table_cost(&near->table) -
					      mem_cost(near->ghosts.at);
	const size_t cost = mem_cost(ne) + value_cost(entry->value);
	if (cost > most) {
		near->refused++;
		mem_free(ne);
		return NULL;
	}
	make_room(near, segment, cost, now_us);

	ne->entry = *entry;
	value_ref(ne->entry.value);
	ne->visited = visited;
	key->keyspace->users++;
	ne->generation = key->keyspace->generation;
	ne->next_at_us = entry->fresh_until_us;
	ne->put_at_us = now_us;
	segment->bytes += cost;
	ne->keyspace->account.near_bytes += cost;
	ne->keyspace->account.near_entries++;
	list_push_front(&segment->queue, &ne->link);
	table_insert(&near->table, &ne->node, key->hash);
	return ne;
}

/* ---- a bit at a time ----------------------------------------------------------------------- */

size_t near_least(const struct near *near)
{
	return near->bytes_ever / SHRINK_MOST;
}

void near_resize(struct near *near, size_t bytes_max)
{
	CHECK(bytes_max >= near_least(near));
	near->bytes_wanted = bytes_max;
	if (near->bytes_ever < bytes_max)
		near->bytes_ever = bytes_max;
	if (near->bytes_max < bytes_max)
		near->bytes_max = bytes_max;
}

bool near_is_shrinking(const struct near *near)
{
	return near->bytes_max > near->bytes_wanted;
}

void near_shrink(struct near *near, int most, int64_t now_us)
{
	for (int i = 0; i < most && near_cost(near) > near->bytes_wanted; i++)
		segment_evict_one(near, list_empty(&near->rows.queue) ? &near->absent : &near->rows,
				  now_us);
	size_t cost = near_cost(near);
	if (near->bytes_max > cost)
		near->bytes_max = cost > near->bytes_wanted ? cost : near->bytes_wanted;
}

void near_sweep_begin(struct near *near)
{
	near->sweeping = &near->rows;
	near->sweep = list_last(&near->rows.queue);
	if (!near->sweep)
		sweep_on(near, NULL);
}

bool near_is_sweeping(const struct near *near)
{
	return near->sweeping != NULL;
}

void near_sweep(struct near *near, int most, int64_t now_us)
{
	for (int i = 0; i < most && near->sweeping; i++) {
		struct near_entry *ne = container_of(near->sweep, struct near_entry, link);
		struct list_node *newer = near->sweep->prev;
		if (ne->keyspace->removed)
			near_drop(near, ne, now_us);
		else
			sweep_on(near, newer == &near->sweeping->queue.head ? NULL : newer);
	}
}

void near_walk_begin(struct near *near)
{
	near->walking = true;
	near->walk = list_last(&near->rows.queue);
}

void near_walk_end(struct near *near)
{
	near->walking = false;
	near->walk = NULL;
}

bool near_is_walking(const struct near *near)
{
	return near->walking;
}

struct near_entry *near_walk(struct near *near)
{
	struct list_node *node = near->walk;
	if (!node) {
		near_walk_end(near);
		return NULL;
	}
	near->walk = node->prev == &near->rows.queue.head ? NULL : node->prev;
	return container_of(node, struct near_entry, link);
}
