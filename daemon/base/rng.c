#include "base/rng.h"

#include "base/check.h"

static uint64_t rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

void rng_seed(struct rng *rng, uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		uint64_t z = (seed += 0x9e3779b97f4a7c15u);
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
		rng->s[i] = z ^ (z >> 31);
	}
}

uint64_t rng_next(struct rng *rng)
{
	uint64_t *s = rng->s, result = rotl(s[0] + s[3], 23) + s[0], t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

double rng_unit(struct rng *rng)
{
	return (double)(rng_next(rng) >> 11) * 0x1.0p-53;
}

int64_t rng_between(struct rng *rng, int64_t low, int64_t high)
{
	CHECK(low <= high);
	/* 128-bit multiply maps 64 random bits onto the range; the bias is below 2^-32 for ranges
	   under 2^32 µs (71 minutes) and harmless for jitter beyond. */
	uint64_t range = (uint64_t)high - (uint64_t)low + 1;
	if (range == 0)
		return (int64_t)rng_next(rng);
	return low + (int64_t)(uint64_t)(((unsigned __int128)rng_next(rng) * range) >> 64);
}
