#include "rpc/reply.h"

#include <assert.h>
#include <string.h>

#include "proto/result.h"
#include "proto/rpc.h"
#include "rpc/peer.h"
#include "rpc/server.h"

static int64_t retry_after_ms(const struct answer *answer)
{
	return answer->retry_after_us > 0 ? ms_up(answer->retry_after_us) : -1;
}

static struct wire_span error_text(const struct answer *answer)
{
	const char *text = status_text(answer->status);

	if (answer->text)
		return (struct wire_span){ answer->text, answer->text_len };
	return (struct wire_span){ text, strlen(text) };
}

static void put_value(struct outbox *out, const struct answer *answer)
{
	const struct result result = {
		.state = (enum result_state)answer->state,
		.reason = (enum result_reason)answer->reason,
		.source = (enum result_source)answer->source,
		.has_value = answer->value != NULL,
		.value_len = answer->value ? answer->value->len : 0,
		.has_version = answer->has_version,
		.version = answer->version,
		.age_ms = ms_passed(answer->age_us),
		.ttl_ms = ms_passed(answer->ttl_us),
		.stale_ms = ms_up(answer->stale_us),
	};

	result_put(&out->bytes, &result);
	if (answer->value)
		outbox_value(out, answer->value);
}

/* What a refresh did; with wait_ms 0, what is under way. */
static void put_refreshed(struct wire_buf *b, const struct query *query,
			  const struct answer *answer)
{
	if (query->wait_us == 0) {
		wire_buf_map(b, 2);
		wire_buf_str(b, "queued");
		wire_buf_bool(b, answer->queued);
	} else {
		wire_buf_map(b, 3);
		wire_buf_str(b, "version");
		if (answer->has_version)
			wire_buf_int(b, answer->version);
		else
			wire_buf_nil(b);
		wire_buf_str(b, "built");
		wire_buf_bool(b, answer->built);
	}
	wire_buf_str(b, "joined");
	wire_buf_bool(b, answer->joined);
}

void reply_put_answer(struct outbox *out, const struct answer *answer)
{
	struct wire_span text;

	if (answer->status == STATUS_OK) {
		put_value(out, answer);
		return;
	}
	text = error_text(answer);
	result_put_error(&out->bytes, answer->status, retry_after_ms(answer), text.data, text.len);
}

struct reply reply_begin(struct peer *peer, uint32_t id)
{
	struct outbox *out = peer_out(peer);
	struct reply reply = { peer, out, outbox_mark(out) };

	rpc_put_response(&out->bytes, id);
	return reply;
}

void reply_end(struct reply *reply)
{
	reply->peer->server->counters.replies_total++;
	peer_out_end(reply->peer, reply->out, &reply->mark);
}

static void put_error(struct peer *peer, uint32_t id, enum status status, int64_t retry_ms,
		      struct wire_span text)
{
	struct outbox *out = peer_out(peer);
	const struct outbox_mark mark = outbox_mark(out);

	rpc_put_error(&out->bytes, id, status, retry_ms, text.data, text.len);
	peer->server->counters.replies_total++;
	peer->server->counters.errors_total++;
	peer_out_end(peer, out, &mark);
}

void reply_answer(struct peer *peer, uint32_t id, const struct query *query,
		  const struct answer *answer)
{
	struct reply reply;

	if (answer->status != STATUS_OK) {
		put_error(peer, id, answer->status, retry_after_ms(answer), error_text(answer));
		return;
	}
	reply = reply_begin(peer, id);
	if (query->kind == QUERY_GET)
		put_value(reply.out, answer);
	else
		put_refreshed(&reply.out->bytes, query, answer);
	reply_end(&reply);
}

void reply_fresh(struct peer *peer, uint32_t id, const struct entry *entry, int64_t now_us)
{
	const int64_t age_us = now_us - entry->generated_at_us;
	struct outbox *out = peer_out(peer);
	const struct outbox_mark mark = outbox_mark(out);

	result_put_fresh(&out->bytes, id,
			 &(struct result_fresh){
				 .has_version = entry->has_version,
				 .version = entry->version,
				 .age_ms = age_us > 0 ? ms_passed(age_us) : 0,
				 .ttl_ms = ms_passed(entry->fresh_until_us - now_us),
				 .has_value = entry->value != NULL,
				 .value_len = entry->value ? entry->value->len : 0,
			 });
	if (entry->value)
		outbox_value(out, entry->value);
	peer->server->counters.replies_total++;
	peer_out_end(peer, out, &mark);
}

void reply_error(struct peer *peer, uint32_t id, enum status status, const char *text)
{
	put_error(peer, id, status, -1, (struct wire_span){ text, strlen(text) });
}
