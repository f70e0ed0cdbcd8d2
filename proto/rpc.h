/* MessagePack-RPC: what a message says, and how one is written.
 *
 *	[0, id, method, params]     a request, answered once
 *	[1, id, error, result]      its answer; one of the two is nil
 *	[2, method, params]         a notification, never answered
 *
 * An error is [0, "code: text"], where code is a status' name; the text may end in
 * " retry_after_ms=N".
 *
 * Parsing borrows: spans point into the frame. Writing goes to a wire_buf, whose failure tells
 * that the message is not whole.
 */
#pragma once

#include <stdint.h>

#include "proto/reader.h"
#include "proto/wire.h"
#include "proto/wire_buf.h"

enum rpc_type { RPC_REQUEST = 0, RPC_RESPONSE = 1, RPC_NOTIFICATION = 2 };

struct rpc_message {
	enum rpc_type type;
	uint32_t id;             /* of a request or response */
	struct wire_span method; /* of a request or notification */
	uint32_t params_count;
	struct wire_span params; /* the encoded params, one after the other, without their array */
	struct wire_span error;  /* of a response: one encoded value each */
	struct wire_span result;
};

enum rpc_verdict {
	RPC_PARSED,
	RPC_REFUSED, /* a request with a fault, whose id is known: answer it with bad_request */
	RPC_BROKEN,  /* no message, or no id to answer to: close the connection */
};

/* Reads the message in `frame`, `len` bytes that frame_scan() found complete. On RPC_PARSED all of
 * `ret_message` is set, on RPC_REFUSED its type and id. `ret_why` is a static text unless the
 * verdict is RPC_PARSED. */
enum rpc_verdict rpc_parse(const void *frame, size_t len, struct rpc_message *ret_message,
			   const char **ret_why);

/* The id of the request that begins at `data`, of which the first `len` bytes have come. For a last
 * answer to a request that frame_scan() refuses. False if it isn't a request or not yet seen. */
bool rpc_peek_id(const void *data, size_t len, uint32_t *ret_id);

/* The hot path: if `data` begins with a whole request `get` of one string key and no options, in
 * its usual encoding, returns its length in bytes and sets its id and key; else 0, and the message
 * must go through frame_scan() and rpc_parse(). The key has not been checked. */
size_t rpc_parse_plain_get(const void *data, size_t len, uint32_t *ret_id,
			   struct wire_span *ret_key);

/* What the error of a response says: its status, or -1 if its code is none that we know; its text
 * without the code, borrowed; and the milliseconds after which to try again, or -1. */
int rpc_read_error(struct wire_span error, struct wire_span *ret_text, int64_t *ret_retry_after_ms);

/* Likewise of "code: text" alone, as it stands inside results. */
int rpc_read_error_text(struct wire_span all, struct wire_span *ret_text,
			int64_t *ret_retry_after_ms);

/* Begin a message; `params_count` values, or the result, must follow. */
void rpc_put_request(struct wire_buf *b, uint32_t id, const char *method, uint32_t params_count);
void rpc_put_notification(struct wire_buf *b, const char *method, uint32_t params_count);
void rpc_put_response(struct wire_buf *b, uint32_t id);

/* Room for what that writes. */
enum { RESPONSE_HEAD_MAX = 8 };

/* A whole response with an error. `text` may hold any bytes: what is not UTF-8 becomes '?', what is
 * over WIRE_ERROR_TEXT_MAX is cut. `retry_after_ms` < 0 says nothing on when to try again. */
void rpc_put_error(struct wire_buf *b, uint32_t id, enum status status, int64_t retry_after_ms,
		   const char *text, size_t len);

/* "code: text" as one value, for errors inside results; otherwise as rpc_put_error. */
void rpc_put_error_text(struct wire_buf *b, enum status status, int64_t retry_after_ms,
			const char *text, size_t len);
