#include "ops/exposition.h"

#include <string.h>

/* The daemon's, then a keyspace's: one of it at a time. */
static const struct family *family_at(const struct exposition *exposition, bool *ret_per_keyspace)
{
	const uint32_t n = exposition->family;
	*ret_per_keyspace = n >= daemon_families_count;
	return *ret_per_keyspace ? &keyspace_families[n - daemon_families_count]
				 : &daemon_families[n];
}

/* Makes the next piece. False at the end. */
static bool next_piece(struct exposition *exposition)
{
	const struct family_sources *sources = &exposition->sources;
	const struct roster *roster = &sources->server->pump->engine->keyspaces;
	struct page *page = &exposition->page;
	page->len = exposition->taken = 0;
	while (exposition->family < daemon_families_count + keyspace_families_count &&
	       page->len == 0) {
		bool per_keyspace;
		const struct family *family = family_at(exposition, &per_keyspace);
		if (exposition->keyspace >= (per_keyspace ? roster->end : 1)) {
			exposition->family++;
			exposition->keyspace = 0;
			continue;
		}
		if (exposition->keyspace == 0)
			page_head(page, &family->metric);
		if (!per_keyspace) {
			exposition->keyspace = 1;
			daemon_family_put(page, family, sources);
			continue;
		}
		/* A reload may have come between two pieces. */
		const struct keyspace *keyspace = roster_next(roster, &exposition->keyspace);
		if (keyspace)
			keyspace_family_put(page, family, sources, keyspace);
	}
	return page->len > 0;
}

size_t exposition_read(struct exposition *exposition, char *buf, size_t size)
{
	if (exposition->taken == exposition->page.len && !next_piece(exposition))
		return 0;
	const size_t left = exposition->page.len - exposition->taken;
	const size_t len = left < size ? left : size;
	memcpy(buf, exposition->page.piece + exposition->taken, len);
	exposition->taken += len;
	return len;
}
