#include "rpc/outbox.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/check.h"
#include "base/mem.h"
#include "rpc/limits.h"

enum {
	REFS_FIRST = 16,
	IOV_COUNT = 64,
};

size_t outbox_memory(const struct outbox *outbox)
{
	size_t memory = outbox->bytes.len - outbox->bytes_sent;

	for (size_t i = outbox->refs_sent; i < outbox->refs_count; i++) {
		const struct value *value = outbox->refs[i].value;

		/* One of the references may be the near cache's, and gone at any time. */
		memory += value->refs > 2 ? value->len / (value->refs - 1) : value->len;
	}
	return memory;
}

struct outbox_mark outbox_mark(const struct outbox *outbox)
{
	return (struct outbox_mark){ outbox->bytes.len, outbox->refs_count, outbox->refs_bytes };
}

void outbox_rewind(struct outbox *outbox, const struct outbox_mark *mark)
{
	CHECK(mark->refs_count >= outbox->refs_sent && mark->bytes_len >= outbox->bytes_sent);
	while (outbox->refs_count > mark->refs_count)
		value_unref(outbox->refs[--outbox->refs_count].value);
	outbox->refs_bytes = mark->refs_bytes;
	wire_buf_rewind(&outbox->bytes, mark->bytes_len);
}

static bool grow_refs(struct outbox *outbox)
{
	size_t cap = outbox->refs_cap ? 2 * outbox->refs_cap : REFS_FIRST;
	struct outbox_ref *refs = mem_alloc(cap * sizeof(*refs));

	if (!refs)
		return false;
	if (outbox->refs_count > 0)
		memcpy(refs, outbox->refs, outbox->refs_count * sizeof(*refs));
	mem_free(outbox->refs);
	outbox->refs = refs;
	outbox->refs_cap = cap;
	return true;
}

void outbox_value(struct outbox *outbox, struct value *value)
{
	if (wire_buf_failed(&outbox->bytes))
		return;
	if (value->len <= VALUE_COPY_MAX) {
		wire_buf_raw(&outbox->bytes, value->bytes, value->len);
		return;
	}
	if (outbox->refs_count == outbox->refs_cap && !grow_refs(outbox)) {
		outbox->bytes.failed = true;
		return;
	}
	outbox->refs[outbox->refs_count++] =
		(struct outbox_ref){ value_ref(value), outbox->bytes.len };
	outbox->refs_bytes += value->len;
}

/* What is to be sent next, in order: own bytes up to a value's place, the value, and so on; `most`
 * bytes at most. */
static size_t gather(const struct outbox *outbox, size_t most, struct iovec iov[IOV_COUNT],
		     size_t *ret_bytes)
{
	size_t at = outbox->bytes_sent, skip = outbox->ref_bytes_sent, count = 0, total = 0;

	for (size_t i = outbox->refs_sent; i <= outbox->refs_count && count + 2 <= IOV_COUNT; i++) {
		const bool last = i == outbox->refs_count;
		const size_t end = last ? outbox->bytes.len : outbox->refs[i].at;

		if (end > at) {
			iov[count++] = (struct iovec){ outbox->bytes.data + at, end - at };
			total += end - at;
			at = end;
		}
		if (!last) {
			struct value *value = outbox->refs[i].value;

			iov[count++] = (struct iovec){ value->bytes + skip, value->len - skip };
			total += value->len - skip;
			skip = 0;
		}
		if (total >= most)
			break;
	}
	*ret_bytes = total;
	if (total <= most)
		return count;
	/* The last one may lie beyond it, the one before reaches over it. */
	while (total - iov[count - 1].iov_len >= most)
		total -= iov[--count].iov_len;
	iov[count - 1].iov_len -= total - most;
	*ret_bytes = most;
	return count;
}

/* Counts `sent` bytes off, giving values back that are gone. */
static void advance(struct outbox *outbox, size_t sent)
{
	while (sent > 0) {
		const bool last = outbox->refs_sent == outbox->refs_count;
		struct outbox_ref *ref = last ? NULL : &outbox->refs[outbox->refs_sent];
		const size_t end = last ? outbox->bytes.len : ref->at;
		size_t part = end - outbox->bytes_sent;

		if (part > 0) {
			part = part < sent ? part : sent;
			outbox->bytes_sent += part;
		} else {
			CHECK(ref);
			part = ref->value->len - outbox->ref_bytes_sent;
			part = part < sent ? part : sent;
			outbox->ref_bytes_sent += part;
			if (outbox->ref_bytes_sent == ref->value->len) {
				outbox->refs_bytes -= ref->value->len;
				outbox->ref_bytes_sent = 0;
				outbox->refs_sent++;
				value_unref(ref->value);
			}
		}
		sent -= part;
	}
}

/* The room of what is sent is used again: at once when all is, else when it is the larger part, so
 * that a client which is always a little behind costs no more than it is behind. */
static void compact(struct outbox *outbox)
{
	const size_t sent = outbox->bytes_sent, left = outbox->bytes.len - sent;
	const size_t refs_left = outbox->refs_count - outbox->refs_sent;

	if (sent >= left) {
		if (left > 0)
			memmove(outbox->bytes.data, outbox->bytes.data + sent, left);
		for (size_t i = outbox->refs_sent; i < outbox->refs_count; i++)
			outbox->refs[i].at -= sent;
		outbox->bytes.len = left;
		outbox->bytes_sent = 0;
	}
	if (outbox->refs_sent >= refs_left) {
		if (refs_left > 0)
			memmove(outbox->refs, outbox->refs + outbox->refs_sent,
				refs_left * sizeof(*outbox->refs));
		outbox->refs_count = refs_left;
		outbox->refs_sent = 0;
	}
}

enum outbox_sent outbox_send(struct outbox *outbox, int fd, size_t most, size_t *ret_sent)
{
	enum outbox_sent ret = OUTBOX_EMPTY;
	size_t done = 0;

	while (outbox_unsent(outbox) > 0) {
		struct iovec iov[IOV_COUNT];
		size_t asked;
		struct msghdr message = { .msg_iov = iov };
		ssize_t sent;

		if (done >= most) {
			ret = OUTBOX_TURN;
			break;
		}
		message.msg_iovlen = gather(outbox, most - done, iov, &asked);
		/* The kernel takes a little less time for the simpler call. */
		if (message.msg_iovlen == 1)
			sent = send(fd, iov[0].iov_base, asked, MSG_NOSIGNAL | MSG_DONTWAIT);
		else
			sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0) {
			ret = errno == EAGAIN || errno == ENOBUFS ? OUTBOX_BLOCKED : OUTBOX_BROKEN;
			break;
		}
		advance(outbox, (size_t)sent);
		done += (size_t)sent;
		if ((size_t)sent < asked) {
			ret = OUTBOX_BLOCKED;
			break;
		}
	}
	compact(outbox);
	*ret_sent += done;
	return ret;
}

void outbox_close(struct outbox *outbox)
{
	for (size_t i = outbox->refs_sent; i < outbox->refs_count; i++)
		value_unref(outbox->refs[i].value);
	wire_buf_close(&outbox->bytes);
	mem_free(outbox->refs);
	*outbox = (struct outbox){ 0 };
}

static void outbox_free(struct outbox *outbox)
{
	outbox_close(outbox);
	mem_free(outbox);
}

void outbox_pool_init(struct outbox_pool *pool)
{
	list_init(&pool->spare);
}

void outbox_pool_close(struct outbox_pool *pool)
{
	struct list_node *node;

	while ((node = list_pop_front(&pool->spare)))
		outbox_free(container_of(node, struct outbox, node));
}

struct outbox *outbox_take(struct outbox_pool *pool)
{
	struct list_node *node = list_pop_front(&pool->spare);
	struct outbox *outbox;

	if (node)
		return container_of(node, struct outbox, node);
	outbox = mem_zalloc(sizeof(*outbox));
	if (!outbox)
		return NULL;
	wire_buf_init(&outbox->bytes, OUTPUT_COPIED_MAX);
	return outbox;
}

void outbox_give(struct outbox_pool *pool, struct outbox *outbox)
{
	if (!outbox)
		return;
	for (size_t i = outbox->refs_sent; i < outbox->refs_count; i++)
		value_unref(outbox->refs[i].value);
	outbox->refs_count = outbox->refs_sent = 0;
	outbox->refs_bytes = outbox->ref_bytes_sent = outbox->bytes_sent = 0;
	wire_buf_rewind(&outbox->bytes, 0);
	if (pool->spare.count >= OUTBOX_SPARE_MAX || outbox->bytes.cap > OUTBOX_SPARE_BYTES) {
		outbox_free(outbox);
		return;
	}
	list_push_front(&pool->spare, &outbox->node);
}
