/* The daemon: its parts, built bottom-up, run on one loop, and taken down top-down.
 *
 *   config ─> store, origin ─> engine ─> pump ─> server
 *
 * SIGHUP or the method `reload`: ops/reload.h.
 *
 * SIGTERM or SIGINT: the server stops accepting and lets waiting requests be answered for at most
 * DRAIN_MS; then the pump ends what is under way and answers who still waits; when all
 * is sent the pool closes, and the loop runs empty.
 */
#pragma once

#include "base/config.h"

/* What the process exits with. */
enum { EXIT_OK = 0, EXIT_CONFIG = 1, EXIT_USAGE = 2, EXIT_IN_USE = 3 };

/* Serves until a signal ends it. Returns the exit code; what went wrong is logged. */
int daemon_run(const struct config *config);
