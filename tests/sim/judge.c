#include "judge.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "fleet.h"

/* Room for one more in an array of `count`, which grows at powers of two. */
void *judge_grow(void *array, uint32_t count, size_t size)
{
	if ((count & (count - 1)) != 0)
		return array;
	array = realloc(array, (count ? 2 * (size_t)count : 1) * size);
	CHECK(array);
	return array;
}

void judge_fail(const struct judge *judge, const char *promise, const char *format, ...)
{
	char text[512];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("t=%.6f broken=\"%s\" %s\n", (double)judge->fleet->vtime.now_us / SECOND, promise,
	       text);
	fflush(stdout);
	_Exit(1);
}

void judge_mix(struct judge *judge, uint64_t number)
{
	judge->digest = (judge->digest ^ number) * 0x100000001b3u;
	judge->digest ^= judge->digest >> 29;
}

void judge_init(struct judge *judge, struct fleet *fleet)
{
	*judge = (struct judge){ .fleet = fleet,
				 .store_trouble_us = INT64_MIN / 2,
				 .origin_trouble_us = INT64_MIN / 2 };
	judge->builds = judge_grow(NULL, 0, sizeof(*judge->builds));
	judge->builds[0] = (struct build_record){ 0 };
	judge->builds_count = 1;
}

void judge_close(struct judge *judge)
{
	for (int i = 0; i < KEYS_MAX; i++) {
		free(judge->keys[i].saves);
		free(judge->keys[i].changes);
		free(judge->keys[i].leases);
		free(judge->keys[i].builds);
		free(judge->keys[i].astray);
	}
	free(judge->builds);
	free(judge->starts);
	free(judge->epochs);
}

/* ---- causes ------------------------------------------------------------------------------ */

bool judge_store_troubled(const struct judge *judge, int64_t since_us)
{
	return judge->store_troubles > 0 || judge->store_trouble_us >= since_us;
}

bool judge_origin_troubled(const struct judge *judge, int64_t since_us)
{
	return judge->origin_troubles > 0 || judge->origin_trouble_us >= since_us;
}

bool judge_node_troubled(const struct judge *judge, int node, int64_t since_us)
{
	const struct node *its = &judge->fleet->nodes[node];
	return its->state != NODE_UP || its->paused || its->trouble_us >= since_us;
}

void judge_on_away(struct node *node, const struct store_op *op)
{
	int64_t now_us = node->fleet->vtime.now_us;
	if (op->verb == STORE_PERMIT)
		node->permit_away_us = now_us;
	else if (op->key.len > 0 && op->verb != STORE_EPOCH)
		node->away_us[scene_find(&node->fleet->scene, op->key.bytes, op->key.len)] = now_us;
}

void judge_on_origin_lost(struct node *node)
{
	node->origin_lost_us = node->fleet->vtime.now_us;
}

bool judge_was_away(const struct node *node, int key)
{
	return node->away_us[key] >= node->flight_us[key] ||
	       node->permit_away_us >= node->flight_us[key];
}

bool judge_was_lost(const struct node *node, int key)
{
	return node->origin_lost_us >= node->flight_us[key] ||
	       node->engine->breaker.state != BREAKER_CLOSED;
}

/* ---- rest -------------------------------------------------------------------------------- */

/* No trouble in this scene, or the last is long over. */
bool judge_is_calm(const struct judge *judge)
{
	const struct scene *scene = &judge->fleet->scene;
	uint32_t harmful = scene->troubles & ~(1u << TROUBLE_LEAVE | 1u << TROUBLE_SKEW);
	int64_t now_us = judge->fleet->vtime.now_us;
	return now_us > START_US && (harmful == 0 || now_us > scene->healed_us + HEALING_US);
}

void judge_on_rest(struct judge *judge)
{
	const struct fleet *fleet = judge->fleet;
	judge_check_log(judge);
	judge_check_stored(judge);
	if (fleet->crowd.calls > 0)
		judge_fail(judge, "bounded waiting", "%" PRIu64 " requests have no answer",
			   fleet->crowd.calls);
	if (shared_leases(&fleet->shared) > 0)
		judge_fail(judge, "one build: each lease comes back", "leases=%d at rest",
			   shared_leases(&fleet->shared));
	if (shared_slots(&fleet->shared) > 0)
		judge_fail(judge, "origin budget: each slot comes back", "slots=%d at rest",
			   shared_slots(&fleet->shared));
	if (judge->running > 0 || fleet->server.statements > 0)
		judge_fail(judge, "origin budget", "%d statements run at rest", judge->running);
	for (int i = 0; i < fleet->scene.nodes; i++) {
		const struct engine *engine = fleet->nodes[i].engine;
		if (!engine || !engine_is_idle(engine) || engine->leases + engine->slots > 0)
			judge_fail(judge, "bounded waiting", "node=%d finds no rest", i);
	}
}
