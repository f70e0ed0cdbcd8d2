#include "proto/frame.h"

#include <assert.h>
#include <string.h>

#include "proto/mp.h"

void frame_reset(struct frame_scan *scan)
{
	*scan = (struct frame_scan){ 0 };
}

static void open_container(struct frame_scan *scan, uint64_t inside)
{
	assert(scan->depth < WIRE_DEPTH_MAX);
	scan->left[scan->depth++] = inside;
	scan->pending += inside - 1; /* its own head has come */
}

/* One value is over, and with it the containers whose last it was. */
static void end_value(struct frame_scan *scan)
{
	assert(scan->pending > 0);
	scan->pending--;
	while (scan->depth > 0 && --scan->left[scan->depth - 1] == 0)
		scan->depth--;
}

static enum frame_verdict give_up(enum frame_verdict verdict, const char *why, const char **ret_why)
{
	*ret_why = why;
	return verdict;
}

enum frame_verdict frame_scan(struct frame_scan *scan, const void *data, size_t len, size_t max,
			      size_t *ret_len, const char **ret_why)
{
	if (!scan->begun) {
		scan->begun = true;
		scan->pending = 1;
	}
	for (;;) {
		struct mp_value value;
		enum mp_verdict verdict;
		size_t size;

		/* Each pending value takes a byte at least. */
		if (scan->at + scan->pending > max)
			return give_up(FRAME_TOO_LARGE, "the message is too large", ret_why);
		if (scan->pending == 0 || scan->at >= len)
			break;
		verdict = mp_head((const uint8_t *)data + scan->at, len - scan->at, &value, &size);
		if (verdict == MP_SHORT)
			return FRAME_MORE;
		if (verdict == MP_BAD)
			return give_up(FRAME_BROKEN, "byte 0xc1 is no MessagePack", ret_why);
		if (mp_is_container(&value) && scan->depth == WIRE_DEPTH_MAX)
			return give_up(FRAME_BROKEN, "the message is nested too deep", ret_why);

		scan->at += size + mp_body_len(&value);
		if (mp_inside_count(&value) > 0)
			open_container(scan, mp_inside_count(&value));
		else
			end_value(scan);
	}
	if (scan->pending > 0 || scan->at > len)
		return FRAME_MORE;
	*ret_len = scan->at;
	frame_reset(scan);
	return FRAME_COMPLETE;
}
