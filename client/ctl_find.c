#include "client/ctl_find.h"

#include "proto/reader.h"

struct wire_span ctl_find(struct wire_span map, const char *name)
{
	struct wire_span found = { NULL, 0 }, key, value;
	struct reader r;
	uint32_t pairs;
	reader_init(&r, map.data, map.len);
	if (!reader_map(&r, &pairs))
		return found;
	while (pairs-- > 0 && reader_text(&r, &key) && reader_skip(&r, &value))
		if (wire_span_is(key, name))
			return value;
	return found;
}

double ctl_number(struct wire_span map, const char *name)
{
	struct wire_span at = ctl_find(map, name);
	struct mp_value value;
	struct reader r;
	reader_init(&r, at.data, at.len);
	if (!reader_next(&r, &value))
		return 0;
	return value.type == MP_INT     ? (double)value.number
	       : value.type == MP_FLOAT ? value.real
					: 0;
}

struct wire_span ctl_text(struct wire_span map, const char *name)
{
	struct wire_span at = ctl_find(map, name), found = { "", 0 };
	struct reader r;
	reader_init(&r, at.data, at.len);
	if (!reader_text(&r, &found))
		return (struct wire_span){ "", 0 };
	return found;
}

void ctl_each(struct wire_span map, const char *name,
	      void (*each)(void *arg, struct wire_span item), void *arg)
{
	struct wire_span at = ctl_find(map, name), item;
	struct reader r;
	uint32_t count;
	reader_init(&r, at.data, at.len);
	if (!reader_array(&r, &count))
		return;
	while (count-- > 0 && reader_skip(&r, &item))
		each(arg, item);
}

struct wire_span ctl_encoded(const segar_reply *reply)
{
	return (struct wire_span){ reply->encoded, reply->encoded_len };
}
