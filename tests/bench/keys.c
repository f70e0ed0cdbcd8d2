#include "keys.h"

#include <math.h>
#include <stdlib.h>

/* Fills the table from odds that sum up to `count`: whoever has less than 1 is topped up by one
 * that has more. `small` and `large` have room for all. */
static void fill(struct keys *keys, double *odds, uint32_t *small, uint32_t *large)
{
	uint32_t smalls = 0, larges = 0;

	for (uint32_t i = 0; i < keys->count; i++)
		if (odds[i] < 1)
			small[smalls++] = i;
		else
			large[larges++] = i;
	while (smalls > 0 && larges > 0) {
		const uint32_t less = small[--smalls], more = large[larges - 1];

		keys->aliases[less] =
			(struct keys_alias){ (uint32_t)(odds[less] * UINT32_MAX), more };
		odds[more] -= 1 - odds[less];
		if (odds[more] < 1) {
			larges--;
			small[smalls++] = more;
		}
	}
	/* What is left is 1, but for rounding. */
	while (larges > 0)
		keys->aliases[large[--larges]].threshold = UINT32_MAX;
	while (smalls > 0)
		keys->aliases[small[--smalls]].threshold = UINT32_MAX;
}

static int make_aliases(struct keys *keys, double exponent)
{
	double *odds = malloc(keys->count * sizeof(*odds)), sum = 0;
	uint32_t *small = malloc(keys->count * sizeof(*small));
	uint32_t *large = malloc(keys->count * sizeof(*large));

	keys->aliases = calloc(keys->count, sizeof(*keys->aliases));
	if (odds && small && large && keys->aliases) {
		for (uint32_t i = 0; i < keys->count; i++)
			sum += odds[i] = pow((double)i + 1, -exponent);
		for (uint32_t i = 0; i < keys->count; i++)
			odds[i] *= (double)keys->count / sum;
		fill(keys, odds, small, large);
	}
	const int ret = odds && small && large && keys->aliases ? 0 : -1;

	free(odds);
	free(small);
	free(large);
	return ret;
}

int keys_init(struct keys *keys, uint32_t count, double exponent, uint64_t seed)
{
	*keys = (struct keys){ .state = seed, .count = count };
	if (exponent > 0 && make_aliases(keys, exponent) != 0) {
		keys_close(keys);
		return -1;
	}
	return 0;
}

void keys_close(struct keys *keys)
{
	free(keys->aliases);
	*keys = (struct keys){ 0 };
}
