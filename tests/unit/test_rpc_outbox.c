/* An outbox against a socket that takes as much as it likes. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "rpc/limits.h"
#include "rpc/outbox.h"
#include "wire_help.h"

static int ends[2];
static struct outbox_pool pool;

static void set_up(void)
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	outbox_pool_init(&pool);
}

static void tear_down(void)
{
	outbox_pool_close(&pool);
	close(ends[0]);
	close(ends[1]);
}

TestSuite(rpc_outbox, .init = set_up, .fini = tear_down);

static struct value *make_value(uint64_t *seed, size_t len)
{
	struct value *value = value_create(NULL, len);

	cr_assert(value);
	for (size_t i = 0; i < len; i++)
		value->bytes[i] = (char)random_next(seed);
	return value;
}

Test(rpc_outbox, everything_arrives_once_and_in_order)
{
	enum { STEPS = 4000 };
	uint64_t seed = 42;
	struct outbox *outbox = outbox_take(&pool);
	struct wire_buf sent, came;
	uint8_t chunk[100000];
	size_t count = 0;

	wire_buf_init(&sent, 1u << 30);
	wire_buf_init(&came, 1u << 30);
	for (int step = 0; step < STEPS || outbox_unsent(outbox) > 0; step++) {
		const bool writes = step < STEPS && random_below(&seed, 3) > 0;

		for (uint64_t i = writes ? random_below(&seed, 40) : 0; i > 0; i--) {
			struct value *value = make_value(&seed, random_below(&seed, 6000));

			if (random_below(&seed, 2)) {
				wire_buf_raw(&outbox->bytes, value->bytes, value->len);
			} else {
				outbox_value(outbox, value);
				cr_assert_eq(value->refs, value->len > VALUE_COPY_MAX ? 2 : 1);
			}
			wire_buf_raw(&sent, value->bytes, value->len);
			value_unref(value);
		}
		const size_t before = outbox_unsent(outbox);
		const size_t was = count;
		const size_t most = random_below(&seed, 300000);
		const enum outbox_sent how = outbox_send(outbox, ends[0], most, &count);

		cr_assert_leq(count - was, most);
		cr_assert_eq(outbox_unsent(outbox), before - (count - was));
		cr_assert_eq(how == OUTBOX_EMPTY, outbox_unsent(outbox) == 0);
		cr_assert_neq(how, OUTBOX_BROKEN);
		cr_assert(outbox->bytes.len <= 2 * before + 1000000, "what is sent is kept");
		const ssize_t n = recv(ends[1], chunk, 1 + random_below(&seed, sizeof(chunk)), 0);
		if (n > 0)
			wire_buf_raw(&came, chunk, (size_t)n);
	}
	for (;;) {
		const ssize_t n = recv(ends[1], chunk, sizeof(chunk), 0);

		if (n <= 0)
			break;
		wire_buf_raw(&came, chunk, (size_t)n);
	}
	cr_assert_eq(count, sent.len);
	cr_assert_eq(came.len, sent.len);
	cr_assert_eq(memcmp(came.data, sent.data, sent.len), 0);
	wire_buf_close(&sent);
	wire_buf_close(&came);
	outbox_give(&pool, outbox);
}

Test(rpc_outbox, a_message_that_fails_is_taken_back_whole)
{
	uint64_t seed = 1;
	struct outbox *outbox = outbox_take(&pool);
	struct value *value = make_value(&seed, 100000);

	wire_buf_str(&outbox->bytes, "before");
	outbox_value(outbox, value);
	const size_t unsent = outbox_unsent(outbox);
	const struct outbox_mark mark = outbox_mark(outbox);

	wire_buf_str(&outbox->bytes, "half a message");
	outbox_value(outbox, value);
	for (int i = 0; i < 20 && !wire_buf_failed(&outbox->bytes); i++) {
		mem_fail_at(1);
		outbox_value(outbox, value);
	}
	mem_fail_at(0);
	cr_assert(wire_buf_failed(&outbox->bytes));
	cr_assert(value->refs > 3);
	outbox_rewind(outbox, &mark);
	cr_assert(!wire_buf_failed(&outbox->bytes));
	cr_assert_eq(outbox_unsent(outbox), unsent);
	cr_assert_eq(value->refs, 2);
	outbox_give(&pool, outbox);
	cr_assert_eq(value->refs, 1);
	value_unref(value);
}

Test(rpc_outbox, shared_values_count_once_among_those_that_share_them)
{
	enum { COUNT = 10, LEN = 1 << 20 };
	uint64_t seed = 1;
	struct outbox *outboxes[COUNT];
	struct value *value = make_value(&seed, LEN);
	size_t memory = 0;

	for (int i = 0; i < COUNT; i++) {
		outboxes[i] = outbox_take(&pool);
		outbox_value(outboxes[i], value);
	}
	for (int i = 0; i < COUNT; i++)
		memory += outbox_memory(outboxes[i]);
	cr_assert(memory > LEN - COUNT && memory <= LEN);
	for (int i = 1; i < COUNT; i++)
		outbox_give(&pool, outboxes[i]);
	cr_assert_eq(outbox_memory(outboxes[0]), LEN);
	outbox_give(&pool, outboxes[0]);
	cr_assert_eq(value->refs, 1);
	value_unref(value);
}

Test(rpc_outbox, a_reader_that_is_gone_is_told_without_a_signal)
{
	struct outbox *outbox = outbox_take(&pool);
	size_t sent = 0;

	wire_buf_str(&outbox->bytes, "to nobody");
	shutdown(ends[1], SHUT_RDWR);
	cr_assert_eq(outbox_send(outbox, ends[0], 1000, &sent), OUTBOX_BROKEN);
	cr_assert(errno == EPIPE && sent == 0);
	outbox_give(&pool, outbox);
}

Test(rpc_outbox, the_pool_keeps_few_and_small_ones)
{
	struct outbox *outboxes[2 * OUTBOX_SPARE_MAX];

	for (int i = 0; i < 2 * OUTBOX_SPARE_MAX; i++)
		outboxes[i] = outbox_take(&pool);
	for (int i = 0; i < 2 * OUTBOX_SPARE_MAX; i++)
		outbox_give(&pool, outboxes[i]);
	cr_assert_eq(pool.spare.count, OUTBOX_SPARE_MAX);
	outboxes[0] = outbox_take(&pool);
	cr_assert(wire_buf_reserve(&outboxes[0]->bytes, 2 * OUTBOX_SPARE_BYTES));
	outbox_give(&pool, outboxes[0]);
	cr_assert_eq(pool.spare.count, OUTBOX_SPARE_MAX - 1);
}
