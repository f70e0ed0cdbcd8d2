#include "store/epoch_book.h"

#include <string.h>

#include "proto/key.h"
#include "store/record.h"

static struct epoch_page *find_page(struct epoch_book *book, const char *keyspace, size_t len)
{
	for (uint32_t i = 0; i < book->count; i++) {
		struct epoch_page *page = &book->pages[i];
		if (strlen(page->keyspace) == len && memcmp(page->keyspace, keyspace, len) == 0)
			return page;
	}
	if (book->count == KEYSPACES_MAX || len > KEYSPACE_NAME_MAX ||
	    !key_is_keyspace_name(keyspace, len))
		return NULL;
	struct epoch_page *page = &book->pages[book->count++];
	*page = (struct epoch_page){ .count = 0 };
	memcpy(page->keyspace, keyspace, len);
	return page;
}

const struct epoch_line *epoch_book_enter(struct epoch_book *book, const char *keyspace, size_t len,
					  int64_t store_us, int64_t moment_us, int64_t spread_us,
					  bool *ret_is_new)
{
	struct epoch_page *page = find_page(book, keyspace, len);
	if (!page)
		return NULL;
	uint32_t at = page->count;
	while (at > 0 && page->lines[at - 1].store_us > store_us)
		at--;
	*ret_is_new = at == 0 || page->lines[at - 1].store_us != store_us;
	if (!*ret_is_new)
		return &page->lines[at - 1];
	if (page->count == EPOCHS_MAX && at == 0)
		return NULL;
	if (page->count == EPOCHS_MAX) {
		page->count--;
		at--;
		memmove(&page->lines[0], &page->lines[1], page->count * sizeof(page->lines[0]));
		page->lines[0].spread_us = 0;
	}
	memmove(&page->lines[at + 1], &page->lines[at],
		(page->count - at) * sizeof(page->lines[0]));
	page->count++;
	page->lines[at] = (struct epoch_line){ store_us, moment_us, spread_us };
	return &page->lines[at];
}

static void put_real(char *at, int64_t number)
{
	double real = (double)number;
	uint64_t bits;
	memcpy(&bits, &real, sizeof(bits));
	record_put_u64((unsigned char *)at, bits);
}

/* False where it is no time that can be. */
static bool get_real(const char *at, int64_t *ret_number)
{
	double real;
	uint64_t bits = record_get_u64((const unsigned char *)at);
	memcpy(&real, &bits, sizeof(real));
	if (!(real >= 0 && real < 0x1p53))
		return false;
	*ret_number = (int64_t)real;
	return true;
}

size_t epoch_book_write(const struct epoch_book *book, char ret_bytes[EPOCH_BOOK_BYTES])
{
	char *at = ret_bytes;
	for (uint32_t i = 0; i < book->count; i++) {
		const struct epoch_page *page = &book->pages[i];
		size_t len = strlen(page->keyspace);
		for (uint32_t j = 0; j < page->count; j++) {
			put_real(at, page->lines[j].store_us);
			put_real(at + 8, page->lines[j].spread_us);
			at[16] = (char)len;
			memcpy(at + EPOCH_FORM_LEN, page->keyspace, len);
			at += EPOCH_FORM_LEN + len;
		}
	}
	return (size_t)(at - ret_bytes);
}

size_t epoch_form_read(const char *bytes, size_t len, int64_t *ret_store_us, int64_t *ret_spread_us,
		       const char **ret_keyspace, size_t *ret_keyspace_len)
{
	if (len < EPOCH_FORM_LEN)
		return 0;
	size_t name_len = (unsigned char)bytes[16];
	if (name_len == 0 || name_len > len - EPOCH_FORM_LEN || !get_real(bytes, ret_store_us) ||
	    !get_real(bytes + 8, ret_spread_us))
		return 0;
	*ret_keyspace = bytes + EPOCH_FORM_LEN;
	*ret_keyspace_len = name_len;
	return EPOCH_FORM_LEN + name_len;
}
