#include "load_stream.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { READ_BUFFER = 256 * 1024 };

/* A request in flight. */
struct slot {
	uint64_t since_ns; /* when it was due, or sent; 0: free */
	uint32_t key;
	uint32_t next;  /* while free: the next free one */
	uint32_t after; /* where replies are in order: the one that was sent after it */
};

struct load_conn {
	struct stream *stream; /* borrowed */
	int fd;
	struct slot *slots;      /* owned; `depth` of them */
	uint32_t free;           /* the first free slot; depth: none */
	uint32_t oldest, newest; /* in order: what is answered next */
	uint32_t in_flight;
	char *out; /* owned; room for `depth` requests */
	size_t out_len, out_sent;
	char *kept; /* owned; a reply's beginning: CODEC_HEAD_MAX bytes */
	size_t kept_len;
	size_t rest;   /* bytes that are left of the reply under way */
	uint32_t slot; /* which it answers */
	enum reply_kind kind;
	bool blocked; /* waits for EPOLLOUT */
};

static void break_stream(struct stream *stream, const char *why)
{
	if (!stream->broken)
		fprintf(stderr, "load: %s: %s\n", stream->options.name, why);
	stream->broken = true;
}

/* ---- sending ---- */

static void conn_watch(struct load_conn *conn, bool blocked)
{
	struct epoll_event event = { .events = EPOLLIN | (blocked ? EPOLLOUT : 0u),
				     .data.ptr = conn };

	if (conn->blocked == blocked)
		return;
	conn->blocked = blocked;
	epoll_ctl(conn->stream->epoll, EPOLL_CTL_MOD, conn->fd, &event);
}

static void conn_send(struct load_conn *conn)
{
	while (conn->out_sent < conn->out_len) {
		const ssize_t sent = send(conn->fd, conn->out + conn->out_sent,
					  conn->out_len - conn->out_sent, MSG_NOSIGNAL);

		if (sent > 0) {
			conn->out_sent += (size_t)sent;
		} else if (errno == EAGAIN) {
			conn_watch(conn, true);
			return;
		} else if (errno != EINTR) {
			break_stream(conn->stream, strerror(errno));
			return;
		}
	}
	conn->out_len = conn->out_sent = 0;
	conn_watch(conn, false);
}

/* Writes one more request, which is sent later. False: there is no room, or nothing more to fill.
 */
static bool conn_ask(struct load_conn *conn, uint64_t since_ns)
{
	struct stream *stream = conn->stream;
	const uint32_t at = conn->free;
	struct slot *slot = &conn->slots[at];
	const size_t len = stream->codec.request_len;

	if (conn->in_flight == stream->options.depth ||
	    (stream->options.fill && stream->filled == stream->options.keys))
		return false;
	if (conn->out_sent > 0 && conn->out_len + len > stream->options.depth * len) {
		conn->out_len -= conn->out_sent;
		memmove(conn->out, conn->out + conn->out_sent, conn->out_len);
		conn->out_sent = 0;
	}
	conn->free = slot->next;
	slot->key = stream->options.fill ? stream->filled++ : keys_next(&stream->keys);
	slot->since_ns = since_ns;
	if (conn->in_flight++ == 0)
		conn->oldest = at;
	else
		conn->slots[conn->newest].after = at;
	conn->newest = at;
	codec_put(&stream->codec, conn->out + conn->out_len, slot->key, at);
	conn->out_len += len;
	return true;
}

/* When the next request of an open loop is due. */
static uint64_t next_due_ns(const struct stream *stream)
{
	return stream->begun_ns + (uint64_t)((double)stream->sent * 1e9 / stream->options.rate);
}

void stream_on_time(struct stream *stream, uint64_t now_ns)
{
	if (stream->options.rate <= 0)
		return;
	for (;;) {
		const uint64_t due_ns = next_due_ns(stream);
		uint32_t tried = 0;

		if (due_ns > now_ns)
			return;
		for (; tried < stream->options.connections; tried++) {
			struct load_conn *conn = &stream->conns[stream->turn];

			stream->turn = (stream->turn + 1) % stream->options.connections;
			if (!conn_ask(conn, due_ns))
				continue;
			if (!conn->blocked)
				conn_send(conn);
			break;
		}
		if (tried == stream->options.connections) {
			stream->counts.late++;
			return; /* it stays due, and its time runs */
		}
		stream->sent++;
	}
}

/* ---- receiving ---- */

/* The slot is free again; in order it was the oldest. */
static void free_slot(struct load_conn *conn, uint32_t at)
{
	struct slot *slot = &conn->slots[at];

	if (at == conn->oldest)
		conn->oldest = slot->after;
	slot->since_ns = 0;
	slot->next = conn->free;
	conn->free = at;
	conn->in_flight--;
}

/* A whole reply has come. */
static void conn_on_reply(struct load_conn *conn, uint64_t now_ns)
{
	struct stream *stream = conn->stream;
	const uint64_t since_ns = conn->slots[conn->slot].since_ns;

	free_slot(conn, conn->slot);
	histogram_add(&stream->latencies, now_ns > since_ns ? now_ns - since_ns : 0);
	stream->counts.fresh += conn->kind == REPLY_FRESH;
	stream->counts.stale += conn->kind == REPLY_STALE;
	stream->counts.misses += conn->kind == REPLY_MISS;
	stream->counts.errors += conn->kind == REPLY_ERROR;
	stream->stored++;
	if (stream->options.rate <= 0)
		conn_ask(conn, now_ns);
}

/* The beginning of a reply. Returns how many bytes it took; 0: it needs more. */
static size_t conn_take(struct load_conn *conn, const char *data, size_t len)
{
	struct stream *stream = conn->stream;
	const bool in_order = stream->options.protocol != PROTOCOL_SEGAR;
	struct reply reply = { 0 };
	char digits[KEY_DIGITS];

	if (conn->in_flight == 0) {
		break_stream(stream, "a reply to no request");
		return 0;
	}
	conn->kind = codec_take(&stream->codec, data, len, conn->slots[conn->oldest].key, &reply);
	if (conn->kind == REPLY_MORE)
		return 0;
	if (conn->kind == REPLY_BROKEN || (!in_order && reply.slot >= stream->options.depth)) {
		break_stream(stream, "a reply that is none, or of another length");
		return 0;
	}
	conn->slot = in_order ? conn->oldest : reply.slot;
	conn->rest = reply.rest;
	if (reply.digits) {
		codec_digits(digits, conn->slots[conn->slot].key);
		stream->counts.wrong += memcmp(reply.digits, digits, KEY_DIGITS) != 0;
	}
	return reply.used;
}

static void conn_on_bytes(struct load_conn *conn, const char *data, size_t len, uint64_t now_ns)
{
	size_t at = 0, used, part;

	while (at < len && !conn->stream->broken) {
		if (conn->rest == 0) {
			used = conn_take(conn, data + at, len - at);
			if (used == 0)
				break;
			at += used;
		}
		part = conn->rest < len - at ? conn->rest : len - at;
		at += part;
		conn->rest -= part;
		if (conn->rest == 0)
			conn_on_reply(conn, now_ns);
		else
			break;
	}
	conn->kept_len = len - at;
	if (conn->kept_len > CODEC_HEAD_MAX) {
		break_stream(conn->stream, "a reply without an end");
		conn->kept_len = 0;
	}
	memcpy(conn->kept, data + at, conn->kept_len);
}

static void conn_receive(struct load_conn *conn, uint64_t now_ns)
{
	static char buffer[CODEC_HEAD_MAX + READ_BUFFER];
	ssize_t came;

	memcpy(buffer, conn->kept, conn->kept_len);
	came = recv(conn->fd, buffer + conn->kept_len, READ_BUFFER, 0);
	if (came > 0)
		conn_on_bytes(conn, buffer, conn->kept_len + (size_t)came, now_ns);
	else if (came == 0 || (errno != EAGAIN && errno != EINTR))
		break_stream(conn->stream, came == 0 ? "the server has hung up" : strerror(errno));
}

void stream_on_ready(struct load_conn *conn, uint32_t events, uint64_t now_ns)
{
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		conn_receive(conn, now_ns);
	if (conn->out_len > 0 && (!conn->blocked || events & EPOLLOUT))
		conn_send(conn);
}

bool stream_is_full(const struct stream *stream)
{
	return stream->stored >= stream->options.keys;
}

/* ---- life ---- */

static int conn_open(struct load_conn *conn, struct stream *stream)
{
	const struct stream_options *options = &stream->options;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = conn };

	*conn = (struct load_conn){ .stream = stream };
	conn->slots = calloc(options->depth, sizeof(*conn->slots));
	conn->out = malloc(options->depth * stream->codec.request_len);
	conn->kept = malloc(CODEC_HEAD_MAX);
	if (!conn->slots || !conn->out || !conn->kept)
		return -1;
	for (uint32_t i = 0; i < options->depth; i++)
		conn->slots[i].next = i + 1;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", options->path);
	conn->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (conn->fd < 0 || connect(conn->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		return -1;
	/* Only now: until here a full backlog is waited for. */
	fcntl(conn->fd, F_SETFL, O_NONBLOCK);
	return epoll_ctl(stream->epoll, EPOLL_CTL_ADD, conn->fd, &event);
}

int stream_open(struct stream *stream, const struct stream_options *options, int epoll,
		uint64_t now_ns)
{
	*stream = (struct stream){ .options = *options, .epoll = epoll, .begun_ns = now_ns };
	stream->conns = calloc(options->connections, sizeof(*stream->conns));
	if (!stream->conns ||
	    codec_init(&stream->codec, options->protocol, options->fill, options->prefix,
		       options->value_len, options->depth) != 0 ||
	    keys_init(&stream->keys, options->keys, options->zipf, 1) != 0) {
		break_stream(stream, "out of memory, or the prefix is too long");
		return -1;
	}
	for (uint32_t i = 0; i < options->connections; i++) {
		if (conn_open(&stream->conns[i], stream) != 0) {
			break_stream(stream, strerror(errno));
			return -1;
		}
	}
	for (uint32_t i = 0; i < options->connections && options->rate <= 0; i++) {
		while (conn_ask(&stream->conns[i], now_ns))
			;
		conn_send(&stream->conns[i]);
	}
	return 0;
}

void stream_begin(struct stream *stream, uint64_t now_ns)
{
	stream->latencies = (struct histogram){ 0 };
	stream->counts = (struct stream_counts){ 0 };
	stream->begun_ns = now_ns;
	stream->sent = 0;
}

void stream_end(struct stream *stream, uint64_t now_ns)
{
	if (stream->options.rate <= 0)
		return;
	for (uint32_t i = 0; i < stream->options.connections; i++) {
		for (uint32_t k = 0; k < stream->options.depth; k++) {
			const uint64_t since_ns = stream->conns[i].slots[k].since_ns;

			if (since_ns > 0 && since_ns < now_ns)
				histogram_add(&stream->latencies, now_ns - since_ns);
		}
	}
	for (; next_due_ns(stream) < now_ns; stream->sent++)
		histogram_add(&stream->latencies, now_ns - next_due_ns(stream));
}

void stream_close(struct stream *stream)
{
	for (uint32_t i = 0; i < stream->options.connections; i++) {
		close(stream->conns[i].fd);
		free(stream->conns[i].slots);
		free(stream->conns[i].out);
		free(stream->conns[i].kept);
	}
	free(stream->conns);
	codec_close(&stream->codec);
	keys_close(&stream->keys);
}
