#include "proto/result.h"

#include <criterion/criterion.h>
#include <msgpack.h>

#include "proto/rpc.h"
#include "wire_help.h"

static void check_equal(const struct result *a, const struct result *b)
{
	cr_assert_eq(a->state, b->state);
	cr_assert_eq(a->reason, b->reason);
	cr_assert_eq(a->source, b->source);
	cr_assert_eq(a->has_value, b->has_value);
	cr_assert_eq(a->has_version, b->has_version);
	cr_assert(!a->has_version || a->version == b->version);
	cr_assert_eq(a->age_ms, b->age_ms);
	cr_assert_eq(a->ttl_ms, b->ttl_ms);
	cr_assert_eq(a->stale_ms, b->stale_ms);
	cr_assert(!a->has_value ||
		  (a->value_len == b->value_len && memcmp(a->value, b->value, a->value_len) == 0));
}

static struct result random_result(uint64_t *state, const char *value)
{
	return (struct result){
		.state = (enum result_state)random_below(state, RESULT_STATE_COUNT),
		.reason = (enum result_reason)random_below(state, RESULT_REASON_COUNT),
		.source = (enum result_source)random_below(state, RESULT_SOURCE_COUNT),
		.has_value = random_below(state, 4) > 0,
		.has_version = random_below(state, 4) > 0,
		.value = value,
		.value_len = (uint32_t)(random_next(state) >> (47 + random_below(state, 17))),
		.version = (int64_t)(random_next(state) >> random_below(state, 64)),
		.age_ms = (int64_t)(random_next(state) >> (1 + random_below(state, 63))),
		.ttl_ms = (int64_t)(random_next(state) >> (1 + random_below(state, 63))),
		.stale_ms = (int64_t)(random_next(state) >> (1 + random_below(state, 63))),
	};
}

Test(result, arrives_as_it_was_sent)
{
	char *value = calloc(1, 1 << 17);
	struct wire_buf b;

	wire_buf_init(&b, 1 << 20);
	for (uint64_t seed = 0; seed < 5000; seed++) {
		uint64_t state = seed;
		struct result sent = random_result(&state, value), got = { 0 };
		msgpack_unpacked unpacked;
		size_t end = 0;

		memset(value, (int)seed, 1 << 17);
		wire_buf_rewind(&b, 0);
		result_put(&b, &sent);
		if (sent.has_value)
			wire_buf_raw(&b, value, sent.value_len);
		cr_assert(result_read((struct wire_span){ (char *)b.data, b.len }, &got),
			  "seed %lu", seed);
		check_equal(&sent, &got);

		/* and msgpack-c takes it for a map of eight, to its last byte */
		msgpack_unpacked_init(&unpacked);
		cr_assert_eq(msgpack_unpack_next(&unpacked, (char *)b.data, b.len, &end),
			     MSGPACK_UNPACK_SUCCESS);
		cr_assert_eq(end, b.len);
		cr_assert_eq(unpacked.data.type, MSGPACK_OBJECT_MAP);
		cr_assert_eq(unpacked.data.via.map.size, 8);
		msgpack_unpacked_destroy(&unpacked);
	}
	wire_buf_close(&b);
	free(value);
}

Test(result, its_head_takes_the_longest_words_and_numbers)
{
	const struct result longest = {
		.state = RESULT_DEFAULT,
		.reason = RESULT_REASON_ORIGIN_ERROR,
		.source = RESULT_SOURCE_ORIGIN,
		.has_value = true,
		.has_version = true,
		.value_len = UINT32_MAX,
		.version = INT64_MIN,
		.age_ms = INT64_MAX,
		.ttl_ms = INT64_MAX,
		.stale_ms = INT64_MIN,
	};
	struct wire_buf b;

	/* An assert in result_put() watches the room that it took. */
	wire_buf_init(&b, 1000);
	result_put(&b, &longest);
	cr_assert_not(wire_buf_failed(&b));
	wire_buf_close(&b);
}

Test(result, without_room_the_buffer_fails_and_keeps_what_it_has)
{
	const struct result result = { .state = RESULT_FRESH };
	uint8_t memory[100];
	struct wire_buf b;

	wire_buf_wrap(&b, memory, sizeof(memory));
	wire_buf_nil(&b);
	result_put(&b, &result);
	cr_assert(wire_buf_failed(&b));
	cr_assert_eq(b.len, 1);
}

/* {"state": "fresh"} and one more pair. */
#define WITH_STATE "82 a5 73 74 61 74 65 a5 66 72 65 73 68 "

static const struct {
	const char *hex;
	bool good;
} maps[] = {
	{ "81 a5 73 74 61 74 65 a5 66 72 65 73 68", true },
	{ "81 c4 05 73 74 61 74 65 c4 05 66 72 65 73 68", true },
	{ WITH_STATE "a5 74 72 61 63 65 93 01 82 01 02 03 04 05", true }, /* unknown, nested */
	{ WITH_STATE "a6 72 65 61 73 6f 6e a3 6e 65 77", true },          /* reason: "new" */
	{ WITH_STATE "a6 73 6f 75 72 63 65 a3 6e 65 77", true },          /* source: "new" */
	{ WITH_STATE "a5 76 61 6c 75 65 a1 76", true },                   /* value as a str */
	{ "c0", false },
	{ "80", false },                                  /* no state */
	{ "81 a5 73 74 61 74 65 a4 66 72 65 73", false }, /* "fres" */
	{ "81 a5 73 74 61 74 65 c0", false },
	{ WITH_STATE "a5 76 61 6c 75 65 05", false },          /* value: 5 */
	{ WITH_STATE "a7 76 65 72 73 69 6f 6e a1 31", false }, /* version: "1" */
	{ WITH_STATE "a6 61 67 65 5f 6d 73 c0", false },       /* age_ms: nil */
	{ WITH_STATE "a6 74 74 6c 5f 6d 73 cf ff ff ff ff ff ff ff ff", false },
	{ WITH_STATE "05 05", false },                          /* a key that is 5 */
	{ WITH_STATE, false },                                  /* cut */
	{ "81 a5 73 74 61 74 65 a5 66 72 65 73 68 c0", false }, /* something follows */
	{ "df ff ff ff ff a5 73 74 61 74 65 a5 66 72 65 73 68", false },
};

Test(result, maps_of_newer_daemons_are_read_and_others_are_not)
{
	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		struct bytes m = bytes_from_hex(maps[i].hex, NULL);
		struct result result = { .age_ms = 77 };

		cr_assert_eq(result_read((struct wire_span){ (char *)m.data, m.len }, &result),
			     maps[i].good, "%s", maps[i].hex);
		cr_assert_eq(result.age_ms, maps[i].good ? 0 : 77);
		free(m.data);
	}
}

Test(result, words_of_newer_daemons_count_as_none)
{
	struct bytes m = bytes_from_hex(
		"83 a5 73 74 61 74 65 a5 66 72 65 73 68 a6 72 65 61 73 6f 6e a3 6e 65 77"
		" a6 73 6f 75 72 63 65 a3 6e 65 77",
		NULL);
	struct result result;

	cr_assert(result_read((struct wire_span){ (char *)m.data, m.len }, &result));
	cr_assert_eq(result.reason, RESULT_REASON_NONE);
	cr_assert_eq(result.source, RESULT_SOURCE_NONE);
	free(m.data);
}

Test(result, an_error_stands_in_for_one)
{
	struct wire_span encoded, error, text;
	struct result result;
	struct wire_buf b;
	int64_t retry;

	wire_buf_init(&b, 1000);
	result_put_error(&b, STATUS_OVERLOADED, 20, "the queue is full", 17);
	encoded = (struct wire_span){ (char *)b.data, b.len };
	cr_assert_not(result_read(encoded, &result));
	cr_assert(result_read_error(encoded, &error));
	cr_assert_eq(rpc_read_error_text(error, &text, &retry), STATUS_OVERLOADED);
	cr_assert_eq(retry, 20);
	cr_assert_eq(strncmp(text.data, "the queue is full retry_after_ms=20", text.len), 0);
	wire_buf_rewind(&b, 0);
	result_put(&b, &(struct result){ .state = RESULT_ABSENT });
	cr_assert_not(result_read_error((struct wire_span){ (char *)b.data, b.len }, &error));
	wire_buf_close(&b);
}

Test(result, a_fresh_one_is_written_on_the_hot_path_as_on_the_other)
{
	struct wire_buf hot, other;

	wire_buf_init(&hot, 1 << 20);
	wire_buf_init(&other, 1 << 20);
	for (uint64_t seed = 0; seed < 20000; seed++) {
		uint64_t state = seed;
		struct result result = random_result(&state, NULL);
		const uint32_t id = (uint32_t)(random_next(&state) >> (32 + seed % 32));

		result.state = RESULT_FRESH;
		result.reason = RESULT_REASON_NONE;
		result.source = RESULT_SOURCE_NEAR;
		result.stale_ms = 0;
		wire_buf_rewind(&hot, 0);
		wire_buf_rewind(&other, 0);
		result_put_fresh(&hot, id,
				 &(struct result_fresh){ .version = result.version,
							 .age_ms = result.age_ms,
							 .ttl_ms = result.ttl_ms,
							 .value_len = result.value_len,
							 .has_version = result.has_version,
							 .has_value = result.has_value });
		rpc_put_response(&other, id);
		result_put(&other, &result);
		cr_assert(hot.len == other.len && memcmp(hot.data, other.data, hot.len) == 0,
			  "seed %lu", seed);
	}
	wire_buf_close(&hot);
	wire_buf_close(&other);
}
