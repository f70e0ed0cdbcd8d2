/* libsegar without memory: allocation n fails, for every n. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "client/segar.h"
#include "peer.h"

/* The linker sends the library's allocations here; which of them is to fail, and how many there
 * were. The peer's go the same way, but in a thread that is never out of memory. */
static _Thread_local bool counting;
static long countdown, counted;

static bool must_fail(void)
{
	if (!counting)
		return false;
	counted++;
	return countdown > 0 && --countdown == 0;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
	return must_fail() ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
	return must_fail() ? NULL : __real_calloc(count, size);
}

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size)
{
	return must_fail() ? NULL : __real_realloc(memory, size);
}

char *__real_strndup(const char *text, size_t len);
char *__wrap_strndup(const char *text, size_t len);
char *__wrap_strndup(const char *text, size_t len)
{
	return must_fail() ? NULL : __real_strndup(text, len);
}

int __wrap_vasprintf(char **ret_text, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));
int __wrap_vasprintf(char **ret_text, const char *format, va_list args)
{
	char text[500];

	vsnprintf(text, sizeof(text), format, args);
	*ret_text = strdup(text);
	if (!must_fail())
		return (int)strlen(text);
	free(*ret_text);
	*ret_text = NULL;
	return -1;
}

/* A value that is long enough to be handed over, then an error, then one of each. */
static void serve(struct peer_conn *conn)
{
	static const char value[100000];

	while (peer_take(conn)) {
		const uint32_t id = conn->message.id;

		switch (conn->message.method.data[0]) {
		case 'g':
			peer_put_value(conn, id, value, sizeof(value));
			break;
		case 'm':
			rpc_put_response(&conn->out, id);
			wire_buf_array(&conn->out, 2);
			result_put(&conn->out,
				   &(struct result){ .has_value = true, .value_len = 1 });
			wire_buf_raw(&conn->out, "v", 1);
			result_put_error(&conn->out, STATUS_TIMEOUT, -1, "late", 4);
			break;
		default:
			rpc_put_error(&conn->out, id, STATUS_DENIED, -1, "no", 2);
			break;
		}
		peer_send(conn);
	}
}

/* A reply is as it must be, or tells that there was no memory; some then tell it of others. */
static void check(segar_reply *r, int expected)
{
	cr_assert(r->status == expected || r->status == SEGAR_NO_MEMORY ||
			  r->status == SEGAR_DISCONNECTED,
		  "%d: %s", r->status, r->error);
	cr_assert_not_null(r->error);
	segar_reply_free(r);
}

/* All that a client does, from open to close. */
static void live(const char *path)
{
	const char *keys[] = { "ks:1", "ks:2" };
	segar *c = segar_open(path);
	uint32_t id;

	if (!c)
		return;
	segar_set_attempts(c, 1);
	check(segar_get(c, "ks:1", NULL), SEGAR_OK);
	check(segar_mget(c, keys, 2, NULL), SEGAR_OK);
	check(segar_ping(c, NULL), SEGAR_DENIED);
	id = segar_send_get(c, "ks:1", NULL);
	if (id)
		check(segar_receive(c, id), SEGAR_OK);
	segar_send_get(c, "ks:2", NULL);
	segar_close(c);
}

Test(segar_memory, nothing_breaks_or_leaks_whichever_allocation_fails)
{
	long total;
	struct peer peer;

	peer_start(&peer, serve);
	counting = true;
	live(peer.path);
	total = counted;
	cr_assert_gt(total, 10);
	for (long n = 1; n <= total; n++) {
		countdown = n;
		live(peer.path);
	}
	countdown = 0;
	counting = false;
	peer_stop(&peer);
}
