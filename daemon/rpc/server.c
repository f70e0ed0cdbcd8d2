#include "rpc/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "rpc/peer.h"

/* ---- accepting ---- */

static void server_on_acceptable(uv_poll_t *poll, int status, int events);

static void watch_listener(struct server *server)
{
	uv_poll_start(&server->accept_poll, UV_READABLE, server_on_acceptable);
}

static void server_on_accept_timer(uv_timer_t *timer)
{
	watch_listener(container_of(timer, struct server, accept_timer));
}

/* Once a time that nobody finds the socket. */
static void complain_of_path(struct server *server, const char *why)
{
	if (!server->path_complained)
		log_error("listen.lost", LOG_TEXT("path", server->listener.path),
			  LOG_TEXT("why", why));
	server->path_complained = true;
}

/* Somebody has deleted the socket's file, as in cleaning up /run: it is made anew. Connections that
 * there are go on. */
static void rebind(struct server *server)
{
	const bool paused = !uv_is_active((uv_handle_t *)&server->accept_poll);
	char why[512];
	enum listener_outcome outcome;

	uv_poll_stop(&server->accept_poll);
	outcome = listener_rebind(&server->listener, server->listen, why, sizeof(why));
	if (!paused)
		watch_listener(server);
	if (outcome != LISTENER_OK) {
		complain_of_path(server, why);
		return;
	}
	server->path_complained = false;
	log_warning("listen.rebound", LOG_TEXT("path", server->listener.path),
		    LOG_TEXT("why", "the socket's file was gone"));
}

static void server_on_path_timer(uv_timer_t *timer)
{
	struct server *server = container_of(timer, struct server, path_timer);

	switch (listener_look(&server->listener)) {
	case LISTENER_PATH_OURS:
		server->path_complained = false;
		return;
	case LISTENER_PATH_GONE:
		rebind(server);
		return;
	case LISTENER_PATH_OTHERS:
		complain_of_path(server, "another file lies there: no client finds this daemon");
		return;
	}
}

static int open_reserve(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void pause_accepting(struct server *server)
{
	server->counters.accept_pauses++;
	log_warning("accept.paused", LOG_TEXT("reason", "no file descriptors are left"),
		    LOG_UINT("connections", server->peers.count));
	uv_poll_stop(&server->accept_poll);
	uv_timer_start(&server->accept_timer, server_on_accept_timer, ACCEPT_PAUSE_MS, 0);
}

/* No descriptor is left: the reserve is given up for a moment to end the client's waiting. Where
 * not even that works, the kernel keeps the clients in its queue for a while; asking it again at
 * once would only spin. Returns whether to go on. */
static bool refuse_without_descriptors(struct server *server)
{
	bool none = false;
	int fd = -1;

	if (server->reserve_fd >= 0) {
		close(server->reserve_fd);
		fd = accept4(server->listener.fd, NULL, NULL, SOCK_CLOEXEC);
		none = fd < 0 && errno == EAGAIN;
		if (fd >= 0)
			close(fd);
	}
	server->reserve_fd = open_reserve();
	if (fd >= 0) {
		server->counters.connections_refused++;
		log_warning("connection.refused",
			    LOG_TEXT("reason", "no file descriptors are left"),
			    LOG_UINT("connections", server->peers.count));
	} else if (!none) {
		pause_accepting(server);
	}
	return fd >= 0;
}

static void refuse_silently(struct server *server, int fd, const char *why)
{
	close(fd);
	server->counters.connections_refused++;
	log_warning("connection.refused", LOG_TEXT("reason", why),
		    LOG_UINT("connections", server->peers.count));
}

static void welcome(struct server *server, int fd)
{
	const size_t most = (size_t)server->limits->connections;
	const char *why = NULL;
	struct access access;
	struct user *user;
	bool surplus;

	access_init(&access, &server->access, fd);
	user = users_join(&server->users, access.uid);
	surplus = server->peers.count - server->surplus >= most ||
		  (user && user->connections >= (uint32_t)server->limits->connections_per_user);
	if (surplus && server->surplus >= SURPLUS_MAX)
		why = "there are too many connections";
	if (!user || why) {
		if (user)
			users_leave(&server->users, user);
		refuse_silently(server, fd, why ? why : "out of memory");
		return;
	}
	if (peer_open(server, fd, &access, user, surplus) != 0) {
		users_leave(&server->users, user);
		server->counters.connections_refused++;
		log_warning("connection.refused", LOG_TEXT("reason", "out of memory"));
		return;
	}
	if (surplus)
		server->counters.connections_refused++;
	else
		server->counters.accepted++;
}

static void server_on_acceptable(uv_poll_t *poll, int status, int events)
{
	struct server *server = container_of(poll, struct server, accept_poll);

	(void)status;
	(void)events;
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		int fd = accept4(server->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			welcome(server, fd);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			   errno == ENOBUFS) {
			if (!refuse_without_descriptors(server))
				return;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			return; /* EAGAIN: no more for now */
		}
	}
}

/* ---- turns ---- */

/* The memory that unsent replies really hold. */
static size_t output_memory(const struct server *server)
{
	size_t memory = 0;

	list_foreach (&server->laggards, node)
		memory += outbox_memory(container_of(node, struct peer, lag)->out);
	return memory;
}

/* One client that doesn't read holds little; very many of them together must not hold much. Many
 * that are sent the same value share it: so when their sum is over the limit, the memory is
 * counted, and again when as much has been added as was free. */
static void shed_laggards(struct server *server)
{
	if (server->output_bytes <= server->output_max)
		server->output_check = server->output_max;
	while (server->output_bytes > server->output_check) {
		struct list_node *first = list_first(&server->laggards);
		const size_t memory = output_memory(server);

		if (memory <= server->output_max || !first) {
			server->output_check = server->output_bytes + server->output_max - memory;
			return;
		}
		server->counters.laggards_closed++;
		peer_complain(container_of(first, struct peer, lag),
			      "too many replies are unread; these for the longest time");
		peer_close(container_of(first, struct peer, lag));
	}
}

/* Nothing to do but to let the loop turn. */
static void server_on_idle(uv_idle_t *idle)
{
	(void)idle;
}

/* Whether requests came so lately that it doesn't pay to sleep. A clock that jumped is no reason to
 * go on for long. */
static bool is_polling(struct server *server)
{
	const int64_t left_us = server->poll_until_us - server->now_us;

	return server->poll_us > 0 && left_us > 0 && left_us <= server->poll_us;
}

/* Before the loop sleeps: a turn for each connection that is due, and what it writes is sent. */
static void server_on_prepare(uv_prepare_t *prepare)
{
	struct server *server = container_of(prepare, struct server, prepare);
	struct list_node *node;

	server->turn_bytes = 0;
	server->beside_shorts = server->turn_shorts > 0;
	server->turn_shorts = 0;
	if (!list_empty(&server->due) || is_polling(server))
		server_now(server);
	for (size_t i = server->due.count; i > 0 && (node = list_pop_front(&server->due)); i--)
		peer_turn(container_of(node, struct peer, due));
	shed_laggards(server);
	if (list_empty(&server->due) && !is_polling(server))
		uv_idle_stop(&server->idle);
	else if (!uv_is_active((uv_handle_t *)&server->idle))
		uv_idle_start(&server->idle, server_on_idle);
}

/* ---- ends ---- */

static void set_timer(struct server *server);

static void close_all(struct server *server)
{
	struct list_node *node;

	while ((node = list_first(&server->peers)))
		peer_close(container_of(node, struct peer, node));
}

static void server_on_timer(uv_timer_t *timer)
{
	struct server *server = container_of(timer, struct server, timer);
	const int64_t now_ms = (int64_t)uv_now(server->loop);
	struct list_node *node;

	while ((node = list_first(&server->leaving))) {
		struct peer *peer = container_of(node, struct peer, leave);

		if (peer->leave_at_ms > now_ms)
			break;
		peer_close(peer);
	}
	if (server->closing && server->drain_until_ms <= now_ms)
		close_all(server);
	set_timer(server);
}

static void set_timer(struct server *server)
{
	const int64_t now_ms = (int64_t)uv_now(server->loop);
	struct list_node *node = list_first(&server->leaving);
	int64_t at_ms = node ? container_of(node, struct peer, leave)->leave_at_ms : INT64_MAX;

	if (server->closing && !list_empty(&server->peers) && server->drain_until_ms < at_ms)
		at_ms = server->drain_until_ms;
	if (at_ms == INT64_MAX || uv_is_closing((uv_handle_t *)&server->timer))
		return;
	uv_timer_start(&server->timer, server_on_timer,
		       at_ms > now_ms ? (uint64_t)(at_ms - now_ms) : 0, 0);
}

void server_leave_soon(struct server *server, struct peer *peer)
{
	peer->leave_at_ms = (int64_t)uv_now(server->loop) + FAREWELL_MS;
	list_push_back(&server->leaving, &peer->leave);
	if (!uv_is_active((uv_handle_t *)&server->timer))
		set_timer(server);
}

static void server_on_closed(uv_handle_t *handle)
{
	server_handle_closed(handle->data);
}

static void close_handle(struct server *server, uv_handle_t *handle)
{
	handle->data = server;
	uv_close(handle, server_on_closed);
}

/* The connections need these as long as there is one; everything else is closed by then. */
void server_may_be_closed(struct server *server)
{
	if (!server->closing || server->ending || !list_empty(&server->peers) || server->ops > 0)
		return;
	server->ending = true;
	close_handle(server, (uv_handle_t *)&server->prepare);
	close_handle(server, (uv_handle_t *)&server->idle);
	close_handle(server, (uv_handle_t *)&server->timer);
}

void server_handle_closed(struct server *server)
{
	CHECK(server->handles > 0);
	server->handles--;
	server_may_be_closed(server);
	if (!server->ending || server->handles > 0)
		return;
	CHECK(server->key_bytes == 0);
	CHECK_MSG(server->weight == 0 && server->input_bytes == 0 && server->output_bytes == 0 &&
			  server->held_bytes == 0,
		  "%u requests, %zu bytes in, %zu out, %zu held", server->weight,
		  server->input_bytes, server->output_bytes, server->held_bytes);
	outbox_pool_close(&server->outboxes);
	outbox_close(&server->no_outbox);
	server->closed(server);
}

void server_close(struct server *server, int64_t drain_ms, server_close_cb closed)
{
	struct list_node *next;

	CHECK(!server->closing);
	server->closing = true;
	server->closed = closed;
	server->drain_until_ms = (int64_t)uv_now(server->loop) + drain_ms;
	close_handle(server, (uv_handle_t *)&server->accept_poll);
	close_handle(server, (uv_handle_t *)&server->accept_timer);
	close_handle(server, (uv_handle_t *)&server->path_timer);
	listener_close(&server->listener);
	if (server->reserve_fd >= 0)
		close(server->reserve_fd);
	for (struct list_node *node = server->peers.head.next; node != &server->peers.head;
	     node = next) {
		next = node->next;
		peer_drain(container_of(node, struct peer, node));
	}
	if (drain_ms <= 0)
		close_all(server);
	set_timer(server);
	server_may_be_closed(server);
}

void server_set_access(struct server *server, const struct access_rules *rules)
{
	server->access = *rules;
	for (struct list_node *node = server->peers.head.next; node != &server->peers.head;
	     node = node->next) {
		struct peer *peer = container_of(node, struct peer, node);

		access_init(&peer->access, &server->access, peer->fd);
	}
}

/* ---- the beginning ---- */

enum listener_outcome server_open(struct server *server, const struct server_options *options,
				  char *ret_text, size_t size)
{
	enum listener_outcome outcome;

	*server = (struct server){
		.loop = options->loop,
		.pump = options->pump,
		.limits = options->limits,
		.listen = options->listen,
		.access = options->access,
		.about = options->about,
		.poll_us = options->listen->poll_us,
	};
	outcome = listener_open(&server->listener, options->listen, options->listen_fd, ret_text,
				size);
	if (outcome != LISTENER_OK)
		return outcome;
	if (uv_poll_init(server->loop, &server->accept_poll, server->listener.fd) != 0) {
		snprintf(ret_text, size, "%s: can't watch the socket", server->listener.path);
		listener_close(&server->listener);
		return LISTENER_FAILED;
	}
	/* From here on nothing can fail. */
	uv_timer_init(server->loop, &server->accept_timer);
	uv_timer_init(server->loop, &server->path_timer);
	uv_timer_start(&server->path_timer, server_on_path_timer, PATH_LOOK_MS, PATH_LOOK_MS);
	uv_prepare_init(server->loop, &server->prepare);
	uv_idle_init(server->loop, &server->idle);
	uv_timer_init(server->loop, &server->timer);
	server->handles = 6;
	server->reserve_fd = open_reserve();
	list_init(&server->follows);
	list_init(&server->peers);
	list_init(&server->users);
	list_init(&server->due);
	list_init(&server->leaving);
	list_init(&server->laggards);
	server->output_max = server->output_check = server->held_max = REPLIES_ALL_MAX;
	server->output_max = server->output_check = server->key_bytes_max = KEYS_ALL_MAX;
	outbox_pool_init(&server->outboxes);
	wire_buf_wrap(&server->no_outbox.bytes, NULL, 0);
	uv_prepare_start(&server->prepare, server_on_prepare);
	watch_listener(server);
	return LISTENER_OK;
}
