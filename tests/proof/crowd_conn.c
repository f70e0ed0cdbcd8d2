#include "crowd_conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "reply.h"

enum { NO_REQUEST = UINT32_MAX, REQUEST_BYTES_MAX = 80 };

static void *grown(void *block, size_t size)
{
	void *more = realloc(block, size);

	if (!more) {
		fprintf(stderr, "crowd: out of memory\n");
		exit(2);
	}
	return more;
}

/* ---- records ---- */

static uint32_t until(uint64_t from_us, uint64_t to_us)
{
	const uint64_t us = to_us > from_us ? to_us - from_us : 0;

	return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX - 1;
}

static struct record record_of(const struct request *request, uint16_t daemon, uint64_t now_us)
{
	return (struct record){
		.due_us = request->due_us,
		.sent_us = until(request->due_us, request->sent_us),
		.took_us = until(request->due_us, now_us),
		.key = request->key,
		.stream = request->stream,
		.daemon = daemon,
	};
}

static void crowd_write(struct crowd *crowd, const struct record *record)
{
	if (fwrite(record, sizeof(*record), 1, crowd->out) != 1) {
		fprintf(stderr, "crowd: cannot write: %s\n", strerror(errno));
		exit(2);
	}
}

void crowd_write_unasked(struct crowd *crowd, const struct request *request, uint16_t daemon)
{
	struct record record = record_of(request, daemon, request->due_us);

	record.error = RECORD_NOT_CONNECTED;
	crowd_write(crowd, &record);
}

static uint32_t clamped(int64_t number)
{
	return number < 0 ? 0 : number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
}

/* "BUILT_US VERSION KEY TIMELINE …" */
static void read_value(const struct reply *reply, struct record *record)
{
	char text[96];
	char *at = text;
	const size_t len = reply->value_len < sizeof(text) ? reply->value_len : sizeof(text) - 1;

	if (!reply->value)
		return;
	memcpy(text, reply->value, len);
	text[len] = 0;
	record->built_us = strtoull(at, &at, 10);
	if (strtoll(at, &at, 10) != reply->version)
		record->flags |= RECORD_OTHER_VERSION;
	if (strtoull(at, &at, 10) != record->key)
		record->flags |= RECORD_OTHER_KEY;
	record->flags |= (uint8_t)(strtoull(at, &at, 10) << RECORD_TIMELINE_SHIFT);
}

/* ---- life ---- */

void conn_init(struct conn *conn, struct crowd *crowd, uint16_t daemon, const char *path)
{
	*conn = (struct conn){
		.crowd = crowd, .path = path, .daemon = daemon, .fd = -1, .free = NO_REQUEST
	};
}

void conn_connect(struct conn *conn)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = conn };

	strncpy(address.sun_path, conn->path, sizeof(address.sun_path) - 1);
	conn->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (conn->fd < 0)
		return;
	if (connect(conn->fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    epoll_ctl(conn->crowd->epoll, EPOLL_CTL_ADD, conn->fd, &event) != 0) {
		close(conn->fd);
		conn->fd = -1;
		return;
	}
	conn->number = ++conn->crowd->connections_made;
	conn->out_len = conn->in_len = 0;
	conn->blocked = 0;
}

void conn_close(struct conn *conn, uint8_t error, uint64_t now_us)
{
	if (conn->fd < 0)
		return;
	close(conn->fd);
	conn->fd = -1;
	for (uint32_t i = 0; i < conn->requests_count; i++) {
		struct request *request = &conn->requests[i];
		struct record record = record_of(request, conn->daemon, now_us);

		if (request->due_us == 0)
			continue;
		record.connection = conn->number;
		record.error = error;
		crowd_write(conn->crowd, &record);
		request->due_us = 0;
		request->next = conn->free;
		conn->free = i;
		conn->crowd->in_flight--;
	}
}

/* ---- asking ---- */

static uint32_t place_for(struct conn *conn)
{
	const uint32_t count = conn->requests_count;

	if (conn->free == NO_REQUEST && count < CONN_REQUESTS_MAX) {
		conn->requests_count = count ? 2 * count : 64;
		conn->requests =
			grown(conn->requests, conn->requests_count * sizeof(*conn->requests));
		for (uint32_t i = conn->requests_count; i > count; i--) {
			conn->requests[i - 1] = (struct request){ .next = conn->free };
			conn->free = i - 1;
		}
	}
	return conn->free;
}

void conn_ask(struct conn *conn, const char *keyspace, const struct request *request,
	      uint64_t now_us)
{
	const uint32_t id = place_for(conn);
	char key[CONN_KEYSPACE_MAX + 16];
	const int key_len = snprintf(key, sizeof(key), "%s:%u", keyspace, request->key);
	uint8_t *at;

	if (id == NO_REQUEST || conn->out_len + REQUEST_BYTES_MAX > CONN_OUT_MAX) {
		crowd_write_unasked(conn->crowd, request, conn->daemon);
		return;
	}
	if (conn->out_len + REQUEST_BYTES_MAX > conn->out_size) {
		conn->out_size = conn->out_size ? 2 * conn->out_size : 4096;
		conn->out = grown(conn->out, conn->out_size);
	}
	conn->free = conn->requests[id].next;
	conn->requests[id] = *request;
	conn->requests[id].sent_us = now_us;
	conn->crowd->in_flight++;
	at = conn->out + conn->out_len;
	memcpy(at, "\x94\x00\xce", 3);
	for (int i = 0; i < 4; i++)
		at[3 + i] = (uint8_t)(id >> (24 - 8 * i));
	memcpy(at + 7, "\xa3get\x91\xd9", 6);
	at[13] = (uint8_t)key_len;
	memcpy(at + 14, key, (size_t)key_len);
	conn->out_len += 14 + (size_t)key_len;
}

static void conn_watch(struct conn *conn, int blocked)
{
	struct epoll_event event = { .events = EPOLLIN | (blocked ? EPOLLOUT : 0u),
				     .data.ptr = conn };

	if (conn->blocked == blocked)
		return;
	conn->blocked = blocked;
	epoll_ctl(conn->crowd->epoll, EPOLL_CTL_MOD, conn->fd, &event);
}

static void conn_flush(struct conn *conn)
{
	const ssize_t sent = send(conn->fd, conn->out, conn->out_len, MSG_NOSIGNAL);

	/* an end is seen where replies are read */
	if (sent > 0) {
		conn->out_len -= (size_t)sent;
		memmove(conn->out, conn->out + sent, conn->out_len);
	}
	conn_watch(conn, conn->out_len > 0);
}

void conns_flush(struct crowd *crowd)
{
	for (uint32_t i = 0; i < crowd->conns_count; i++)
		if (crowd->conns[i].fd >= 0 && crowd->conns[i].out_len > 0 &&
		    !crowd->conns[i].blocked)
			conn_flush(&crowd->conns[i]);
}

/* ---- replies ---- */

static void conn_on_reply(struct conn *conn, const struct reply *reply, uint64_t now_us)
{
	struct request none = { .due_us = now_us, .sent_us = now_us }, *request = &none;
	struct record record;

	if (reply->id < conn->requests_count && conn->requests[reply->id].due_us > 0)
		request = &conn->requests[reply->id];
	record = record_of(request, conn->daemon, now_us);
	record.connection = conn->number;
	record.state = reply->state;
	record.reason = reply->reason;
	record.source = reply->source;
	record.error = reply->error;
	record.version = reply->version;
	record.age_ms = clamped(reply->age_ms);
	record.ttl_ms = clamped(reply->ttl_ms);
	record.stale_ms = clamped(reply->stale_ms);
	record.turn_us = conn->crowd->turn_us;
	if (request == &none) {
		record.flags |= RECORD_SECOND;
	} else {
		read_value(reply, &record);
		request->due_us = 0;
		request->next = conn->free;
		conn->free = reply->id;
		conn->crowd->in_flight--;
	}
	crowd_write(conn->crowd, &record);
}

static void conn_receive(struct conn *conn, uint64_t now_us)
{
	size_t at = 0;
	ssize_t came;

	if (conn->in_size < conn->in_len + 65536) {
		conn->in_size = conn->in_len + 131072;
		conn->in = grown(conn->in, conn->in_size);
	}
	came = recv(conn->fd, conn->in + conn->in_len, conn->in_size - conn->in_len, 0);
	if (came <= 0) {
		if (came == 0 || (errno != EAGAIN && errno != EINTR))
			conn_close(conn, RECORD_HUNG_UP, now_us);
		return;
	}
	conn->in_len += (size_t)came;
	while (at < conn->in_len) {
		struct reply reply;
		const int used = reply_read(conn->in + at, conn->in_len - at, &reply);

		if (used == 0 && conn->in_len - at < CONN_IN_MAX)
			break;
		if (used <= 0) {
			conn_close(conn, RECORD_BROKEN, now_us);
			return;
		}
		conn_on_reply(conn, &reply, now_us);
		at += (size_t)used;
	}
	conn->in_len -= at;
	memmove(conn->in, conn->in + at, conn->in_len);
}

void conn_on_ready(struct conn *conn, uint32_t events, uint64_t now_us)
{
	if (conn->fd >= 0 && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		conn_receive(conn, now_us);
	if (conn->fd >= 0 && events & EPOLLOUT)
		conn_flush(conn);
}
