/* What the daemon tells of itself, to people and monitors: hello, stats, keyspaces. */
#pragma once

#include "proto/wire_buf.h"

struct server;

/* Each writes its method's result. */
void about_hello(struct server *server, struct wire_buf *b);
void about_stats(struct server *server, struct wire_buf *b);
void about_keyspaces(struct server *server, struct wire_buf *b);
