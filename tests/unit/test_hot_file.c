#include "ops/hot_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

static char folder[64], path[128];
static struct hot_file file;

static void open_folder(void)
{
	snprintf(folder, sizeof(folder), "/tmp/segar-hot-XXXXXX");
	cr_assert(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/hot", folder);
	file = (struct hot_file){ 0 };
}

static void close_folder(void)
{
	hot_file_close(&file);
	unlink(path);
	cr_assert_eq(rmdir(folder), 0, "nothing is left beside it");
}

TestSuite(hot_file, .init = open_folder, .fini = close_folder);

static void make(const char *const *keys, uint32_t count)
{
	hot_file_close(&file);
	cr_assert(hot_file_begin(&file, count));
	for (uint32_t i = 0; i < count; i++)
		hot_file_add(&file, keys[i], strlen(keys[i]));
	hot_file_seal(&file);
}

static const char *const KEYS[] = { "item:1", "k", "text:a\nb", "item:" };
enum { COUNT = 4 };

static unsigned char *copy_of(const struct hot_file *from)
{
	unsigned char *bytes = mem_alloc(from->len + 1);
	cr_assert_not_null(bytes);
	memcpy(bytes, from->bytes, from->len);
	return bytes;
}

static void check_keys(const struct hot_file *read)
{
	size_t at = 0, len;
	cr_assert_eq(read->count, COUNT);
	for (int i = 0; i < COUNT; i++) {
		const char *key = hot_file_next(read, &at, &len);
		cr_assert_not_null(key);
		cr_assert_eq(len, strlen(KEYS[i]));
		cr_assert_eq(memcmp(key, KEYS[i], len), 0);
	}
	cr_assert_null(hot_file_next(read, &at, &len));
}

Test(hot_file, what_is_written_is_read_by_its_owner_alone)
{
	struct hot_file read;
	struct stat info;
	umask(0);
	make(KEYS, COUNT);
	check_keys(&file);
	cr_assert_eq(hot_file_write(&file, path, ".new"), 0);
	cr_assert_eq(stat(path, &info), 0);
	cr_assert_eq(info.st_mode & 07777, 0600);
	cr_assert_null(hot_file_read(path, &read));
	check_keys(&read);
	hot_file_close(&read);
	make(KEYS, 1);
	cr_assert_eq(hot_file_write(&file, path, ".end"), 0, "in place of the one there");
	cr_assert_null(hot_file_read(path, &read));
	cr_assert_eq(read.count, 1);
	hot_file_close(&read);
}

Test(hot_file, no_keys_and_no_file_are_no_fault)
{
	struct hot_file read;
	size_t at = 0, len;
	cr_assert_null(hot_file_read(path, &read));
	cr_assert_eq(read.count, 0);
	cr_assert_null(hot_file_next(&read, &at, &len));
	make(KEYS, 0);
	cr_assert_eq(hot_file_write(&file, path, ".new"), 0);
	cr_assert_null(hot_file_read(path, &read));
	cr_assert_eq(read.count, 0);
	cr_assert_null(hot_file_next(&read, &at, &len));
	hot_file_close(&read);
}

Test(hot_file, each_bit_that_is_wrong_is_seen)
{
	struct hot_file read;
	make(KEYS, COUNT);
	for (size_t bit = 0; bit < 8 * file.len; bit++) {
		unsigned char *bytes = copy_of(&file);
		bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		cr_assert_not_null(hot_file_take(&read, bytes, file.len), "bit %zu", bit);
		cr_assert_null(read.bytes);
	}
	for (size_t len = 0; len < file.len; len++)
		cr_assert_not_null(hot_file_take(&read, copy_of(&file), len), "%zu bytes", len);
	unsigned char *longer = copy_of(&file);
	longer[file.len] = 0;
	cr_assert_not_null(hot_file_take(&read, longer, file.len + 1));
}

/* With a good checksum, of a writer that lies. */
static const char *take_lie(size_t at, unsigned char byte)
{
	struct hot_file read, lie = { .bytes = copy_of(&file),
				      .len = file.len - HOT_FILE_SUM,
				      .count = file.bytes[15] };
	lie.bytes[at] = byte;
	if (at == 15)
		lie.count = byte;
	uint32_t format = lie.bytes[11];
	hot_file_seal(&lie);
	if (format != 1)
		return "seal writes its own format";
	const char *why = hot_file_take(&read, lie.bytes, lie.len);
	hot_file_close(&read);
	return why;
}

Test(hot_file, a_list_that_is_not_what_it_says_is_not_taken)
{
	make(KEYS, COUNT);
	cr_assert_null(take_lie(15, COUNT), "the truth is");
	cr_assert_str_eq(take_lie(15, COUNT - 1), "it has other keys than it says");
	cr_assert_str_eq(take_lie(15, COUNT + 1), "it has other keys than it says");
	cr_assert_str_eq(take_lie(HOT_FILE_HEAD, 0xff), "it has other keys than it says");
	cr_assert_str_eq(take_lie(HOT_FILE_HEAD + 1, 0xff), "it has other keys than it says");
	cr_assert_str_eq(take_lie(HOT_FILE_HEAD + 1, 3), "it has other keys than it says");
}

Test(hot_file, keys_that_are_too_long_are_left_out)
{
	char longest[HOT_KEY_BYTES + 1];
	size_t at = 0, len;
	memset(longest, 'x', sizeof(longest));
	cr_assert(hot_file_begin(&file, 2));
	hot_file_add(&file, longest, HOT_KEY_BYTES + 1);
	hot_file_add(&file, longest, HOT_KEY_BYTES);
	hot_file_seal(&file);
	cr_assert_eq(file.count, 1);
	cr_assert_not_null(hot_file_next(&file, &at, &len));
	cr_assert_eq(len, HOT_KEY_BYTES);
}

Test(hot_file, what_cannot_be_read_or_written_says_why)
{
	struct hot_file read;
	char inside[160];
	make(KEYS, COUNT);
	snprintf(inside, sizeof(inside), "%s/no/hot", folder);
	cr_assert_eq(hot_file_write(&file, inside, ".new"), -ENOENT);
	cr_assert_str_eq(hot_file_read(folder, &read), "it is no regular file, or too long");
	FILE *big = fopen(path, "w");
	cr_assert(big && ftruncate(fileno(big), HOT_FILE_MAX + 1) == 0 && fclose(big) == 0);
	cr_assert_str_eq(hot_file_read(path, &read), "it is no regular file, or too long");
	cr_assert_eq(hot_file_write(&file, path, ".new"), 0);
	mem_fail_at(1);
	cr_assert_str_eq(hot_file_read(path, &read), "there is too little memory");
	mem_fail_at(0);
	mem_fail_at(1);
	cr_assert_not(hot_file_begin(&read, COUNT));
	mem_fail_at(0);
	snprintf(inside, sizeof(inside), "%s.new", path);
	cr_assert_eq(symlink("/dev/null", inside), 0);
	cr_assert_eq(hot_file_write(&file, path, ".new"), -ELOOP, "no link is followed");
	unlink(inside);
}
