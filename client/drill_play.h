/* A scene of a drill under way: its requests, its acts on keys, looks at the daemons' counters, and
 * what becomes of their answers. */
#pragma once

#include "client/drill.h"

/* A scene under way. */
struct play {
	struct drill *drill;
	struct drill_result *result;
	int64_t begun_us, ended_us; /* 0: not yet */
	uint64_t asked;             /* gets, which are due one after the other */
	uint32_t acted;             /* keys */
	uint32_t absents;           /* keys that aren't there, asked for so far */
	uint32_t gets, others;      /* in flight: gets, and acts */
	uint32_t look_waits;        /* replies that the look under way waits for */
	int64_t look_begun_us;
	uint64_t looks;
	bool no_room; /* requests that are due wait for answers to others */
};

/* To be given to load_open(), with a pointer to a pointer to the play. */
void play_on_answer(void *arg, const struct load_answer *answer);

/* Asks what is due by now. A request for which there is no room stays due, and its time runs. */
void play_ask(struct play *play);
int64_t play_due_us(const struct play *play); /* the next one */

/* Acts on the next key. When that is due; INT64_MAX: there is none. */
void play_act(struct play *play);
int64_t play_act_due_us(const struct play *play);

/* Begins a look; once that is due and the last one has ended. Then, when the next one is. */
void play_look(struct play *play);
int64_t play_look_when_due(struct play *play);

/* Ends the drill before its time, saying why. The first one counts. */
__attribute__((format(printf, 2, 3))) void play_stop(struct drill *drill, const char *format, ...);
