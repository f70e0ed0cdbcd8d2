/* A daemon's loop, for the parts of it that know libuv: timers and the closing of handles, on the
 * host's clock. The linker puts these in libuv's place (meson.build); nothing else of it is used.
 */
#pragma once

#include <uv.h>

struct node;
void loop_init(uv_loop_t *loop, struct node *node);
