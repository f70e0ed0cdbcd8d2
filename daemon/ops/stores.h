/* The daemon's store, as the configuration says: one host's memory alone, or Redis with that memory
 * behind it for the time when Redis is away. And the clock that goes with it.
 *
 *   stores_open ──> opened ──> … ──> stores_close ──> closed
 *
 * On the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/config.h"
#include "core/store.h"
#include "ops/clock.h"
#include "store/fallback.h"
#include "store/memory.h"
#include "store/redis.h"

typedef void (*stores_cb)(void *arg);

struct stores {
	struct clock clock;
	uv_idle_t turn; /* memory_store_turn: on while something is submitted */
	struct memory_store *memory;
	struct redis_store *redis; /* NULL: store.url is none */
	struct fallback fallback;
	stores_cb opened, closed;
	void *arg;
};

/* Opens them. `opened` fires once, later: in touch with the shared store, or the first attempt has
   failed; until then its clock may still jump. 0; or -1, and `ret_why` says why: then nothing is
   open. */
int stores_open(struct stores *stores, uv_loop_t *loop, const struct config *config, uint64_t seed,
		stores_cb opened, void *arg, const char **ret_why)
	__attribute__((warn_unused_result));

/* Reads what the configuration says of the shared store, its password file too. NULL, or what is
   wrong with it, valid until the next call. Blocks on that file. The loop's thread. */
const char *stores_read_url(const struct config *config, struct store_url *ret_url)
	__attribute__((warn_unused_result));

struct store stores_iface(struct stores *stores);

/* The keyspaces of the configuration in force (store/redis.h); `insists`: after a reload. */
void stores_define(struct stores *stores, const struct config *config, bool insists);

/* Its budget. */
void stores_set_budget(struct stores *stores, const struct config *config);

/* Whom to tell what a shared store tells; before the loop runs. */
void stores_listen(struct stores *stores, const struct store_listener *listener);

/* The fleet clock, µs; does not go back once opened. */
int64_t stores_now_us(struct stores *stores);

/* `closed` fires once, later; nothing of them is open then. */
void stores_close(struct stores *stores, stores_cb closed);
