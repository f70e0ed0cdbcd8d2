#include "store/place.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/segar-place-XXXXXX";
static char path[64];
static uint32_t at, of;

static void setup(void)
{
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/place", folder);
}

static void teardown(void)
{
	unlink(path);
	cr_assert_eq(rmdir(folder), 0, "nothing else is left there");
}

TestSuite(place, .init = setup, .fini = teardown);

Test(place, a_restarted_daemon_remembers_its_place_and_who_it_was)
{
	struct place first, second;
	place_init(&first, folder, 10, 0xabcdef, 0);
	cr_assert_eq(first.number, PLACE_NONE);
	cr_assert_eq(first.before, 0);
	cr_assert_eq(place_given(&first, 7), 0);
	place_init(&second, folder, 10, 0x123, 0);
	cr_assert_eq(second.number, 7);
	cr_assert_eq(second.before, 0xabcdef);
	cr_assert_eq(place_given(&second, 7), 0);
	cr_assert_eq(second.before, 0xabcdef, "whose last heartbeat may still come");
	place_init(&first, folder, 10, 0x77, 0);
	cr_assert_eq(first.before, 0x123);
}

Test(place, a_place_beyond_the_fleet_is_forgotten)
{
	struct place place;
	place_init(&place, folder, 10, 1, 0);
	cr_assert_eq(place_given(&place, 7), 0);
	place_init(&place, folder, 7, 1, 0);
	cr_assert_eq(place.number, PLACE_NONE);
}

Test(place, a_file_that_holds_anything_else_is_no_place)
{
	static const char *const texts[] = { "",
					     "\n",
					     "place",
					     "place x token y\n",
					     "place -1 token 0000000000000001\n",
					     "place 99999999999 token 1\n",
					     "token 1 place 1\n" };
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct place place;
		FILE *file = fopen(path, "w");
		fputs(texts[i], file);
		fclose(file);
		place_init(&place, folder, 10, 1, 0);
		cr_assert_eq(place.number, PLACE_NONE, "%s", texts[i]);
	}
}

Test(place, without_a_folder_nothing_is_kept)
{
	struct place place;
	place_init(&place, NULL, 10, 1, 0);
	cr_assert_eq(place_given(&place, 3), 0);
	cr_assert_neq(access(path, F_OK), 0);
}

Test(place, a_folder_that_is_gone_is_told)
{
	struct place place;
	place_init(&place, "/nonexistent", 10, 1, 0);
	cr_assert_lt(place_given(&place, 3), 0);
	cr_assert_eq(place.number, 3);
}

Test(place, a_daemon_is_alone_once_its_last_heartbeat_has_surely_ended)
{
	struct place place;
	place_init(&place, NULL, 10, 1, 0);
	place_given(&place, 3);
	cr_assert_not(place_is_alone(&place, PLACE_HEARTBEAT_US - 1, &at, &of));
	cr_assert(place_is_alone(&place, PLACE_HEARTBEAT_US, &at, &of));
	place_sent(&place, 1000, 5000000);
	cr_assert_not(place_is_alone(&place, 5000000 + 1000 + PLACE_HEARTBEAT_US - 1, &at, &of));
	cr_assert(place_is_alone(&place, 5000000 + 1000 + PLACE_HEARTBEAT_US, &at, &of));
}

Test(place, a_heartbeat_that_was_refused_does_not_count)
{
	struct place place;
	place_init(&place, NULL, 10, 1, 0);
	place_given(&place, 3);
	place_sent(&place, 1000, 5000000);
	place_not_taken(&place);
	cr_assert(place_is_alone(&place, 5000000, &at, &of));
}

Test(place, who_never_had_one_takes_one_by_chance_of_twice_as_many)
{
	struct place place;
	bool used[20] = { false };
	for (uint64_t token = 1; token <= 1000; token++) {
		place_init(&place, NULL, 10, token, 0);
		cr_assert_not(place_is_alone(&place, PLACE_HEARTBEAT_US - 1, &at, &of));
		cr_assert(place_is_alone(&place, PLACE_HEARTBEAT_US, &at, &of));
		cr_assert(of == 20 && at < 20);
		used[at] = true;
	}
	for (int i = 0; i < 20; i++)
		cr_assert(used[i]);
	place_given(&place, 3);
	cr_assert(place_is_alone(&place, PLACE_HEARTBEAT_US, &at, &of));
	cr_assert(of == 10 && at == 3);
	place_init(&place, NULL, 1, 1, 0);
	cr_assert(place_is_alone(&place, PLACE_HEARTBEAT_US, &at, &of));
	cr_assert(of == 1 && at == 0, "of one, it is the only one");
}

Test(place, in_a_full_fleet_there_is_no_share)
{
	struct place place;
	place_init(&place, NULL, 10, 1, 0);
	place_given(&place, PLACE_NONE);
	cr_assert_not(place_is_alone(&place, INT64_MAX / 2, &at, &of));
}
