/* The Lua scripts: one step of the store each. lua/NAME.lua has the script's contract,
 * lua/prelude.lua what they share; embed.py puts both into the program when it is built.
 */
#pragma once

/* X(NAME, name) */
#define SCRIPT_MAP(X)                                                                              \
	X(LOAD, load)                                                                              \
	X(LEASE, lease)                                                                            \
	X(RENEW, renew)                                                                            \
	X(SAVE, save)                                                                              \
	X(RELEASE, release)                                                                        \
	X(INVALIDATE, invalidate)                                                                  \
	X(EPOCH, epoch)                                                                            \
	X(EPOCHS, epochs)                                                                          \
	X(DEFINE, define)                                                                          \
	X(PERMIT, permit)                                                                          \
	X(FREE, free)                                                                              \
	X(PLACE, place)                                                                            \
	X(CLOCK, clock)                                                                            \
	X(BEAT, beat)                                                                              \
	X(FOLLOW, follow)                                                                          \
	X(CHANGE, change)                                                                          \
	X(JOBS, jobs)                                                                              \
	X(JOB_OPEN, job_open)                                                                      \
	X(JOB_FEED, job_feed)                                                                      \
	X(JOB_WORK, job_work)                                                                      \
	X(JOB_END, job_end)                                                                        \
	X(JOB_LOOK, job_look)

enum script_name {
#define X(NAME, name) SCRIPT_##NAME,
	SCRIPT_MAP(X)
#undef X
};

struct script {
	const char *sha;  /* 40 hexadecimal digits, for EVALSHA */
	const char *text; /* for EVAL */
};

extern const struct script scripts[]; /* by enum script_name */
