#include "rpc/inspect.h"

#include "rpc/reply.h"

static const char *phase_name(const struct entry *entry, int64_t now_us)
{
	switch (entry_phase(entry, now_us)) {
	case ENTRY_FRESH:
		return "fresh";
	case ENTRY_STALE:
		return "stale";
	case ENTRY_DEAD:
		return "dead";
	}
	return "dead";
}

static void put_int(struct wire_buf *b, const char *name, int64_t number)
{
	wire_buf_str(b, name);
	wire_buf_int(b, number);
}

static void put_int_or_nil(struct wire_buf *b, const char *name, bool is_known, int64_t number)
{
	wire_buf_str(b, name);
	if (is_known)
		wire_buf_int(b, number);
	else
		wire_buf_nil(b);
}

/* Fences are above 2^63 never, as they begin as µs of the clock and grow by one. */
static void put_entry(struct wire_buf *b, const struct entry *entry, int64_t now_us, unsigned more)
{
	wire_buf_map(b, 11 + more);
	wire_buf_str(b, "phase");
	wire_buf_str(b, phase_name(entry, now_us));
	wire_buf_str(b, "absent");
	wire_buf_bool(b, entry->absent);
	wire_buf_str(b, "bytes");
	if (entry->value)
		wire_buf_int(b, entry->value->len);
	else
		wire_buf_nil(b);
	wire_buf_str(b, "version");
	if (entry->has_version)
		wire_buf_int(b, entry->version);
	else
		wire_buf_nil(b);
	put_int(b, "fence", (int64_t)entry->fence);
	put_int(b, "covers", entry->covers);
	put_int(b, "age_ms", ms_passed(now_us - entry->generated_at_us));
	put_int(b, "fresh_for_ms", ms_passed(entry->fresh_until_us - now_us));
	put_int(b, "stale_for_ms", ms_passed(entry->stale_until_us - now_us));
	put_int(b, "build_us", entry->build_us);
	wire_buf_str(b, "changed");
	wire_buf_bool(b, entry->changed);
}

static void put_near(struct wire_buf *b, const struct inspection *inspection)
{
	if (!inspection->has_near) {
		wire_buf_nil(b);
		return;
	}
	put_entry(b, &inspection->near, inspection->now_us, 1);
	put_int(b, "refresh_in_ms", ms_up(inspection->refresh_in_us));
}

static void put_failure(struct wire_buf *b, const struct inspection *inspection)
{
	const struct failure *failure = &inspection->failure;

	wire_buf_str(b, "failure");
	if (!inspection->has_failure) {
		wire_buf_nil(b);
		return;
	}
	wire_buf_map(b, 3);
	wire_buf_str(b, "code");
	wire_buf_str(b, status_name(failure->status));
	wire_buf_str(b, "text");
	if (failure->text)
		wire_buf_str_len(b, failure->text->bytes, failure->text->len);
	else
		wire_buf_str(b, status_text(failure->status));
	put_int(b, "for_ms", ms_passed(failure->until_us - inspection->now_us));
}

static void put_claim(struct wire_buf *b, const struct inspection *inspection)
{
	if (!inspection->has_claim) {
		wire_buf_nil(b);
		return;
	}
	wire_buf_map(b, 6);
	put_int(b, "fence", (int64_t)inspection->claim_fence);
	put_int(b, "floor", (int64_t)inspection->claim_floor);
	put_int(b, "held_ms", ms_up(inspection->claim_held_us));
	put_int_or_nil(b, "held_since_ms", inspection->claim_age_us > 0,
		       ms_passed(inspection->claim_age_us));
	put_int_or_nil(b, "holder", inspection->claim_held_us > 0 && inspection->claim_holder >= 0,
		       inspection->claim_holder);
	put_failure(b, inspection);
}

static void put_flight(struct wire_buf *b, const struct inspection *inspection)
{
	if (!inspection->has_flight) {
		wire_buf_nil(b);
		return;
	}
	wire_buf_map(b, 4);
	wire_buf_str(b, "state");
	wire_buf_str(b, inspection->flight_state);
	put_int(b, "age_ms", ms_passed(inspection->flight_age_us));
	put_int(b, "waiters", inspection->flight_waiters);
	put_int(b, "keys", inspection->flight_keys);
}

void inspect_put(struct wire_buf *b, const struct inspection *inspection)
{
	wire_buf_map(b, 5);
	wire_buf_str(b, "key");
	wire_buf_str_len(b, inspection->key.bytes, inspection->key.len);
	wire_buf_str(b, "near");
	put_near(b, inspection);
	wire_buf_str(b, "store");
	if (inspection->has_store)
		put_entry(b, &inspection->store, inspection->now_us, 0);
	else
		wire_buf_nil(b);
	wire_buf_str(b, "claim");
	put_claim(b, inspection);
	wire_buf_str(b, "flight");
	put_flight(b, inspection);
}
