#include "core/ghosts.h"

#include <string.h>

#include "base/mem.h"

static const int64_t SECOND_US = 1000000;

int ghosts_init(struct ghosts *ghosts, size_t bytes)
{
	*ghosts = (struct ghosts){ .sets = 1 };
	while ((size_t)ghosts->sets * 2 * GHOST_SET * sizeof(struct ghost) <= bytes)
		ghosts->sets *= 2;
	ghosts->at = mem_zalloc((size_t)ghosts->sets * GHOST_SET * sizeof(struct ghost));
	return ghosts->at ? 0 : -1;
}

void ghosts_close(struct ghosts *ghosts)
{
	mem_free(ghosts->at);
	*ghosts = (struct ghosts){ 0 };
}

void ghosts_clear(struct ghosts *ghosts)
{
	memset(ghosts->at, 0, (size_t)ghosts->sets * GHOST_SET * sizeof(struct ghost));
}

static struct ghost *set_of(const struct ghosts *ghosts, uint64_t hash)
{
	return &ghosts->at[(hash & (ghosts->sets - 1)) * GHOST_SET];
}

static uint32_t tag_of(uint64_t hash)
{
	uint32_t tag = (uint32_t)(hash >> 32);
	return tag ? tag : 1;
}

static bool lives(const struct ghost *ghost, int64_t now_us)
{
	return ghost->tag != 0 && now_us < (int64_t)ghost->until_s * SECOND_US;
}

void ghosts_note(struct ghosts *ghosts, uint64_t hash, int64_t version, int64_t until_us,
		 int64_t now_us)
{
	struct ghost *set = set_of(ghosts, hash), *to = &set[0];
	uint32_t tag = tag_of(hash), until_s = (uint32_t)((until_us + SECOND_US - 1) / SECOND_US);
	for (int i = 0; i < GHOST_SET; i++) {
		if (lives(&set[i], now_us) && set[i].tag == tag) {
			to = &set[i];
			version = to->version > version ? to->version : version;
			until_s = to->until_s > until_s ? to->until_s : until_s;
			break;
		}
		if (set[i].until_s < to->until_s)
			to = &set[i];
	}
	ghosts->overflow += lives(to, now_us) && to->tag != tag;
	*to = (struct ghost){ .tag = tag, .until_s = until_s, .version = version };
}

bool ghosts_know_better(const struct ghosts *ghosts, uint64_t hash, int64_t version, int64_t now_us)
{
	const struct ghost *set = set_of(ghosts, hash);
	uint32_t tag = tag_of(hash);
	for (int i = 0; i < GHOST_SET; i++)
		if (lives(&set[i], now_us) && set[i].tag == tag && version < set[i].version)
			return true;
	return false;
}
