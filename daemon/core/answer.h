/* What a client is told: answers made from entries, defaults and failures. Pure. */
#pragma once

#include "core/entry.h"
#include "core/failure.h"
#include "core/request.h"

/* The entry as a fresh answer; `late`: its freshness is over, but it was built after the request
   came, which makes it an answer with ttl 0. */
void answer_fresh(struct answer *answer, const struct entry *entry, int64_t now_us,
		  enum answer_source source);

void answer_stale(struct answer *answer, const struct entry *entry, int64_t now_us,
		  enum answer_source source, enum answer_reason reason);

/* A refresh call's answer. */
void answer_refreshed(struct answer *answer, const struct entry *entry);

/* Whether the query allows this stale entry, now. */
bool answer_may_be_stale(const struct query *query, const struct entry *entry, int64_t now_us);

/* No value: the keyspace's default if the query is a get and there is one, else the error. */
void answer_without_value(struct answer *answer, const struct query *query, enum status status,
			  const struct value *text, int64_t retry_after_us);

/* The reason that goes with a status on answers that carry a value all the same. */
enum answer_reason answer_reason_of(enum status status);
