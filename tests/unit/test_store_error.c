#include "store/store_error.h"

#include <criterion/criterion.h>
#include <hiredis/hiredis.h>

Test(store_error, each_kind_of_reply_is_told_apart)
{
	static const struct {
		const char *text;
		enum store_error error;
	} cases[] = {
		{ "NOAUTH Authentication required.", STORE_ERROR_PASSWORD },
		{ "WRONGPASS invalid username-password pair", STORE_ERROR_PASSWORD },
		{ "NOPERM this user has no permissions", STORE_ERROR_FORBIDDEN },
		{ "OOM command not allowed when used memory > 'maxmemory'.", STORE_ERROR_OOM },
		{ "READONLY You can't write against a read only replica.", STORE_ERROR_READONLY },
		{ "MASTERDOWN Link with MASTER is down", STORE_ERROR_READONLY },
		{ "MISCONF Redis is configured to save RDB snapshots", STORE_ERROR_MISCONF },
		{ "NOREPLICAS Not enough good replicas to write.", STORE_ERROR_MISCONF },
		{ "LOADING Redis is loading the dataset in memory", STORE_ERROR_LOADING },
		{ "BUSY Redis is busy running a script.", STORE_ERROR_BUSY },
		{ "MOVED 3999 127.0.0.1:6381", STORE_ERROR_CLUSTER },
		{ "CLUSTERDOWN The cluster is down", STORE_ERROR_CLUSTER },
		{ "NOSCRIPT No matching script.", STORE_ERROR_NOSCRIPT },
		{ "ERR unknown command", STORE_ERROR_OTHER },
		{ "ERR Error compiling script (new function): user_script:1: unexpected symbol "
		  "near "
		  "'#'",
		  STORE_ERROR_VERSION },
		{ "BUSYGROUP it exists", STORE_ERROR_OTHER },
		{ "OO", STORE_ERROR_OTHER },
		{ "", STORE_ERROR_OTHER },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		cr_assert_eq(store_error_read(cases[i].text), cases[i].error, "%s", cases[i].text);
	redisReply reply = { .type = REDIS_REPLY_STRING };
	cr_assert_eq(store_error_of(&reply), STORE_ERROR_NONE);
}

Test(store_error, every_error_has_a_name_and_a_text)
{
	for (int i = 0; i < STORE_ERRORS_COUNT; i++) {
		cr_assert_gt(store_error_name((enum store_error)i)[0], 0);
		cr_assert_gt(store_error_text((enum store_error)i)[0], 0);
	}
}
