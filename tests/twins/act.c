#include "act.h"

static const struct {
	const char *name;
	int weight;
} kinds[] = {
#define X(NAME, name, weight, text) { #name, weight },
	ACT_MAP(X)
#undef X
};

enum {
#define X(NAME, name, weight, text) +weight
	WEIGHTS = 0 ACT_MAP(X)
#undef X
};

const char *act_name(enum act_kind kind)
{
	return kinds[kind].name;
}

struct act act_draw(struct rng *rng, int daemons, int keys)
{
	int64_t drawn = rng_between(rng, 0, WEIGHTS - 1);
	int kind = 0;
	while (drawn >= kinds[kind].weight)
		drawn -= kinds[kind++].weight;
	return (struct act){ .kind = (enum act_kind)kind,
			     .daemon = (int)rng_between(rng, 0, daemons - 1),
			     .key = (int)rng_between(rng, 0, keys - 1),
			     .chance = rng_next(rng) };
}
