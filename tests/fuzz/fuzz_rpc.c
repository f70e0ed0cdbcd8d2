/* Bytes as a connection gets them: cut anywhere, read by every path that there is.
 *
 * The input's first byte sets how long the pieces are, the rest is the stream. Whatever the cut,
 * the messages must be the same; the hot path must read what the general path does; what is read
 * as a result must be written and read back as it was.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/key.h"
#include "proto/method.h"
#include "proto/result.h"
#include "proto/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_call(const struct rpc_message *message)
{
	static char scratch[KEY_TEXT_MAX];
	const int method = method_from_name(message->method.data, message->method.len);
	struct options options;
	struct wire_error error;
	struct wire_span skipped;
	struct wire_key key;
	struct reader r;

	reader_init(&r, message->params.data, message->params.len);
	/* Each complete message holds as many params as it says. */
	for (uint32_t i = 0; i < message->params_count; i++)
		assert(reader_skip(&r, &skipped));
	assert(reader_at_end(&r));

	reader_init(&r, message->params.data, message->params.len);
	if (method >= 0 && key_read(&r, scratch, &key, &error) == STATUS_OK &&
	    options_read(&r, (enum method)method, &options, &error) == STATUS_OK)
		assert(reader_at_end(&r));
}

static void read_result(struct wire_span encoded)
{
	struct result result, again;
	struct wire_span text;
	struct wire_buf b;
	int64_t retry;

	if (result_read_error(encoded, &text))
		rpc_read_error_text(text, &text, &retry);
	if (!result_read(encoded, &result))
		return;
	wire_buf_init(&b, WIRE_REPLY_MAX);
	result_put(&b, &result);
	if (result.has_value)
		wire_buf_raw(&b, result.value, result.value_len);
	assert(!wire_buf_failed(&b));
	assert(result_read((struct wire_span){ (char *)b.data, b.len }, &again));
	assert(again.state == result.state && again.reason == result.reason);
	assert(again.source == result.source && again.age_ms == result.age_ms);
	assert(again.has_version == result.has_version && again.has_value == result.has_value);
	assert(!result.has_version || again.version == result.version);
	assert(!result.has_value || (again.value_len == result.value_len &&
				     !memcmp(again.value, result.value, result.value_len)));
	wire_buf_close(&b);
}

static void read_message(const uint8_t *frame, size_t len)
{
	struct rpc_message message;
	const char *why = NULL;
	struct wire_span text, key;
	int64_t retry;
	uint32_t id, plain_id;
	const enum rpc_verdict verdict = rpc_parse(frame, len, &message, &why);

	assert(verdict == RPC_PARSED || why);
	if (rpc_parse_plain_get(frame, len, &plain_id, &key)) {
		assert(verdict == RPC_PARSED && message.type == RPC_REQUEST);
		assert(message.id == plain_id);
		assert(message.method.len == 3 && !memcmp(message.method.data, "get", 3));
	}
	if (rpc_peek_id(frame, len, &id))
		assert(verdict != RPC_BROKEN && message.id == id);
	if (verdict != RPC_PARSED)
		return;
	if (message.type == RPC_RESPONSE) {
		rpc_read_error(message.error, &text, &retry);
		read_result(message.result);
	} else {
		read_call(&message);
	}
}

/* Where the messages of the stream end, cut into pieces of `piece` bytes. Returns how many there
 * are, and the verdict that ended it. */
static size_t scan_stream(const uint8_t *data, size_t size, size_t piece, size_t *ends,
			  enum frame_verdict *ret_last)
{
	struct frame_scan scan = { 0 };
	size_t begin = 0, got = 0, count = 0, len;
	const char *why = NULL;

	for (;;) {
		*ret_last = frame_scan(&scan, data + begin, got - begin, 4096, &len, &why);
		if (*ret_last == FRAME_COMPLETE) {
			begin += len;
			ends[count++] = begin;
		} else if (*ret_last != FRAME_MORE || got == size) {
			return count;
		} else {
			got = size - got < piece ? size : got + piece;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t piece = size > 0 ? 1 + data[0] % 32 : 1;
	enum frame_verdict last, last_whole;
	size_t *ends, *ends_whole, count, begin = 0;

	if (size == 0)
		return 0;
	data++;
	size--;
	ends = malloc((size + 1) * sizeof(*ends));
	ends_whole = malloc((size + 1) * sizeof(*ends_whole));
	count = scan_stream(data, size, piece, ends, &last);
	assert(scan_stream(data, size, size + 1, ends_whole, &last_whole) == count);
	assert(last == last_whole);
	assert(memcmp(ends, ends_whole, count * sizeof(*ends)) == 0);

	for (size_t i = 0; i < count; begin = ends[i++]) {
		/* In a block of its own, so that a read past its end is seen. */
		const size_t len = ends[i] - begin;
		uint8_t *frame = malloc(len);

		memcpy(frame, data + begin, len);
		read_message(frame, len);
		free(frame);
	}
	free(ends);
	free(ends_whole);
	return 0;
}
