/* The daemon's metrics as Prometheus reads them: all samples of a metric together.
 *
 * Made piece by piece, a metric of one keyspace at a time, so that a daemon of a thousand keyspaces
 * neither holds up its loop nor takes the memory of the whole page. Between two pieces the numbers
 * go on; each sample is right by itself. The loop's thread.
 */
#pragma once

#include "ops/family.h"

/* One reading of all of them. Zeroed but for its sources, it stands at the beginning. */
struct exposition {
	struct family_sources sources;
	uint32_t family;   /* the next piece: this one's … */
	uint32_t keyspace; /* … samples of this one */
	size_t taken;      /* of the piece at hand */
	struct page page;
};

/* Writes what comes next into `buf`, at most `size` bytes. Returns how many; 0 at the end. */
size_t exposition_read(struct exposition *exposition, char *buf, size_t size);
