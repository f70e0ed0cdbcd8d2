/* A store that was emptied, and what the near cache gives back to it. */
#include "core/giving.h"

#include <criterion/criterion.h>
#include <string.h>

#include "world.h"

static struct world world;
static struct client a, b, c;
enum { TRUST = 2 * SECOND };

static void beat(void)
{
	struct store_listener told = pump_listener(&world.pump);
	told.trusted(told.impl, world.now_us + TRUST);
}

static void empty(void)
{
	struct store_listener told = pump_listener(&world.pump);
	world.has_shared = false;
	told.emptied(told.impl);
	beat();
}

static void lose_trust(void)
{
	struct store_listener told = pump_listener(&world.pump);
	told.trusted(told.impl, 0);
}

static void change(void)
{
	struct store_listener told = pump_listener(&world.pump);
	told.changed(told.impl, "k:a", 3, UINT64_MAX, false);
}

/* A value of our own, got in trust. */
static void open_world(void)
{
	world_defaults(&world);
	world_open(&world);
	lose_trust();
	beat();
	world_get(&world, &a, "a");
	world_run(&world, 200 * MS);
	cr_assert(a.answered && world.builds == 1);
}

static void close_world(void)
{
	world_close(&world);
}

TestSuite(giving, .init = open_world, .fini = close_world);

static void assert_value(const struct client *client, const char *state, const char *value)
{
	cr_assert(client->answered, "no answer yet");
	cr_assert_eq(client->answer.status, STATUS_OK);
	cr_assert_str_eq(answer_state_name(client->answer.state), state);
	cr_assert_str_eq(client->value, value);
}

static const char *flight_state(void)
{
	const struct flight *flight = engine_flight(world.engine, &a.request.query.key);
	return flight ? flight_state_name(flight->state) : "none";
}

Test(giving, a_value_is_served_under_the_lease_and_given_back_after_a_beat)
{
	empty();
	world_get(&world, &b, "a");
	world_run(&world, 0);
	assert_value(&b, "fresh", "v1");
	cr_assert_eq(b.answer.source, SOURCE_NEAR);
	cr_assert_str_eq(flight_state(), "giving");
	int loads = world.loads;
	world_get(&world, &c, "a");
	assert_value(&c, "fresh", "v1");
	cr_assert_eq(world.loads, loads, "it is served plainly meanwhile");
	cr_assert_eq(world.given, 0);
	beat();
	world_run(&world, 0);
	cr_assert_eq(world.given, 1);
	cr_assert_eq(world.builds, 1);
	cr_assert_str_eq(flight_state(), "none");
	cr_assert_eq(world.engine->counters.given_back, 1);
	cr_assert_eq(world.engine->leases, 0);
	world_get(&world, &c, "a");
	assert_value(&c, "fresh", "v1");
	cr_assert_eq(world.loads, loads);
}

Test(giving, what_nobody_asks_for_is_given_back_too)
{
	world_get(&world, &b, "b");
	world_run(&world, 200 * MS);
	empty();
	world_run(&world, SECOND);
	cr_assert_eq(world.engine->giving, 2);
	beat();
	world_run(&world, 0);
	cr_assert_eq(world.given, 2);
	cr_assert_eq(world.builds, 2);
	cr_assert_eq(world.engine->fetching, 0);
	cr_assert_eq(giving_next_at(world.engine), INT64_MAX);
}

Test(giving, nothing_is_given_back_once_trust_was_broken)
{
	lose_trust();
	beat();
	empty();
	world_get(&world, &b, "a");
	world_run(&world, 200 * MS);
	assert_value(&b, "fresh", "v2");
	cr_assert_eq(world.engine->giving, 0);
	cr_assert_eq(world.given, 0);
}

Test(giving, nor_what_was_not_looked_up_between_two_losses)
{
	empty();
	empty();
	world_get(&world, &b, "a");
	world_run(&world, 200 * MS);
	beat();
	world_run(&world, 0);
	cr_assert_eq(world.given, 0);
	cr_assert_eq(world.builds, 2);
}

Test(giving, nor_what_was_only_leased_between_two_losses)
{
	empty();
	world_get(&world, &b, "a");
	world_run(&world, 0);
	cr_assert_str_eq(flight_state(), "giving");
	empty();
	world_run(&world, 200 * MS);
	cr_assert_eq(world.given, 0);
}

Test(giving, what_was_given_back_can_be_once_more)
{
	empty();
	world_run(&world, SECOND);
	beat();
	world_run(&world, 0);
	cr_assert_eq(world.given, 1);
	empty();
	world_run(&world, SECOND);
	beat();
	world_run(&world, 0);
	cr_assert_eq(world.given, 2);
	cr_assert_eq(world.builds, 1);
}

Test(giving, what_changes_meanwhile_is_built)
{
	empty();
	world_get(&world, &b, "a");
	world_run(&world, 0);
	change();
	beat();
	world_run(&world, 0);
	cr_assert_eq(world.given, 0);
	cr_assert_eq(world.engine->leases, 0);
	world_run(&world, 100 * MS);
	world_get(&world, &c, "a");
	assert_value(&c, "stale", "v1");
	world_run(&world, 200 * MS);
	cr_assert_eq(world.builds, 2);
}

Test(giving, a_floor_in_the_store_forbids_it)
{
	empty();
	world.floor = UINT64_MAX;
	world_get(&world, &b, "a");
	world_run(&world, 200 * MS);
	beat();
	world_run(&world, 0);
	cr_assert_eq(world.given, 0);
	cr_assert_eq(world.builds, 2);
}

Test(giving, a_store_that_may_have_lost_more_is_asked_again)
{
	empty();
	world.is_maimed = true;
	world_get(&world, &b, "a");
	world_run(&world, 5 * MS);
	cr_assert_not(b.answered, "nothing is known of what it had since");
	cr_assert_str_eq(flight_state(), "held");
	world.is_maimed = false;
	world_run(&world, 100 * MS);
	assert_value(&b, "fresh", "v1");
	cr_assert_eq(world.builds, 1);
}

Test(giving, another_daemons_lease_is_left_alone)
{
	empty();
	world_rival_leases(&world, "a");
	world_get(&world, &b, "a");
	world_run(&world, 0);
	assert_value(&b, "fresh", "v1");
	cr_assert_eq(world.engine->giving, 0);
	cr_assert_str_eq(flight_state(), "none");
	world_rival_releases(&world, "a");
}

/* A beat is heard, and the store says that it was published before the lease was given. */
static void beat_too_early(void)
{
	beat();
	world_run(&world, 0);
	struct store_op *op = world.held_save;
	cr_assert(op && op->verb == STORE_SAVE && op->given);
	world.held_save = NULL;
	op->outcome = STORE_RETRY;
	op->done(op);
	world_run(&world, 0);
	cr_assert_eq(world.given, 0);
}

Test(giving, a_beat_that_was_too_early_is_followed_by_another)
{
	empty();
	world_get(&world, &b, "a");
	world_run(&world, 0);
	world.hold_saves = true;
	for (int i = 0; i < 2; i++) {
		beat_too_early();
		cr_assert_str_eq(flight_state(), "giving");
		cr_assert_eq(world.engine->leases, 1);
	}
	world.hold_saves = false;
	beat();
	world_run(&world, 0);
	cr_assert_eq(world.given, 1);
}

Test(giving, but_not_for_ever)
{
	empty();
	world_get(&world, &b, "a");
	world_run(&world, 0);
	world.hold_saves = true;
	for (int i = 0; i < 4; i++)
		beat_too_early();
	world.hold_saves = false;
	beat();
	world_run(&world, 0);
	cr_assert_str_eq(flight_state(), "none");
	cr_assert_eq(world.engine->leases, 0);
	cr_assert_eq(world.given, 0);
	world_get(&world, &c, "a");
	world_run(&world, 200 * MS);
	cr_assert_eq(world.builds, 2, "it is built");
}

Test(giving, a_refused_one_is_looked_up_again)
{
	empty();
	world_get(&world, &b, "a");
	world_run(&world, 0);
	world.refuses_saves = true;
	beat();
	world_run(&world, 0);
	cr_assert_eq(world.given, 0);
	world.refuses_saves = false;
	world_share(&world, "theirs", world.now_us, UINT64_MAX / 2);
	world_get(&world, &c, "a");
	world_run(&world, 0);
	assert_value(&c, "fresh", "theirs");
}

Test(giving, who_wants_a_newer_one_has_it_built)
{
	empty();
	world_get(&world, &b, "a");
	world_run(&world, 0);
	world_refresh(&world, &c, "a");
	beat();
	world_run(&world, 300 * MS);
	cr_assert(c.answered && c.answer.built);
	cr_assert_eq(world.given, 0);
	cr_assert_eq(world.builds, 2);
}

Test(giving, trust_that_is_lost_ends_it)
{
	empty();
	world_get(&world, &b, "a");
	world_run(&world, 0);
	world_run(&world, TRUST + SECOND);
	cr_assert_str_eq(flight_state(), "none");
	cr_assert_eq(world.engine->leases, 0);
	cr_assert_eq(world.given, 0);
}

Test(giving, a_daemon_that_stops_gives_its_leases_back)
{
	empty();
	world_get(&world, &b, "a");
	world_run(&world, 0);
	cr_assert_eq(world.engine->leases, 1);
	/* world_close sees that nothing is left. */
}

Test(giving, what_was_changed_before_stays_so)
{
	change();
	empty();
	world_run(&world, SECOND);
	beat();
	world_run(&world, 0);
	cr_assert_eq(world.given, 0);
	cr_assert_eq(world.engine->giving, 0);
}
