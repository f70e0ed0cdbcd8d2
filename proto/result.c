#include "proto/result.h"

#include <assert.h>
#include <string.h>

#include "proto/mp.h"
#include "proto/reader.h"
#include "proto/rpc.h"

/* A name, padded so that it is copied by one move of a fixed size. */
struct word {
	char text[15];
	uint8_t len;
};

#define X(NAME, name) { #name, sizeof(#name) - 1 },
static const struct word states[] = { RESULT_STATE_MAP(X) };
static const struct word reasons[] = { RESULT_REASON_MAP(X) };
static const struct word sources[] = { RESULT_SOURCE_MAP(X) };
#undef X
#define X(NAME, name) char NAME[sizeof(#name)];
union longest_word {
	union {
		RESULT_STATE_MAP(X)
	} state;
	union {
		RESULT_REASON_MAP(X)
	} reason;
	union {
		RESULT_SOURCE_MAP(X)
	} source;
};
#undef X
static_assert(sizeof(union longest_word) <= sizeof(states[0].text), "a word is cut");

const char *result_state_name(enum result_state state)
{
	return states[state].text;
}

const char *result_reason_name(enum result_reason reason)
{
	return reasons[reason].text;
}

const char *result_source_name(enum result_source source)
{
	return sources[source].text;
}

/* The keys as they are encoded, the map's head in front of the first. */
#define KEY_STATE   "\x88\xa5state"
#define KEY_REASON  "\xa6reason"
#define KEY_SOURCE  "\xa6source"
#define KEY_VERSION "\xa7version"
#define KEY_AGE                                                                                    \
	"\xa6"                                                                                     \
	"age_ms"
#define KEY_TTL   "\xa6ttl_ms"
#define KEY_STALE "\xa8stale_ms"
#define KEY_VALUE "\xa5value"
#define KEYS      KEY_STATE KEY_REASON KEY_SOURCE KEY_VERSION KEY_AGE KEY_TTL KEY_STALE KEY_VALUE

/* Room for all but the value's bytes: keys, three words, four numbers, a binary's head. */
enum { RESULT_HEAD_MAX = sizeof(KEYS) + 3 * (1 + sizeof(struct word)) + 4 * MP_NUMBER_MAX + 5 };

#define put_literal(at, literal) put_bytes(at, literal, sizeof(literal) - 1)

static inline uint8_t *put_bytes(uint8_t *at, const char *bytes, size_t len)
{
	memcpy(at, bytes, len);
	return at + len;
}

static inline uint8_t *put_nil(uint8_t *at)
{
	*at = 0xc0;
	return at + 1;
}

static inline uint8_t *put_word(uint8_t *at, const struct word *word)
{
	*at++ = 0xa0 | word->len;
	memcpy(at, word->text, sizeof(word->text));
	return at + word->len;
}

void result_put(struct wire_buf *b, const struct result *result)
{
	uint8_t *at = wire_buf_reserve(b, RESULT_HEAD_MAX), *const from = at;

	if (!at)
		return;
	at = put_literal(at, KEY_STATE);
	at = put_word(at, &states[result->state]);
	at = put_literal(at, KEY_REASON);
	at = result->reason == RESULT_REASON_NONE ? put_nil(at)
						  : put_word(at, &reasons[result->reason]);
	at = put_literal(at, KEY_SOURCE);
	at = result->source == RESULT_SOURCE_NONE ? put_nil(at)
						  : put_word(at, &sources[result->source]);
	at = put_literal(at, KEY_VERSION);
	at = result->has_version ? mp_put_int(at, result->version) : put_nil(at);
	at = put_literal(at, KEY_AGE);
	at = mp_put_int(at, result->age_ms);
	at = put_literal(at, KEY_TTL);
	at = mp_put_int(at, result->ttl_ms);
	at = put_literal(at, KEY_STALE);
	at = mp_put_int(at, result->stale_ms);
	at = put_literal(at, KEY_VALUE);
	at = result->has_value ? mp_put_bin_head(at, result->value_len) : put_nil(at);
	assert(at - from <= RESULT_HEAD_MAX);
	b->len += (size_t)(at - from);
}

void result_put_fresh(struct wire_buf *b, uint32_t id, const struct result_fresh *fresh)
{
	uint8_t *at = wire_buf_reserve(b, RESPONSE_HEAD_MAX + RESULT_HEAD_MAX), *const from = at;

	if (!at)
		return;
	at = put_literal(at, "\x94\x01");
	at = mp_put_int(at, id);
	at = put_literal(at, "\xc0" KEY_STATE "\xa5"
			     "fresh" KEY_REASON "\xc0" KEY_SOURCE "\xa4near" KEY_VERSION);
	at = fresh->has_version ? mp_put_int(at, fresh->version) : put_nil(at);
	at = put_literal(at, KEY_AGE);
	at = mp_put_int(at, fresh->age_ms);
	at = put_literal(at, KEY_TTL);
	at = mp_put_int(at, fresh->ttl_ms);
	at = put_literal(at, KEY_STALE "\0" KEY_VALUE);
	at = fresh->has_value ? mp_put_bin_head(at, fresh->value_len) : put_nil(at);
	assert(at - from <= RESPONSE_HEAD_MAX + RESULT_HEAD_MAX);
	b->len += (size_t)(at - from);
}

/* What a result's map may hold, by name. */
enum field {
#define FIELD_MAP(X)                                                                               \
	X(state) X(reason) X(source) X(version) X(age_ms) X(ttl_ms) X(stale_ms) X(value)
#define X(name) FIELD_##name,
	FIELD_MAP(X)
#undef X
};

static int field_from_name(struct wire_span name)
{
	static const char *const names[] = {
#define X(field) #field,
		FIELD_MAP(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i]) == name.len && memcmp(names[i], name.data, name.len) == 0)
			return (int)i;
	return -1;
}

/* The word of that name, or -1. */
static int word_from_name(const struct word *words, int count, const struct mp_value *value)
{
	if (value->type != MP_STR && value->type != MP_BIN)
		return -1;
	for (int i = 0; i < count; i++)
		if (words[i].len == value->bytes.len &&
		    memcmp(words[i].text, value->bytes.data, words[i].len) == 0)
			return i;
	return -1;
}

static bool read_number(const struct mp_value *value, int64_t *ret_number)
{
	if (value->type != MP_INT)
		return false;
	*ret_number = value->number;
	return true;
}

static bool read_field(enum field field, const struct mp_value *value, struct result *result)
{
	const bool nil = value->type == MP_NIL;
	int word;

	switch (field) {
	case FIELD_state:
		word = word_from_name(states, RESULT_STATE_COUNT, value);
		result->state = (enum result_state)word;
		return word >= 0;
	case FIELD_reason:
		word = nil ? 0 : word_from_name(reasons, RESULT_REASON_COUNT, value);
		result->reason = (enum result_reason)(word < 0 ? 0 : word);
		return true; /* a newer daemon may know more of them */
	case FIELD_source:
		word = nil ? 0 : word_from_name(sources, RESULT_SOURCE_COUNT, value);
		result->source = (enum result_source)(word < 0 ? 0 : word);
		return true;
	case FIELD_version:
		result->has_version = !nil;
		return nil || read_number(value, &result->version);
	case FIELD_age_ms:
		return read_number(value, &result->age_ms);
	case FIELD_ttl_ms:
		return read_number(value, &result->ttl_ms);
	case FIELD_stale_ms:
		return read_number(value, &result->stale_ms);
	case FIELD_value:
		result->has_value = !nil;
		if (nil)
			return true;
		result->value = value->bytes.data;
		result->value_len = (uint32_t)value->bytes.len;
		return value->type == MP_BIN || value->type == MP_STR;
	}
	return false;
}

bool result_read(struct wire_span encoded, struct result *ret_result)
{
	struct result result = { 0 };
	bool has_state = false;
	struct wire_span name, skipped;
	struct mp_value value;
	struct reader r;
	uint32_t pairs;

	reader_init(&r, encoded.data, encoded.len);
	if (!reader_map(&r, &pairs))
		return false;
	for (uint32_t i = 0; i < pairs; i++) {
		int field;

		if (!reader_text(&r, &name) || !reader_peek(&r, &value) ||
		    !reader_skip(&r, &skipped))
			return false;
		field = field_from_name(name);
		if (field >= 0 && !read_field((enum field)field, &value, &result))
			return false;
		has_state |= field == FIELD_state;
	}
	if (!has_state || !reader_at_end(&r))
		return false;
	*ret_result = result;
	return true;
}

void result_put_error(struct wire_buf *b, enum status status, int64_t retry_after_ms,
		      const char *text, size_t len)
{
	wire_buf_map(b, 1);
	wire_buf_str(b, "error");
	rpc_put_error_text(b, status, retry_after_ms, text, len);
}

bool result_read_error(struct wire_span encoded, struct wire_span *ret_error)
{
	struct wire_span name;
	struct reader r;
	uint32_t pairs;

	reader_init(&r, encoded.data, encoded.len);
	return reader_map(&r, &pairs) && pairs == 1 && reader_text(&r, &name) && name.len == 5 &&
	       memcmp(name.data, "error", 5) == 0 && reader_text(&r, ret_error);
}
