/* The protocols that load generator speaks: how a key is asked for, and what the reply says.
 *
 *   segar      MessagePack-RPC get           replies in any order
 *   classic    memcached's `get`             replies in order, as all that follow
 *   meta       memcached's `mg KEY v`
 *   redis      GET
 *   echo       bytes for bytes: the limit
 *
 * A key is a prefix and ten digits, a value begins with the same ten digits: so that each reply
 * tells whether it is the right one. Requests are a template in which the digits are replaced.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum protocol { PROTOCOL_SEGAR, PROTOCOL_CLASSIC, PROTOCOL_META, PROTOCOL_REDIS, PROTOCOL_ECHO };

enum {
	KEY_DIGITS = 10,
	CODEC_HEAD_MAX = 4096, /* bytes of a reply that are kept until it can be read */
};

struct codec {
	enum protocol protocol;
	bool fill; /* the keys are set (segar: asked for once) */
	size_t value_len;
	char *request; /* owned */
	size_t request_len, digits_at;
	size_t id_at;   /* segar: where the slot is written */
	bool wide_id;   /* by two bytes */
	size_t body_at; /* where a value to be set begins with the key's digits; 0: none */
	char head[160]; /* of a reply, the key's digits left out */
	size_t head_len, head_digits_at; /* digits_at 0: none */
	size_t tail_len;                 /* behind the value */
};

/* The protocol of that name, or -1. */
int protocol_from_name(const char *name);

/* For keys with this prefix and values of this length, KEY_DIGITS or more; at most `slots`, up to
 * 65536, are in flight on a connection. 0, or -1: the prefix is too long, or memory is missing. */
int codec_init(struct codec *codec, enum protocol protocol, bool fill, const char *prefix,
	       size_t value_len, uint32_t slots) __attribute__((warn_unused_result));
void codec_close(struct codec *codec);

/* Writes the request for `key` to `at`: request_len bytes. Where replies come in any order, `slot`
 * is what names it. */
void codec_put(const struct codec *codec, char *at, uint32_t key, uint32_t slot);

enum reply_kind {
	REPLY_MORE,  /* not enough has come to say */
	REPLY_FRESH, /* the value, or what was set is stored */
	REPLY_STALE, /* the value, but not fresh */
	REPLY_MISS,  /* no such key */
	REPLY_ERROR,
	REPLY_BROKEN, /* no reply of this protocol */
};

struct reply {
	size_t used;        /* bytes that are read */
	size_t rest;        /* bytes that follow and are part of it */
	uint32_t slot;      /* segar: which request it answers */
	const char *digits; /* the value's, KEY_DIGITS; NULL: it has none */
};

/* Looks at the reply that begins at `data`. `key`: the one that is due, where replies are in order.
 */
enum reply_kind codec_take(const struct codec *codec, const char *data, size_t len, uint32_t key,
			   struct reply *ret_reply);

/* Ten digits. */
void codec_digits(char *at, uint32_t key);
