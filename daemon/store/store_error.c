#include "store/store_error.h"

#include <hiredis/hiredis.h>
#include <string.h>

const char *store_error_name(enum store_error error)
{
	static const char *const names[] = {
#define X(NAME, name, text) [STORE_ERROR_##NAME] = #name,
		STORE_ERROR_MAP(X)
#undef X
	};
	return names[error];
}

const char *store_error_text(enum store_error error)
{
	static const char *const texts[] = {
#define X(NAME, name, text) [STORE_ERROR_##NAME] = text,
		STORE_ERROR_MAP(X)
#undef X
	};
	return texts[error];
}

/* An error reply begins with one of these words and a blank. */
static const struct {
	const char *word;
	enum store_error error;
} words[] = {
	{ "NOAUTH", STORE_ERROR_PASSWORD },     { "WRONGPASS", STORE_ERROR_PASSWORD },
	{ "NOPERM", STORE_ERROR_FORBIDDEN },    { "OOM", STORE_ERROR_OOM },
	{ "READONLY", STORE_ERROR_READONLY },   { "MASTERDOWN", STORE_ERROR_READONLY },
	{ "MISCONF", STORE_ERROR_MISCONF },     { "NOREPLICAS", STORE_ERROR_MISCONF },
	{ "LOADING", STORE_ERROR_LOADING },     { "BUSY", STORE_ERROR_BUSY },
	{ "MOVED", STORE_ERROR_CLUSTER },       { "ASK", STORE_ERROR_CLUSTER },
	{ "TRYAGAIN", STORE_ERROR_CLUSTER },    { "CROSSSLOT", STORE_ERROR_CLUSTER },
	{ "CLUSTERDOWN", STORE_ERROR_CLUSTER }, { "NOSCRIPT", STORE_ERROR_NOSCRIPT },
};

enum store_error store_error_read(const char *text)
{
	size_t len = strcspn(text, " ");
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strlen(words[i].word) == len && memcmp(words[i].word, text, len) == 0)
			return words[i].error;
	/* Scripts that begin with #! are Redis 7's. */
	return strstr(text, "Error compiling script") ? STORE_ERROR_VERSION : STORE_ERROR_OTHER;
}

enum store_error store_error_of(const struct redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR ? store_error_read(reply->str) : STORE_ERROR_NONE;
}

bool store_error_is_doubtful(enum store_error error)
{
	return error == STORE_ERROR_LOST || error == STORE_ERROR_TIMEOUT ||
	       error == STORE_ERROR_CLOSED || error == STORE_ERROR_GARBAGE;
}
