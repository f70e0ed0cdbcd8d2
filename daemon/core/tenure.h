/* Tenure: how long a flight holds its lease.
 *
 * Leases are short, so that a crash is taken over quickly, and renewed at a third of their length
 * while the flight waits for its permit and builds, up to a hard end: the build's limit, after a
 * wait that is bounded too. Without a length in the policy it follows the keyspace's build times:
 * their 99th percentile, estimated in two words of memory (Ma, Muthukrishnan, Sandler, "Frugal
 * streaming for estimating quantiles", 2013), plus a margin.
 */
#pragma once

#include <stdint.h>

#include "core/engine.h"

/* The length of a lease for this keyspace, in µs. */
int64_t tenure_length(const struct keyspace *keyspace);

/* The lease has been given, is to be renewed, is on its way back. */
void tenure_begin(struct engine *engine, struct flight *flight, int64_t now_us);
void tenure_end(struct engine *engine, struct flight *flight);

/* Its time has come: pushes the renewal, if the hard end allows. True if it did. */
bool tenure_renew(struct engine *engine, struct flight *flight, int64_t now_us);

/* Whether the lease can last as long as a build that begins now; not so when it is lost, or the
   wait for a permit was too long. */
bool tenure_covers_build(const struct flight *flight, int64_t now_us);

/* The renewal's answer: refused means that the lease is lost; the save will be refused too. */
void tenure_on_renewed(struct engine *engine, struct flight *flight, int64_t now_us);

/* A build took so long. */
void tenure_measure(struct engine *engine, struct keyspace *keyspace, int64_t took_us);
