/* Which key is asked for next: each as likely as the others, or by Zipf's law. */
#pragma once

#include <stdint.h>

struct keys_alias {
	uint32_t threshold; /* of 2^32: the odds of the key itself */
	uint32_t other;     /* the key that the rest goes to */
};

struct keys {
	uint64_t state; /* of the random generator */
	uint32_t count;
	struct keys_alias *aliases; /* owned; NULL: uniform */
};

/* Keys 0 to count - 1; key k has odds of 1 / (k + 1)^exponent, 0 being uniform. 0, or -1 when
 * memory is missing. One draw costs the same for all exponents and counts: a table of aliases
 * (Vose, "A linear algorithm for generating random numbers with a given distribution", 1991). */
int keys_init(struct keys *keys, uint32_t count, double exponent, uint64_t seed)
	__attribute__((warn_unused_result));
void keys_close(struct keys *keys);

/* splitmix64 (Steele, Lea, Flood 2014): good enough, and cheap. */
static inline uint64_t keys_random(struct keys *keys)
{
	uint64_t z = keys->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline uint32_t keys_next(struct keys *keys)
{
	const uint64_t random = keys_random(keys);
	const uint32_t key = (uint32_t)((random >> 32) * keys->count >> 32);

	if (!keys->aliases || (uint32_t)random < keys->aliases[key].threshold)
		return key;
	return keys->aliases[key].other;
}
