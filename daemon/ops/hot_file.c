#include "ops/hot_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "core/keyspace.h"

enum { FORMAT = 1 };
static const char MAGIC[] = "segarhot";

static void put_number(unsigned char *at, uint64_t number, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		at[i] = (unsigned char)(number >> (8 * (bytes - 1 - i)));
}

static uint64_t number_at(const unsigned char *at, unsigned bytes)
{
	uint64_t number = 0;
	for (unsigned i = 0; i < bytes; i++)
		number = number << 8 | at[i];
	return number;
}

static uint64_t sum_of(const unsigned char *bytes, size_t len)
{
	return key_public_hash((const char *)bytes, len);
}

void hot_file_close(struct hot_file *file)
{
	mem_free(file->bytes);
	*file = (struct hot_file){ 0 };
}

/* ---- writing ------------------------------------------------------------------------------- */

bool hot_file_begin(struct hot_file *file, uint32_t keys)
{
	CHECK(keys <= HOT_KEYS_MAX);
	*file = (struct hot_file){ .len = HOT_FILE_HEAD };
	file->bytes = mem_alloc(HOT_FILE_HEAD + (size_t)keys * (2 + HOT_KEY_BYTES) + HOT_FILE_SUM);
	return file->bytes != NULL;
}

void hot_file_add(struct hot_file *file, const char *key, size_t len)
{
	if (len > HOT_KEY_BYTES || file->count == HOT_KEYS_MAX)
		return;
	put_number(file->bytes + file->len, len, 2);
	memcpy(file->bytes + file->len + 2, key, len);
	file->len += 2 + len;
	file->count++;
}

void hot_file_seal(struct hot_file *file)
{
	memcpy(file->bytes, MAGIC, 8);
	put_number(file->bytes + 8, FORMAT, 4);
	put_number(file->bytes + 12, file->count, 4);
	put_number(file->bytes + file->len, sum_of(file->bytes, file->len), HOT_FILE_SUM);
	file->len += HOT_FILE_SUM;
}

static int write_all(int fd, const unsigned char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t written = write(fd, bytes, len);
		if (written < 0 && errno != EINTR)
			return -errno;
		if (written > 0) {
			bytes += written;
			len -= (size_t)written;
		}
	}
	return fsync(fd) == 0 ? 0 : -errno;
}

int hot_file_write(const struct hot_file *file, const char *path, const char *suffix)
{
	char beside[PATH_MAX];
	if (snprintf(beside, sizeof(beside), "%s%s", path, suffix) >= (int)sizeof(beside))
		return -ENAMETOOLONG;
	int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int error = fchmod(fd, 0600) == 0 ? write_all(fd, file->bytes, file->len) : -errno;
	if (close(fd) != 0 && error == 0)
		error = -errno;
	if (error == 0 && rename(beside, path) != 0)
		error = -errno;
	if (error != 0)
		unlink(beside);
	return error;
}

/* ---- reading ------------------------------------------------------------------------------- */

const char *hot_file_next(const struct hot_file *file, size_t *at, size_t *ret_len)
{
	if (!file->bytes)
		return NULL;
	if (*at == 0)
		*at = HOT_FILE_HEAD;
	if (*at + HOT_FILE_SUM >= file->len)
		return NULL;
	const unsigned char *key = file->bytes + *at;
	*ret_len = number_at(key, 2);
	*at += 2 + *ret_len;
	return (const char *)key + 2;
}

static const char *what_is_wrong(const unsigned char *bytes, size_t len)
{
	if (len < HOT_FILE_HEAD + HOT_FILE_SUM || memcmp(bytes, MAGIC, 8) != 0)
		return "it is no list of hot keys";
	if (number_at(bytes + 8, 4) != FORMAT)
		return "it is of another version of segard";
	size_t end = len - HOT_FILE_SUM;
	if (number_at(bytes + end, HOT_FILE_SUM) != sum_of(bytes, end))
		return "its checksum is wrong";
	uint64_t count = number_at(bytes + 12, 4);
	size_t at = HOT_FILE_HEAD;
	for (uint64_t i = 0; i < count; i++) {
		if (count > HOT_KEYS_MAX || end - at < 2 ||
		    number_at(bytes + at, 2) > HOT_KEY_BYTES ||
		    number_at(bytes + at, 2) > end - at - 2)
			return "it has other keys than it says";
		at += 2 + number_at(bytes + at, 2);
	}
	return at == end ? NULL : "it has other keys than it says";
}

const char *hot_file_take(struct hot_file *file, unsigned char *bytes, size_t len)
{
	const char *why = what_is_wrong(bytes, len);
	*file = (struct hot_file){ 0 };
	if (why) {
		mem_free(bytes);
		return why;
	}
	*file = (struct hot_file){ .bytes = bytes,
				   .len = len,
				   .count = (uint32_t)number_at(bytes + 12, 4) };
	return NULL;
}

/* As many bytes as there are, up to `size`; or a negative errno. */
static ssize_t read_all(int fd, unsigned char *bytes, size_t size)
{
	size_t len = 0;
	while (len < size) {
		ssize_t got = read(fd, bytes + len, size - len);
		if (got < 0 && errno != EINTR)
			return -errno;
		if (got == 0)
			break;
		if (got > 0)
			len += (size_t)got;
	}
	return (ssize_t)len;
}

const char *hot_file_read(const char *path, struct hot_file *ret_file)
{
	struct stat info;
	*ret_file = (struct hot_file){ 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? NULL : strerror(errno);
	const char *why = "it is no regular file, or too long";
	unsigned char *bytes = NULL;
	if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size <= HOT_FILE_MAX) {
		why = "there is too little memory";
		bytes = mem_alloc((size_t)info.st_size + 1);
	}
	if (bytes) {
		ssize_t len = read_all(fd, bytes, (size_t)info.st_size);
		if (len >= 0) {
			why = hot_file_take(ret_file, bytes, (size_t)len);
		} else {
			why = strerror((int)-len);
			mem_free(bytes);
		}
	}
	close(fd);
	return why;
}
