/* What the fleet shares beside its keys: permits, places, the heartbeat of trust. */
#include "base/check.h"
#include "fleet.h"
#include "shared.h"
#include "store/place.h"
#include "store/share.h"

/* ---- places ------------------------------------------------------------------------------ */

int shared_places_live(const struct shared *shared, int64_t now_us)
{
	int live = 0;
	for (int i = 0; i < shared->fleet->scene.nodes; i++)
		live += left_of(shared->data.places[i].until_us, PLACE_HEARTBEAT_US, now_us) > 0;
	return live;
}

/* That permits are given out among. */
static int places_live(const struct shared *shared)
{
	int live = shared_places_live(shared, shared_now(shared));
	return live > 1 ? live : 1;
}

static bool is_live(const struct shared *shared, int at)
{
	const struct shared_place *place = &shared->data.places[at];
	return left_of(place->until_us, PLACE_HEARTBEAT_US, shared_now(shared)) > 0;
}

static bool may_have(const struct shared *shared, int at, uint64_t life, uint64_t before)
{
	const struct shared_place *place = &shared->data.places[at];
	return place->holder == 0 || place->holder == life ||
	       (before != 0 && place->holder == before) || !is_live(shared, at);
}

/* First those that nobody had yet: who was cut off still builds on its place's own share. */
static int find_place(const struct shared *shared)
{
	for (int i = 0; i < shared->fleet->scene.nodes; i++)
		if (shared->data.places[i].until_us == 0)
			return i;
	for (int i = 0; i < shared->fleet->scene.nodes; i++)
		if (!is_live(shared, i))
			return i;
	return -1;
}

/* Nobody knows what was given out in the last second. */
static void begin_bucket(struct shared *shared)
{
	shared->data.has_permits = true;
	shared->data.permits_run = shared->run;
	shared->data.next_us = shared_now(shared) + SECOND;
}

static int64_t permit_interval_us(const struct shared *shared)
{
	const struct scene *scene = &shared->fleet->scene;
	int live = places_live(shared);
	double rate = share_rate(scene->budget_per_s, (uint32_t)scene->nodes);
	double exact_us = 1e6 * scene->nodes / (rate * live);
	return (int64_t)exact_us + ((double)(int64_t)exact_us < exact_us);
}

/* What a place used of its own share comes out of the fleet's. */
static void pay_share(struct shared *shared)
{
	struct shared_data *data = &shared->data;
	int64_t now_us = shared_now(shared);
	int64_t paid_us =
		(data->next_us > now_us ? data->next_us : now_us) + permit_interval_us(shared);
	if (paid_us > now_us + SECOND)
		paid_us = now_us + SECOND;
	if (data->next_us < paid_us)
		data->next_us = paid_us;
}

/* True if nobody knew what was given out in the last second, nor which slots are free. */
static bool begin_unless_known(struct shared *shared)
{
	if (shared->data.has_permits && shared->data.permits_run == shared->run)
		return false;
	shared_forget(shared, SHARED_PERMITS, -1);
	begin_bucket(shared);
	return true;
}

int shared_place(struct shared *shared, const struct caller *caller, bool *ret_succeeds)
{
	struct shared_data *data = &shared->data;
	int64_t now_us = shared_now(shared);
	uint64_t before = caller->before;
	int at = caller->place;
	if (at < 0 || !may_have(shared, at, caller->life, before))
		at = find_place(shared);
	*ret_succeeds = false;
	if (at < 0)
		return -1;
	*ret_succeeds = before != 0 && data->places[at].holder == before;
	bool returns = !is_live(shared, at) && (caller->owes || data->places[at].until_us != 0);
	data->places[at] = (struct shared_place){ now_us + PLACE_HEARTBEAT_US, caller->life };
	if (!begin_unless_known(shared) && returns)
		pay_share(shared);
	return at;
}

/* ---- permits ----------------------------------------------------------------------------- */

struct occupancy {
	int taken, background;
	struct shared_slot *free, *same;
};

static struct occupancy occupancy_of(const struct shared *shared, uint64_t token)
{
	int64_t now_us = shared_now(shared);
	struct occupancy occupancy = { 0 };
	int concurrency = shared->fleet->scene.concurrency;
	/* Of the free ones it is one by chance, by the token. */
	int first = (int)((uint32_t)token % (uint32_t)concurrency);
	for (int n = 0; n < concurrency; n++) {
		struct shared_slot *slot = &shared->data.slots[(first + n) % concurrency];
		bool taken = slot->until_us > now_us && slot->start_us <= now_us + SECOND;
		if (!taken && !occupancy.free)
			occupancy.free = slot;
		if (taken && slot->token == token)
			occupancy.same = slot;
		occupancy.taken += taken;
		occupancy.background += taken && slot->background;
	}
	return occupancy;
}

static void retry(struct shared *shared, struct store_op *op, int64_t left_us, int64_t spread_us)
{
	op->outcome = STORE_RETRY;
	op->left_us = left_us + rng_between(&shared->fleet->weather.rng, 0, spread_us);
}

static void grant(const struct shared *shared, struct store_op *op, const struct shared_slot *slot)
{
	op->slot = (int)(slot - shared->data.slots);
	op->left_us =
		slot->start_us; /* a moment: post.c makes it a length, from when it was sent */
}

/* Where the record of a pace is, or is to be. */
static struct shared_pace *find_pace(struct shared *shared, uint64_t id)
{
	struct shared_pace *paces = shared->data.paces;
	for (int i = 0; i < SHARED_PACES; i++) {
		if (paces[i].id == 0)
			paces[i].id = id;
		if (paces[i].id == id)
			return &paces[i];
	}
	check_failed("paces", __FILE__, __LINE__, "more than %d", SHARED_PACES);
}

void shared_permit(struct shared *shared, struct store_op *op, const struct caller *caller)
{
	const struct scene *scene = &shared->fleet->scene;
	struct shared_data *data = &shared->data;
	int64_t now_us = shared_now(shared);
	int live = places_live(shared);
	int64_t interval_us = permit_interval_us(shared);
	int64_t spread_us = interval_us * live < 100 * MS ? interval_us * live : 100 * MS;
	int slots_most = scene->concurrency * live / scene->nodes;
	struct occupancy occupancy = occupancy_of(shared, op->token);
	slots_most = slots_most > 1 ? slots_most : 1;
	if (occupancy.same) {
		grant(shared, op, occupancy.same);
		return;
	}
	if (!begin_unless_known(shared) && data->next_us > now_us + SECOND + 200 * MS + interval_us)
		begin_bucket(shared);
	int64_t start_us = data->next_us > now_us ? data->next_us : now_us;
	int half = slots_most / 2 > 1 ? slots_most / 2 : 1;
	struct shared_pace *pace = op->pace.interval_us > 0 ? find_pace(shared, op->pace.id) : NULL;
	int64_t paced_us = pace ? share_pace(pace->next_us, op->pace.interval_us, now_us) : now_us;
	if (start_us - now_us > op->reach_us) {
		retry(shared, op, start_us - now_us - op->reach_us, spread_us);
	} else if (!occupancy.free || occupancy.taken >= slots_most ||
		   (op->background && occupancy.background >= half)) {
		retry(shared, op, (spread_us + 1) / 2, spread_us);
	} else if (paced_us > now_us) {
		int64_t most_us = op->pace.interval_us * live;
		retry(shared, op, paced_us - now_us, most_us < 2 * SECOND ? most_us : 2 * SECOND);
	} else {
		if (pace)
			pace->next_us = paced_us + op->pace.interval_us;
		data->next_us = start_us + interval_us;
		*occupancy.free = (struct shared_slot){ .token = op->token,
							.owner = caller->life,
							.place = caller->place,
							.background = op->background,
							.start_us = start_us,
							.until_us = start_us + op->length_us };
		grant(shared, op, occupancy.free);
	}
}

void shared_free(struct shared *shared, const struct store_op *op)
{
	for (int i = 0; i < shared->fleet->scene.concurrency; i++) {
		struct shared_slot *slot = &shared->data.slots[i];
		if (slot->token == op->token && (op->slot == -1 || op->slot == i))
			*slot = (struct shared_slot){ 0 };
	}
}

void shared_free_before(struct shared *shared, const struct caller *caller)
{
	for (int i = 0; i < shared->fleet->scene.concurrency; i++) {
		struct shared_slot *slot = &shared->data.slots[i];
		if (slot->place == caller->place && slot->owner != caller->life)
			*slot = (struct shared_slot){ 0 };
	}
}

/* ---- the heartbeat of trust --------------------------------------------------------------- */

/* The number of the next beat. Where the record is lost, the row goes on if the caller has
   published its last here; else it starts at the clock. */
static uint64_t next_beat(const struct shared *shared, const struct shared_row *row,
			  bool *ret_emptied)
{
	const struct shared_data *data = &shared->data;
	*ret_emptied = !data->has_beat && row->number != 0 && row->run == shared->run;
	if (data->has_beat)
		return data->beat_number + 1;
	return *ret_emptied ? row->number + 1 : (uint64_t)shared_now(shared);
}

bool shared_beat(struct shared *shared, const struct caller *caller, int64_t length_us,
		 struct shared_row *row)
{
	bool emptied;
	struct shared_data *data = &shared->data;
	int64_t now_us = shared_now(shared);
	bool held = data->has_beat && left_of(data->beat_until_us, length_us, now_us) > 0;
	if (held && data->beat_holder != caller->life)
		return false;
	data->beat_number = next_beat(shared, row, &emptied);
	data->has_beat = true;
	data->beat_holder = caller->life;
	data->beat_until_us = now_us + length_us;
	fleet_tell(shared->fleet, &(struct tiding){ .kind = TIDING_BEAT,
						    .fence = data->beat_number,
						    .emptied = emptied,
						    .told_us = now_us });
	*row = (struct shared_row){ data->beat_number, shared->run };
	return true;
}
