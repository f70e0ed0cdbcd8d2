#include "base/check.h"
#include "origin/feed_state.h"

/* The whole log that is still there. */
static const char BEGINNING[] = "1:1:";

static bool is_of(const struct feed *feed, const struct feed_position *position)
{
	return position->history == feed->history || position->history == 0 || feed->history == 0;
}

static void start_at(struct feed *feed, const char *snapshot)
{
	CHECK(feed_position_make(&feed->at, feed->history, feed->followed, snapshot));
}

/* `next` is the present; `at` what the database has, if it has one. */
const char *feed_choose_position(struct feed *feed)
{
	struct feed_position *stored = &feed->stored;
	bool has_stored = feed_position_read(stored, feed->store_text);
	if (!has_stored && !feed->db_is_good) {
		feed->at = feed->next;
		return "nobody has read it before";
	}
	if ((has_stored && !is_of(feed, stored)) || (feed->db_is_good && !is_of(feed, &feed->at))) {
		start_at(feed, BEGINNING);
		return "the database has another history";
	}
	if (!has_stored && feed->options.standby) {
		start_at(feed, BEGINNING);
		return "the store has lost what builds of a standby must have seen";
	}
	bool is_known = (!has_stored || stored->followed == feed->followed) &&
			(!feed->db_is_good || feed->at.followed == feed->followed);
	if (!feed->db_is_good || (has_stored && feed_position_is_older(stored, &feed->at)))
		feed->at = *stored;
	*stored = feed->at;
	start_at(feed, feed_position_snapshot(stored));
	if (feed->at.xmin < feed->trimmed)
		return "it was trimmed before it was read";
	return is_known ? NULL : "other keyspaces were followed before";
}
