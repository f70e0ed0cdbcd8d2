#include "store/keys.h"

#include <criterion/criterion.h>
#include <string.h>

#include "proto/key.h"

static void name(struct keys *keys, const char *key)
{
	keys_name(keys, key, strlen(key));
	keys->entry[keys->len] = keys->claim[keys->len] = '\0';
}

Test(keys, entry_and_claim_share_a_slot)
{
	struct keys keys;
	cr_assert_eq(keys_init(&keys, "segar:", 2), 0);
	name(&keys, "rows:1");
	cr_assert_str_eq(keys.entry, "segar:e:{rows:1}");
	cr_assert_str_eq(keys.claim, "segar:c:{rows:1}");
	cr_assert_str_eq(keys.permits, "segar:{fleet}:permits");
	cr_assert_str_eq(keys.channel, "segar:changes:2");
	keys_close(&keys);
}

Test(keys, braces_of_others_do_not_decide_on_the_slot)
{
	struct keys keys;
	cr_assert_eq(keys_init(&keys, "{x}", 0), 0);
	name(&keys, "rows:{}:a}b{c");
	cr_assert_str_eq(keys.entry, "%7Bx%7De:{rows:%7B%7D:a%7Db%7Bc}");
	cr_assert_str_eq(keys.permits, "%7Bx%7D{fleet}:permits");
	keys_close(&keys);
}

Test(keys, the_longest_of_all_fit)
{
	static char key[KEY_TEXT_MAX];
	char prefix[KEYS_PREFIX_MAX + 1];
	struct keys keys;
	memset(key, '{', sizeof(key));
	memset(prefix, '}', KEYS_PREFIX_MAX);
	prefix[KEYS_PREFIX_MAX] = '\0';
	cr_assert_eq(keys_init(&keys, prefix, 1023), 0);
	keys_name(&keys, key, sizeof(key));
	cr_assert_eq(keys.len, 3 * KEYS_PREFIX_MAX + 4 + 3 * sizeof(key));
	cr_assert_eq(strcmp(keys.channel + strlen(keys.channel) - 4, "1023"), 0);
	keys_close(&keys);
}
