#include "core/keyspace.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t key_hash(const void *secret, const char *bytes, size_t len)
{
	return XXH3_64bits_withSecret(bytes, len, secret, KEY_SECRET_LEN);
}

uint64_t key_public_hash(const char *bytes, size_t len)
{
	return XXH3_64bits(bytes, len);
}
