#include "store/definition_book.h"

#include <string.h>

#include "base/check.h"
#include "store/record.h"

enum { FLAG_INSISTS = 1, FLAG_SUPERSEDED = 2 };

static struct definition_page *find_page(struct definition_book *book, const char *keyspace,
					 size_t len)
{
	for (uint32_t i = 0; i < book->count; i++) {
		struct definition_page *page = &book->pages[i];
		if (strlen(page->keyspace) == len && memcmp(page->keyspace, keyspace, len) == 0)
			return page;
	}
	return NULL;
}

void definition_book_begin(struct definition_book *book)
{
	for (uint32_t i = 0; i < book->count; i++)
		book->pages[i].kept = false;
}

/* A page that is not kept may be in the way of a new one. */
static struct definition_page *new_page(struct definition_book *book, const char *keyspace)
{
	uint32_t at = book->count;
	if (at == KEYSPACES_MAX)
		for (at = 0; at < KEYSPACES_MAX && book->pages[at].kept;)
			at++;
	else
		book->count++;
	CHECK(at < KEYSPACES_MAX && strlen(keyspace) <= KEYSPACE_NAME_MAX);
	struct definition_page *page = &book->pages[at];
	*page = (struct definition_page){ .own = 0 };
	memcpy(page->keyspace, keyspace, strlen(keyspace));
	return page;
}

void definition_book_enter(struct definition_book *book, const char *keyspace, uint64_t own,
			   int64_t spread_us, bool insists)
{
	struct definition_page *page = find_page(book, keyspace, strlen(keyspace));
	bool is_new = !page;
	if (is_new)
		page = new_page(book, keyspace);
	page->kept = true;
	page->spread_us = spread_us;
	if (page->own == own)
		return;
	/* One that comes anew is as after a restart. */
	page->insists = insists && !is_new;
	page->own = own;
	page->ruling = 0;
	book->edition++;
}

void definition_book_end(struct definition_book *book)
{
	for (uint32_t i = 0; i < book->count;)
		if (book->pages[i].kept)
			i++;
		else
			book->pages[i] = book->pages[--book->count];
}

static char *put_real(char *at, int64_t number)
{
	double real = (double)number;
	uint64_t bits;
	memcpy(&bits, &real, sizeof(bits));
	record_put_u64((unsigned char *)at, bits);
	return at + sizeof(bits);
}

size_t definition_book_write(const struct definition_book *book,
			     char ret_bytes[DEFINITION_BOOK_BYTES])
{
	char *at = ret_bytes;
	for (uint32_t i = 0; i < book->count; i++) {
		const struct definition_page *page = &book->pages[i];
		bool superseded = page->ruling != 0 && page->ruling != page->own;
		size_t len = strlen(page->keyspace);
		record_put_u64((unsigned char *)at, page->own);
		at = put_real(at + 8, page->spread_us);
		*at++ = (char)((page->insists ? FLAG_INSISTS : 0) |
			       (superseded ? FLAG_SUPERSEDED : 0));
		*at++ = (char)len;
		memcpy(at, page->keyspace, len);
		at += len;
	}
	return (size_t)(at - ret_bytes);
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

size_t definition_book_read(struct definition_book *book, const char *bytes, size_t len,
			    struct definition_told *ret_told, bool *ret_is_news)
{
	struct definition_told told;
	if (len < DEFINITION_TOLD_LEN)
		return 0;
	size_t name_len = (unsigned char)bytes[DEFINITION_TOLD_LEN - 1];
	if (name_len > len - DEFINITION_TOLD_LEN || !get_real(bytes + 8, &told.since_us) ||
	    !get_real(bytes + 16, &told.spread_us))
		return 0;
	struct definition_page *page = find_page(book, bytes + DEFINITION_TOLD_LEN, name_len);
	told.ruling = record_get_u64((const unsigned char *)bytes);
	if (!page || told.ruling == 0)
		return 0;
	told.keyspace = page->keyspace;
	told.is_own = told.ruling == page->own;
	*ret_is_news = page->ruling != told.ruling || page->since_us != told.since_us;
	page->ruling = told.ruling;
	page->since_us = told.since_us;
	page->insists &= !told.is_own;
	*ret_told = told;
	return DEFINITION_TOLD_LEN + name_len;
}
