/* Giving back: a store that has lost its entries (it was flushed) gets them from the near caches,
 * before the origin is asked.
 *
 * A near entry may be given back as fresh if no change of it, and no newer entry, can have gone
 * untold since it was got: trust was never broken in between. That the store was emptied breaks no
 * trust, as long as its row of beats goes on (store/lua/beat.lua); but since then a newer entry may
 * have been stored of which nobody was told, so every near entry is looked up before it is served;
 * and what has not been looked up before the store is emptied once more is worth nothing any more.
 * Where the store has none, the key's flight
 *
 *   takes the lease     from here on nobody else can store one, and a change leaves its floor there
 *   is GIVING           it waits for a beat that was published after that: whatever was told before
 * the lease has been heard by then saves the entry     as it is here, if it still is: the store
 * sees for itself that the beat is later than the lease (store/lua/save.lua)
 *
 * Under the lease the near entry is served again; so who asks waits for no more than the lease. It
 * is once per key over the fleet; beside what is asked for, each daemon goes through its near
 * cache, at a rate of its own. An entry without such trust has expired softly: it is built anew.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/engine.h"

/* Whether nothing can have gone untold of it since it was got. */
bool giving_is_unbroken(const struct engine *engine, const struct near_entry *ne);

/* Whether it is as good as on the day it was got, though to be looked up. */
bool giving_is_due(const struct engine *engine, const struct near_entry *ne, int64_t now_us);

/* Whether the flight, which found no entry in the store, may take the lease to give this one back.
   If not, it is still an answer: there is none that is newer. */
bool giving_has_room(const struct engine *engine, const struct flight *flight);

void giving_begin(struct engine *engine, struct flight *flight);
void giving_end(struct engine *engine,
		struct flight *flight); /* fine for those that give nothing */

/* It has the lease. */
void giving_on_leased(struct engine *engine, struct flight *flight, int64_t now_us,
		      struct effects *effects);

/* A beat was heard, or trust is lost: those who wait for it are moved on, by giving_go. */
void giving_on_beat(struct engine *engine);
void giving_go(struct engine *engine, struct flight *flight, int64_t now_us,
	       struct effects *effects);

/* The save is answered. False: it came too early, and waits for the next beat under its lease. */
bool giving_on_saved(struct engine *engine, struct flight *flight);

/* The store was emptied: the near cache is gone through. */
void giving_on_emptied(struct engine *engine, int64_t now_us);

/* When the next of it is looked up; INT64_MAX: not now. */
int64_t giving_next_at(const struct engine *engine);
void giving_advance(struct engine *engine, int64_t now_us, struct effects *effects);
