/* The parts of a struct daemon, for the files that work on them:
 *
 *   daemon.c   the start, the loop, signals, the status line, reloads
 *   about.c    what its server tells clients of them
 *   ending.c   taking them down
 */
#pragma once

#include <uv.h>

#include "core/pump.h"
#include "ops/daemon.h"
#include "ops/examination.h"
#include "ops/follower.h"
#include "ops/hot_keys.h"
#include "ops/metrics.h"
#include "ops/reload.h"
#include "ops/spans.h"
#include "ops/status.h"
#include "ops/stores.h"
#include "ops/warmup.h"
#include "origin/pool.h"
#include "rpc/server.h"

enum { DAEMON_SIGNALS = 3 };

struct daemon {
	const struct config *first;  /* borrowed: parts keep what no reload changes from it */
	struct config *later;        /* owned: of the last reload; NULL: there was none */
	const struct config *config; /* the one of these that is in force */
	int64_t loaded_at_s;         /* since 1970 */
	uint64_t reloads, reloads_refused;
	long descriptors; /* that may be open */
	uv_loop_t loop;
	uv_timer_t timer; /* pump_turn */
	uv_timer_t drain; /* then what still waits is told that the daemon stops */
	uv_timer_t watchdog;
	uv_timer_t status_timer; /* say_status */
	uv_signal_t signals[DAEMON_SIGNALS];
	struct reload reload;
	struct examination examination;
	struct stores stores;
	struct pool *pool;
	struct engine *engine;
	struct pump pump;
	struct follower follower;
	struct warmup warmup;
	uint64_t warm_token;
	struct hot_keys hot_keys;
	struct server server;
	int listen_fd; /* the service manager's socket, until the server has it; -1: none */
	struct metrics metrics;
	bool lacks_metrics; /* they are configured, and can't be listened for yet */
	struct spans spans;
	bool serving; /* the server is open */
	bool pump_stopped;
	char status[STATUS_LINE_MAX]; /* as last told */
	struct limits_policy limits;  /* the configuration's, as far as the system allows */
	bool stopping;
	int code; /* to exit with */
};

/* about.c */
struct server_about daemon_about(struct daemon *daemon);

/* ending.c: begins it; once, whoever asks. `number`: of the signal; 0: there was none. */
void ending_begin(struct daemon *daemon, int number);

/* Each when that part is closed: the next below it is closed then. */
void ending_server_closed(struct server *server);
void ending_pump_stopped(void *impl);
void ending_follower_gone(void *arg);
void ending_warmup_over(void *arg);
void ending_pool_closed(struct pool *pool, void *arg);
void ending_stores_closed(void *arg);
void ending_close_handles(struct daemon *daemon);
