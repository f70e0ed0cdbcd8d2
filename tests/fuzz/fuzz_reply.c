/* Any message as the daemon's answer to each kind of call of libsegar. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/reply.h"
#include "proto/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
	assert(text && strlen(text) <= WIRE_REPLY_MAX);
}

/* Reads all that the reply points to, for the sanitizer to see. */
static void check_reply(const segar_reply *reply)
{
	static volatile char sink;

	assert((reply->status == SEGAR_OK) == (*reply->error == '\0') || !reply->results_count);
	check_text(reply->error);
	for (size_t i = 0; i < reply->encoded_len; i++)
		sink = ((const char *)reply->encoded)[i];
	for (size_t i = 0; i < reply->results_count; i++) {
		const segar_result *result = &reply->results[i];

		check_text(result->error);
		assert(result->value || result->value_len == 0);
		for (size_t at = 0; at < result->value_len; at++)
			sink = ((const char *)result->value)[at];
	}
	(void)sink;
}

static void answer(const struct call *call, const uint8_t *data, size_t size)
{
	struct link_message message = { .memory = malloc(size), .len = size };
	struct rpc_message response;
	segar_reply *reply;
	const char *why;

	memcpy(message.memory, data, size);
	message.data = message.memory;
	if (rpc_parse(message.data, size, &response, &why) != RPC_PARSED ||
	    response.type != RPC_RESPONSE) {
		free(message.memory);
		return;
	}
	reply = reply_create(call, &response, message);
	check_reply(reply);
	segar_reply_free(reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum call_shape shapes[] = { CALL_ANY, CALL_RESULT, CALL_RESULTS,
						  CALL_REFRESHED };
	struct frame_scan scan = { 0 };
	const char *why;
	size_t len;

	if (frame_scan(&scan, data, size, WIRE_REPLY_MAX, &len, &why) != FRAME_COMPLETE)
		return 0;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		for (size_t keys = 0; keys < 4; keys++) {
			const struct call call = { .id = 1,
						   .shape = shapes[i],
						   .keys_count = keys };

			answer(&call, data, len);
		}
	}
	return 0;
}
