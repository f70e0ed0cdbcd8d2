/* A seeded random generator, so that a whole run can be repeated from one number. Not for secrets.
 *
 * xoshiro256++ seeded by splitmix64. Source: Blackman, Vigna, "Scrambled linear pseudorandom number
 * generators", ACM TOMS 47 (2021).
 */
#pragma once

#include <stdint.h>

struct rng {
	uint64_t s[4];
};

void rng_seed(struct rng *rng, uint64_t seed);

uint64_t rng_next(struct rng *rng);

/* Evenly from [0, 1). */
double rng_unit(struct rng *rng);

/* Evenly from [low, high], which must not be reversed. */
int64_t rng_between(struct rng *rng, int64_t low, int64_t high);
