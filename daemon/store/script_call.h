/* A script's call: by its SHA-1, and once more with its text where the server does not know it
 * (restarted, failed over, SCRIPT FLUSH).
 *
 * Embedded in its owner, which keeps it in place until `done`. On the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/link.h"
#include "store/scripts.h"

enum { SCRIPT_ARGS_MAX = 24, SCRIPT_SPACE = 640 };

/* The words of one command. Numbers are kept in `space`; all else is borrowed until it is sent. */
struct script_args {
	int count;
	const char *at[SCRIPT_ARGS_MAX];
	size_t lens[SCRIPT_ARGS_MAX];
	size_t used;
	char space[SCRIPT_SPACE];
};

void args_bytes(struct script_args *args, const void *bytes, size_t len);
void args_text(struct script_args *args, const char *text);
void args_number(struct script_args *args, int64_t number); /* in decimal */
void args_real(struct script_args *args, double number);
void args_u64(struct script_args *args, uint64_t number); /* 8 bytes, high byte first */
void args_u32(struct script_args *args, uint32_t number); /* 4 bytes */
void args_flag(struct script_args *args, bool flag);

struct script_call {
	struct link_call call;
	struct link *link;
	enum script_name script;
	uint32_t keys_count;
	bool with_text;

	/* Appends the keys, then the arguments. Called again for the second try. */
	void (*write)(struct script_call *call, struct script_args *args);

	/* Once, never inside script_call_send: with the reply, a list that begins with a word, or
	   NULL and the error; an error reply's text is `text`, else NULL. Borrowed for the call. */
	void (*done)(struct script_call *call, const redisReply *reply, enum store_error error,
		     const char *text);
};

/* Sends it over the link, in GREETING or READY. False where the connection has just broken: then
   `done` does not fire. */
bool script_call_send(struct script_call *call, struct link *link)
	__attribute__((warn_unused_result));

/* Readers of a reply's items; false, or the value given, where the item is of another kind. */
bool reply_is(const redisReply *reply, const char *word, size_t items);
int64_t reply_number(const redisReply *reply, size_t item);
uint64_t reply_u64(const redisReply *reply, size_t item); /* 8 bytes, high byte first */
