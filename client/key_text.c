#include <string.h>

#include "client/segar.h"

/* What is left of a key's buffer, and how long the key is in any case. */
struct sink {
	char *to;
	size_t room;
	size_t len;
};

static void put(struct sink *sink, const char *bytes, size_t len)
{
	const size_t fits = len < sink->room ? len : sink->room;

	if (fits > 0) {
		memcpy(sink->to, bytes, fits);
		sink->to += fits;
		sink->room -= fits;
	}
	sink->len += len;
}

size_t segar_key(char *ret_key, size_t size, const char *keyspace, const char *const *args,
		 size_t args_count)
{
	struct sink sink = { ret_key, size > 0 ? size - 1 : 0, 0 };

	put(&sink, keyspace, strlen(keyspace));
	for (size_t i = 0; i < args_count; i++) {
		put(&sink, ":", 1);
		for (const char *c = args[i]; *c; c++) {
			if (*c == ':')
				put(&sink, "%3A", 3);
			else if (*c == '%')
				put(&sink, "%25", 3);
			else
				put(&sink, c, 1);
		}
	}
	if (size > 0)
		*sink.to = '\0';
	return sink.len;
}
