#include "store/place.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"

/* One line: "place NUMBER token 16 hexadecimal digits". */
static void place_read(struct place *place)
{
	char line[64];
	FILE *file = fopen(place->path, "re");
	if (!file)
		return;
	unsigned number;
	uint64_t token;
	if (fgets(line, sizeof(line), file) &&
	    sscanf(line, "place %5u token %16" SCNx64, &number, &token) == 2 &&
	    number < place->fleet) {
		place->number = (int)number;
		place->before = token;
	}
	fclose(file);
}

static int place_write(const struct place *place)
{
	char path[PLACE_PATH_MAX + 8];
	int error = 0;
	snprintf(path, sizeof(path), "%s.new", place->path);
	FILE *file = fopen(path, "we");
	if (!file)
		return -errno;
	if (fprintf(file, "place %d token %016" PRIx64 "\n", place->number, place->token) < 0)
		error = -EIO;
	if (fclose(file) != 0)
		error = -errno;
	if (error == 0 && rename(path, place->path) != 0)
		error = -errno;
	if (error != 0)
		unlink(path);
	return error;
}

void place_init(struct place *place, const char *state_dir, uint32_t fleet, uint64_t token,
		int64_t local_us)
{
	CHECK(token != 0);
	*place = (struct place){ .number = PLACE_NONE, .fleet = fleet, .token = token };
	/* A predecessor's heartbeat may have got through just now. */
	place->gone_at_us = place->was_gone_at_us = local_us + PLACE_HEARTBEAT_US;
	if (state_dir && snprintf(place->path, sizeof(place->path), "%s/place", state_dir) <
				 (int)sizeof(place->path))
		place_read(place);
	else
		place->path[0] = '\0';
	if (fleet == 1)
		place->number = 0;
}

void place_sent(struct place *place, int64_t timeout_us, int64_t local_us)
{
	place->was_gone_at_us = place->gone_at_us;
	place->gone_at_us = local_us + timeout_us + PLACE_HEARTBEAT_US;
}

void place_not_taken(struct place *place)
{
	place->gone_at_us = place->was_gone_at_us;
}

int place_given(struct place *place, int number)
{
	CHECK(number == PLACE_NONE || (number >= 0 && (uint32_t)number < place->fleet));
	if (number != place->number)
		place->kept = false;
	place->number = number;
	place->full = number == PLACE_NONE;
	if (number == PLACE_NONE)
		return 0;
	if (place->kept || !place->path[0])
		return 0;
	place->kept = true;
	return place_write(place);
}

bool place_is_alone(const struct place *place, int64_t local_us, uint32_t *ret_place,
		    uint32_t *ret_of)
{
	if (place->full || local_us < place->gone_at_us)
		return false;
	bool known = place->number != PLACE_NONE;
	*ret_of = known ? place->fleet : 2 * place->fleet;
	*ret_place = known ? (uint32_t)place->number : (uint32_t)(place->token % *ret_of);
	return true;
}
