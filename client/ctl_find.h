/* What is in a reply that segarctl shows in a form of its own. Pure; any thread. */
#pragma once

#include "client/segar.h"
#include "proto/wire.h"

/* The reply as MessagePack, borrowed. */
struct wire_span ctl_encoded(const segar_reply *reply);

/* The value of that name in an encoded map; an empty span where there is none. */
struct wire_span ctl_find(struct wire_span map, const char *name);

/* The same as a number, 0 where it is none; as a text, empty where it is none. */
double ctl_number(struct wire_span map, const char *name);
struct wire_span ctl_text(struct wire_span map, const char *name);

/* Calls `each` with every item of the array of that name. */
void ctl_each(struct wire_span map, const char *name,
	      void (*each)(void *arg, struct wire_span item), void *arg);
