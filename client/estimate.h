/* What the loss of a value costs the origin: without protection, with single-flight in each
 * process, and with segar. Plain arithmetic; pure.
 *
 * While a value that R requests a second ask for is built for B seconds, R * B of them find nothing
 * (Little's law), and without protection each builds it. Single-flight in each process leaves one
 * build a process, segar one in the whole fleet.
 *
 * K keys that were built together with a fresh time of F ± j expire evenly over 2 * j * F seconds:
 * the wave. Later rounds flatten out, to K / F a second. No key is built that nobody asks for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct estimate_plan {
	double rate_per_s; /* requests for these keys in all, over all hosts */
	double build_s;
	double hosts;
	double processes; /* of each host: its connections, were they caches of their own */
	double keys;
	double fresh_s; /* 0: not said; then nothing expires */
	double jitter;  /* share of fresh_s */
	double stale_s;
	double budget_per_s; /* 0: not said */
	double concurrency;  /* statements that the origin may run at once; 0: not said */
};

struct estimate {
	/* Builds at once when the values are lost. At least one. */
	double unprotected, in_each_process, single_flight, segar;

	/* If fresh_s is said. */
	double expired_at_once;       /* keys, were there no jitter */
	double wave_begins_s, wave_s; /* after they were built, and for how long; 0: at once */
	double wave_per_s;            /* keys that expire, on average; wave_s 0: all of them */
	double wave_peak_per_s;       /* in its busiest second, or so */
	double steady_per_s;          /* builds, later */
	double steady_at_once;

	/* If a budget is said: what segar keeps to, and how long the wave's builds take by it. */
	double rate_limit_per_s;
	double drain_s;
	double stale_needed_s; /* for every reader of the wave to be served meanwhile */
	bool budget_holds;     /* in the long run */
	bool wave_holds;       /* stale_s is enough for the wave */

	/* If a concurrency is said. */
	bool unprotected_fits, single_flight_fits, steady_fits;
};

void estimate_make(const struct estimate_plan *plan, struct estimate *ret_estimate);
