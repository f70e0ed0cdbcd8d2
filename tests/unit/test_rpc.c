#include "proto/rpc.h"

#include <criterion/criterion.h>
#include <stdio.h>

#include "proto/frame.h"
#include "proto/method.h"
#include "proto/utf8.h"
#include "wire_help.h"

static bool span_is(struct wire_span span, const char *text)
{
	return span.len == strlen(text) && memcmp(span.data, text, span.len) == 0;
}

Test(rpc, requests_are_read_in_every_encoding)
{
	/* [0, 5, "get", ["k"]] */
	const char *same[] = {
		"94 00 05 a3 67 65 74 91 a1 6b",
		"dc 00 04 cc 00 cc 05 d9 03 67 65 74 dc 00 01 a1 6b",
		"dd 00 00 00 04 cd 00 00 cd 00 05 da 00 03 67 65 74 dd 00 00 00 01 a1 6b",
		"94 ce 00 00 00 00 ce 00 00 00 05 db 00 00 00 03 67 65 74 91 a1 6b",
		"94 cf 00 00 00 00 00 00 00 00 cf 00 00 00 00 00 00 00 05 c4 03 67 65 74 91 a1 6b",
		"94 d0 00 d0 05 c5 00 03 67 65 74 91 a1 6b",
		"94 d1 00 00 d1 00 05 c6 00 00 00 03 67 65 74 91 a1 6b",
		"94 d2 00 00 00 00 d2 00 00 00 05 a3 67 65 74 91 a1 6b",
		"94 d3 00 00 00 00 00 00 00 00 d3 00 00 00 00 00 00 00 05 a3 67 65 74 91 a1 6b",
	};

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		struct bytes m = bytes_from_hex(same[i], NULL);
		struct rpc_message message;
		const char *why = NULL;
		uint32_t id = 0;

		cr_assert_eq(rpc_parse(m.data, m.len, &message, &why), RPC_PARSED, "%s: %s",
			     same[i], why);
		cr_assert_eq(message.type, RPC_REQUEST);
		cr_assert_eq(message.id, 5);
		cr_assert(span_is(message.method, "get"));
		cr_assert_eq(message.params_count, 1);
		cr_assert(span_is(message.params, "\xa1k"));
		cr_assert(rpc_peek_id(m.data, m.len, &id));
		cr_assert_eq(id, 5);
		free(m.data);
	}
}

static const struct {
	const char *hex;
	enum rpc_verdict verdict;
	const char *why;
} wrong[] = {
	{ "c0", RPC_BROKEN, "the message is not an array" },
	{ "05", RPC_BROKEN, "the message is not an array" },
	{ "a3 67 65 74", RPC_BROKEN, "the message is not an array" },
	{ "84 00 05 01 c0 02 c0 03 c0", RPC_BROKEN, "the message is not an array" },
	{ "90", RPC_BROKEN, "the message's type is not 0, 1 or 2" },
	{ "94 03 05 a3 67 65 74 90", RPC_BROKEN, "the message's type is not 0, 1 or 2" },
	{ "94 ff 05 a3 67 65 74 90", RPC_BROKEN, "the message's type is not 0, 1 or 2" },
	{ "94 c2 05 a3 67 65 74 90", RPC_BROKEN, "the message's type is not 0, 1 or 2" },
	{ "94 cf 00 00 00 01 00 00 00 00 05 a3 67 65 74 90", RPC_BROKEN,
	  "the message's type is not 0, 1 or 2" },
	{ "91 00", RPC_BROKEN, "the id is not a u32" },
	{ "94 00 ff a3 67 65 74 90", RPC_BROKEN, "the id is not a u32" },
	{ "94 00 c0 a3 67 65 74 90", RPC_BROKEN, "the id is not a u32" },
	{ "94 00 a1 35 a3 67 65 74 90", RPC_BROKEN, "the id is not a u32" },
	{ "94 00 ca 40 a0 00 00 a3 67 65 74 90", RPC_BROKEN, "the id is not a u32" },
	{ "94 00 cf 00 00 00 01 00 00 00 00 a3 67 65 74 90", RPC_BROKEN, "the id is not a u32" },
	{ "92 00 05", RPC_REFUSED, "a request has four elements" },
	{ "93 00 05 a3 67 65 74", RPC_REFUSED, "a request has four elements" },
	{ "95 00 05 a3 67 65 74 90 c0", RPC_REFUSED, "a request has four elements" },
	{ "94 00 05 c0 90", RPC_REFUSED, "the method is not a string" },
	{ "94 00 05 07 90", RPC_REFUSED, "the method is not a string" },
	{ "94 00 05 91 a3 67 65 74 90", RPC_REFUSED, "the method is not a string" },
	{ "94 00 05 a3 67 65 74 c0", RPC_REFUSED, "params is not an array" },
	{ "94 00 05 a3 67 65 74 80", RPC_REFUSED, "params is not an array" },
	{ "94 00 05 a3 67 65 74 a1 6b", RPC_REFUSED, "params is not an array" },
	{ "91 01", RPC_BROKEN, "a response has four elements" },
	{ "93 01 05 c0", RPC_BROKEN, "a response has four elements" },
	{ "94 01 c0 c0 c0", RPC_BROKEN, "the id is not a u32" },
	{ "91 02", RPC_BROKEN, "a notification has three elements" },
	{ "94 02 05 a3 67 65 74 90", RPC_BROKEN, "a notification has three elements" },
	{ "93 02 05 90", RPC_BROKEN, "the method is not a string" },
	{ "93 02 a1 6d c0", RPC_BROKEN, "params is not an array" },
};

Test(rpc, what_is_no_message_is_told_from_a_request_with_a_fault)
{
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct bytes m = bytes_from_hex(wrong[i].hex, NULL);
		struct rpc_message message = { .id = 77 };
		struct frame_scan scan = { 0 };
		const char *why = NULL;
		size_t len;

		/* Each is good MessagePack: only its meaning is wrong. */
		cr_assert_eq(frame_scan(&scan, m.data, m.len, m.len, &len, &why), FRAME_COMPLETE);
		cr_assert_eq(len, m.len, "%s", wrong[i].hex);
		cr_assert_eq(rpc_parse(m.data, m.len, &message, &why), wrong[i].verdict, "%s",
			     wrong[i].hex);
		cr_assert_str_eq(why, wrong[i].why, "%s: %s", wrong[i].hex, why);
		cr_assert_eq(message.id, wrong[i].verdict == RPC_REFUSED ? 5 : 77);
		free(m.data);
	}
}

Test(rpc, ids_are_all_of_u32)
{
	const uint32_t ids[] = { 0, 127, 128, 255, 256, 65535, 65536, UINT32_MAX };
	struct wire_buf b;

	wire_buf_init(&b, 1000);
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct rpc_message message;
		const char *why;

		wire_buf_rewind(&b, 0);
		rpc_put_request(&b, ids[i], "ping", 0);
		cr_assert_eq(rpc_parse(b.data, b.len, &message, &why), RPC_PARSED);
		cr_assert_eq(message.id, ids[i]);
		wire_buf_rewind(&b, 0);
		rpc_put_response(&b, ids[i]);
		wire_buf_str(&b, "pong");
		cr_assert_eq(rpc_parse(b.data, b.len, &message, &why), RPC_PARSED);
		cr_assert_eq(message.type, RPC_RESPONSE);
		cr_assert_eq(message.id, ids[i]);
		cr_assert(span_is(message.error, "\xc0"));
		cr_assert(span_is(message.result, "\xa4pong"));
	}
	wire_buf_close(&b);
}

Test(rpc, a_notification_has_no_id)
{
	struct rpc_message message;
	struct wire_buf b;
	const char *why;
	uint32_t id;

	wire_buf_init(&b, 1000);
	rpc_put_notification(&b, "nvim_set_client_info", 2);
	wire_buf_str(&b, "client");
	wire_buf_map(&b, 0);
	cr_assert_eq(rpc_parse(b.data, b.len, &message, &why), RPC_PARSED);
	cr_assert_eq(message.type, RPC_NOTIFICATION);
	cr_assert(span_is(message.method, "nvim_set_client_info"));
	cr_assert_eq(message.params_count, 2);
	cr_assert_not(rpc_peek_id(b.data, b.len, &id));
	wire_buf_close(&b);
}

Test(rpc, the_id_is_seen_as_soon_as_it_has_come)
{
	struct bytes m = bytes_from_hex("94 00 ce 00 01 00 00 a3 67 65 74 dd ff ff ff ff", NULL);

	for (size_t len = 0; len <= m.len; len++) {
		uint32_t id = 77;

		cr_assert_eq(rpc_peek_id(m.data, len, &id), len >= 7);
		cr_assert_eq(id, len >= 7 ? 65536 : 77);
	}
	free(m.data);
}

/* Params of a get that has nothing but the key: what the hot path must read the same. */
static bool is_plain_get(const struct rpc_message *message, struct wire_span *ret_key)
{
	struct reader r;
	struct mp_value key, options;

	reader_init(&r, message->params.data, message->params.len);
	if (message->type != RPC_REQUEST || !span_is(message->method, "get") ||
	    message->params_count < 1 || message->params_count > 2 || !reader_next(&r, &key) ||
	    key.type != MP_STR)
		return false;
	if (message->params_count == 2 &&
	    (!reader_next(&r, &options) || options.type != MP_MAP || options.count != 0))
		return false;
	*ret_key = key.bytes;
	return reader_at_end(&r);
}

/* A request get in random encodings, often with a byte or two wrong. */
static void put_random_get(struct wire_buf *b, uint64_t *state)
{
	static const uint8_t sizes[] = { 1, 2, 4 };
	const uint64_t kind = random_below(state, 4), len = random_below(state, 300);
	const bool options = random_below(state, 2);

	wire_buf_array(b, 4);
	put_byte(b, 0);
	if (kind == 3)
		put_byte(b, (uint8_t)random_below(state, 128));
	else
		put_head(b, (uint8_t)(0xcc + kind), random_next(state), sizes[kind]);
	wire_buf_str(b, "get");
	wire_buf_array(b, 1 + options);
	if (random_below(state, 2))
		put_head(b, 0xda, len, 2);
	else
		put_head(b, len < 32 ? (uint8_t)(0xa0 + len) : 0xd9, len < 256 ? len : 255,
			 len >= 32);
	put_random_bytes(b, state, len < 256 ? len : 255);
	if (options)
		wire_buf_map(b, 0);
	for (uint64_t n = random_below(state, 3); n > 0; n--)
		b->data[random_below(state, b->len < 20 ? b->len : 20)] =
			(uint8_t)random_next(state);
	b->len -= random_below(state, 8) ? 0 : random_below(state, b->len);
}

Test(rpc, the_hot_path_reads_what_the_general_path_does)
{
	unsigned taken = 0, left = 0;
	struct wire_buf b;

	wire_buf_init(&b, 1000);
	for (uint64_t seed = 0; seed < 100000; seed++) {
		uint64_t state = seed;
		struct frame_scan scan = { 0 };
		struct wire_span fast_key = { NULL, 0 }, key = { NULL, 0 };
		struct rpc_message message;
		const char *why;
		size_t fast_len, len;
		uint32_t id = 0;
		struct bytes m;

		wire_buf_rewind(&b, 0);
		put_random_get(&b, &state);
		m = bytes_copy(b.data, b.len);
		fast_len = rpc_parse_plain_get(m.data, m.len, &id, &fast_key);
		if (fast_len == 0) {
			left++;
			cr_assert_null(fast_key.data);
		} else {
			taken++;
			cr_assert_eq(frame_scan(&scan, m.data, m.len, m.len, &len, &why),
				     FRAME_COMPLETE, "seed %lu", seed);
			cr_assert_eq(fast_len, len, "seed %lu", seed);
			cr_assert_eq(rpc_parse(m.data, len, &message, &why), RPC_PARSED);
			cr_assert(is_plain_get(&message, &key), "seed %lu", seed);
			cr_assert_eq(id, message.id, "seed %lu", seed);
			cr_assert_eq(fast_key.data, key.data, "seed %lu", seed);
			cr_assert_eq(fast_key.len, key.len, "seed %lu", seed);
		}
		free(m.data);
	}
	wire_buf_close(&b);
	/* The test would be worth nothing if one way were hardly gone. */
	cr_assert_gt(taken, 20000);
	cr_assert_gt(left, 20000);
}

Test(rpc, the_hot_path_takes_the_usual_encodings)
{
	const char *usual[] = {
		"94 00 05 a3 67 65 74 91 a4 6b 73 3a 31",
		"94 00 05 a3 67 65 74 92 a4 6b 73 3a 31 80",
		"94 00 cc 80 a3 67 65 74 91 d9 04 6b 73 3a 31",
		"94 00 cd 01 00 a3 67 65 74 92 d9 04 6b 73 3a 31 80",
		"94 00 ce 00 01 00 00 a3 67 65 74 91 da 00 04 6b 73 3a 31",
		"94 00 7f a3 67 65 74 92 a1 6b 80",
	};

	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
		struct bytes m = bytes_from_hex(usual[i], NULL);
		struct wire_span key;
		uint32_t id;

		cr_assert_eq(rpc_parse_plain_get(m.data, m.len, &id, &key), m.len, "%s", usual[i]);
		for (size_t len = 0; len < m.len; len++) {
			struct bytes cut = bytes_copy(m.data, len);

			cr_assert_eq(rpc_parse_plain_get(cut.data, len, &id, &key), 0);
			free(cut.data);
		}
		free(m.data);
	}
}

/* What a client reads of a response with this error. */
static int put_and_read(enum status status, int64_t retry_after_ms, const char *text, size_t len,
			char ret_text[2000], int64_t *ret_retry_after_ms)
{
	struct rpc_message message;
	struct wire_span span;
	struct wire_buf b;
	const char *why;
	int read;

	wire_buf_init(&b, 5000);
	rpc_put_error(&b, 9, status, retry_after_ms, text, len);
	cr_assert_eq(rpc_parse(b.data, b.len, &message, &why), RPC_PARSED);
	cr_assert_eq(message.type, RPC_RESPONSE);
	cr_assert_eq(message.id, 9);
	cr_assert(span_is(message.result, "\xc0"));
	read = rpc_read_error(message.error, &span, ret_retry_after_ms);
	memcpy(ret_text, span.data, span.len);
	ret_text[span.len] = '\0';
	wire_buf_close(&b);
	return read;
}

Test(rpc, errors_arrive_as_they_were_sent)
{
	char text[2000];
	int64_t retry;

	for (int i = 1; i < STATUS_COUNT; i++) {
		cr_assert_eq(put_and_read((enum status)i, -1, "why: so", 7, text, &retry), i);
		cr_assert_str_eq(text, "why: so");
		cr_assert_eq(retry, -1);
		cr_assert_eq(put_and_read((enum status)i, 1590, "why", 3, text, &retry), i);
		cr_assert_str_eq(text, "why retry_after_ms=1590");
		cr_assert_eq(retry, 1590);
	}
	cr_assert_eq(put_and_read(STATUS_OVERLOADED, 0, "", 0, text, &retry), STATUS_OVERLOADED);
	cr_assert_eq(retry, 0);
}

Test(rpc, an_errors_text_becomes_one_line_of_utf8)
{
	char text[2000];
	int64_t retry;

	put_and_read(STATUS_ORIGIN_ERROR, -1, "ERROR: a\nLINE 1:\t\x7f\xff\xc3\xa9\xc3", 22, text,
		     &retry);
	cr_assert_str_eq(text, "ERROR: a LINE 1:  ?\xc3\xa9?");
	put_and_read(STATUS_ORIGIN_ERROR, -1, "a\0b", 3, text, &retry);
	cr_assert_str_eq(text, "a b");
	put_and_read(STATUS_ORIGIN_ERROR, -1, "a\xff", 2, text, &retry);
	cr_assert_str_eq(text, "a?");
}

Test(rpc, an_errors_text_is_cut_at_its_maximum)
{
	char text[2000], sent[4000];
	int64_t retry;

	for (size_t lead = 0; lead < 3; lead++) {
		memset(sent, 'a', sizeof(sent));
		for (size_t at = lead; at + 3 <= sizeof(sent); at += 3)
			memcpy(sent + at, "\xe2\x82\xac", 3);
		put_and_read(STATUS_ORIGIN_ERROR, 7, sent, sizeof(sent), text, &retry);
		cr_assert_eq(retry, 7);
		cr_assert_leq(strlen(text), WIRE_ERROR_TEXT_MAX + strlen(" retry_after_ms=7"));
		cr_assert_geq(strlen(text), WIRE_ERROR_TEXT_MAX);
		cr_assert_eq(utf8_valid_len(text, strlen(text)), strlen(text));
	}
	memset(sent, 0xff, sizeof(sent));
	put_and_read(STATUS_ORIGIN_ERROR, -1, sent, sizeof(sent), text, &retry);
	cr_assert_eq(strspn(text, "?"), WIRE_ERROR_TEXT_MAX);
}

/* Errors of other makes, and their reading. */
static const struct {
	const char *hex;
	int status;
	const char *text;
	int64_t retry_after_ms;
} errors[] = {
	{ "a8 74 69 6d 65 6f 75 74 3a", STATUS_TIMEOUT, "", -1 },              /* "timeout:" */
	{ "92 00 a9 74 69 6d 65 6f 75 74 3a 78", STATUS_TIMEOUT, "x", -1 },    /* "timeout:x" */
	{ "92 c0 c4 09 74 69 6d 65 6f 75 74 3a 78", STATUS_TIMEOUT, "x", -1 }, /* as a binary */
	{ "92 00 a6 74 69 6d 65 6f 75", -1, "timeou", -1 },
	{ "92 00 a5 6f 6b 3a 20 78", -1, "ok: x", -1 },
	{ "92 00 a5 6e 65 77 3a 78", -1, "new:x", -1 },
	{ "92 00 05", -1, "", -1 },
	{ "91 a1 78", -1, "x", -1 },
	{ "05", -1, "", -1 },
	{ "", -1, "", -1 },
	{ "a0", -1, "", -1 },
	/* " retry_after_ms=12", without its number, with one too long, without its blank */
	{ "b2 20 72 65 74 72 79 5f 61 66 74 65 72 5f 6d 73 3d 31 32", -1, " retry_after_ms=12",
	  12 },
	{ "b0 20 72 65 74 72 79 5f 61 66 74 65 72 5f 6d 73 3d", -1, " retry_after_ms=", -1 },
	{ "d9 20 20 72 65 74 72 79 5f 61 66 74 65 72 5f 6d 73 3d 31 32 33 34 35 36 37 38 39 30 31 "
	  "32"
	  " 33 34 35 36",
	  -1, " retry_after_ms=1234567890123456", -1 },
	{ "b1 72 65 74 72 79 5f 61 66 74 65 72 5f 6d 73 3d 31 32", -1, "retry_after_ms=12", -1 },
};

Test(rpc, errors_of_other_shapes_are_read_as_far_as_they_go)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct bytes m = bytes_from_hex(errors[i].hex, NULL);
		struct wire_span text;
		int64_t retry = 77;

		cr_assert_eq(
			rpc_read_error((struct wire_span){ (char *)m.data, m.len }, &text, &retry),
			errors[i].status, "%s", errors[i].hex);
		cr_assert(span_is(text, errors[i].text), "%s", errors[i].hex);
		cr_assert_eq(retry, errors[i].retry_after_ms, "%s", errors[i].hex);
		free(m.data);
	}
}
