#include "origin/feed_position.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 16 };

/* A decimal number up to `end`; the next byte, or NULL. */
static const char *read_number(const char *at, char end, uint64_t *ret_number)
{
	char *after;
	if (*at < '0' || *at > '9')
		return NULL;
	*ret_number = strtoull(at, &after, 10);
	return *after == end ? after + 1 : NULL;
}

bool feed_position_make(struct feed_position *position, uint64_t history, uint64_t followed,
			const char *snapshot)
{
	uint64_t xmin, xmax;
	const char *at = read_number(snapshot, ':', &xmin);
	if (at)
		at = read_number(at, ':', &xmax);
	if (!at || xmin > xmax || strspn(at, "0123456789,") != strlen(at) ||
	    strlen(snapshot) + FEED_ORIGIN_LEN + 2 > sizeof(position->text))
		return false;
	position->history = history;
	position->followed = followed;
	position->xmin = xmin;
	position->xmax = xmax;
	snprintf(position->text, sizeof(position->text), "%016" PRIx64 ":%016" PRIx64 " %s",
		 history, followed, snapshot);
	return true;
}

bool feed_position_read_parts(struct feed_position *position, const char *origin,
			      const char *snapshot)
{
	static const char digits[] = "0123456789abcdef";
	if (strspn(origin, digits) != DIGITS || origin[DIGITS] != ':' ||
	    strspn(origin + DIGITS + 1, digits) != DIGITS)
		return false;
	return feed_position_make(position, strtoull(origin, NULL, 16),
				  strtoull(origin + DIGITS + 1, NULL, 16), snapshot);
}

bool feed_position_read(struct feed_position *position, const char *text)
{
	if (strlen(text) <= FEED_ORIGIN_LEN || text[FEED_ORIGIN_LEN] != ' ')
		return false;
	return feed_position_read_parts(position, text, text + FEED_ORIGIN_LEN + 1);
}

const char *feed_position_snapshot(const struct feed_position *position)
{
	return position->text + FEED_ORIGIN_LEN + 1;
}

bool feed_position_is_older(const struct feed_position *a, const struct feed_position *b)
{
	if (a->xmax != b->xmax)
		return a->xmax < b->xmax;
	if (a->xmin != b->xmin)
		return a->xmin < b->xmin;
	/* Of the same bounds: who waits for more. */
	return strlen(a->text) > strlen(b->text);
}
