/* What engine.c, lookup.c and wake.c share about requests that wait. Not for others. */
#pragma once

#include "core/engine.h"

/* So many who wait for one build go before those who wait for one each. */
enum { CROWD_LEAST = 8 };

/* Joins the key's flight, or starts it; without memory or room the request becomes ready. */
void engine_join_or_start(struct engine *engine, struct request *request, int64_t now_us,
			  struct effects *effects);

/* Out of its flight, to be answered with that status by engine_wake; `why` is static, or NULL. */
void engine_make_ready(struct engine *engine, struct request *request, enum status refused,
		       const char *why);

/* The same for want of an answer in time; in which state its flight is by now says why. */
void engine_make_late(struct engine *engine, struct request *request, const struct flight *flight);

/* It is the engine's to answer, and it is not any more. */
void engine_count_in(struct engine *engine, struct request *request);
void engine_count_out(struct engine *engine, struct request *request);

/* Out of everything it is in. */
void engine_take_out(struct engine *engine, struct request *request);

/* A refresh call needs no build if the entry is new enough by what the call itself says. */
bool engine_is_enough(const struct query *query, const struct entry *entry, int64_t now_us);
