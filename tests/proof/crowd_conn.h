/* One connection of the crowd: requests in flight, and a record of each reply. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "record.h"

enum {
	CONN_KEYSPACE_MAX = 40,
	CONN_REQUESTS_MAX =
		65536, /* in flight on one connection; more are recorded as not connected */
	CONN_OUT_MAX = 1 << 20,
	CONN_IN_MAX = 1 << 20,
};

struct request {
	uint64_t due_us; /* 0: none */
	uint64_t sent_us;
	uint32_t key;
	uint8_t stream;
	uint32_t next; /* while free: the next free one */
};

struct crowd {
	int epoll;
	FILE *out;
	struct conn *conns; /* owned */
	uint32_t daemons, conns_count;
	uint32_t connections_made;
	uint64_t in_flight;
	uint64_t looked_us; /* when it last looked for replies */
	uint32_t turn_us, turn_max_us;
};

struct conn {
	struct crowd *crowd; /* borrowed */
	const char *path;    /* borrowed */
	uint16_t daemon;
	int fd; /* -1: not connected */
	uint32_t number;
	struct request *requests; /* owned; the id is the place */
	uint32_t requests_count, free;
	uint8_t *out, *in; /* owned */
	size_t out_len, in_len, out_size, in_size;
	int blocked; /* waits for EPOLLOUT */
};

void conn_init(struct conn *conn, struct crowd *crowd, uint16_t daemon, const char *path);
void conn_connect(struct conn *conn);

/* Requests under way are recorded with `error`. */
void conn_close(struct conn *conn, uint8_t error, uint64_t now_us);

/* Writes the request into the buffer that conns_flush sends. */
void conn_ask(struct conn *conn, const char *keyspace, const struct request *request,
	      uint64_t now_us);
void conns_flush(struct crowd *crowd);
void conn_on_ready(struct conn *conn, uint32_t events, uint64_t now_us);

/* Of a request that nobody could be asked. */
void crowd_write_unasked(struct crowd *crowd, const struct request *request, uint16_t daemon);
