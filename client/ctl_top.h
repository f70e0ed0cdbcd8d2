/* segarctl top: the command. */
#pragma once

#include <stdint.h>

#include "client/ctl.h"

/* Shows what goes on, with so many keys in its lists (0: the usual number): on a terminal again and
 * again, until q or Ctrl-C; else, or with ctl->once, once. */
enum ctl_exit ctl_top(struct ctl *ctl, uint32_t keys);
