/* Gives a fuzzer every file of its corpus, in builds without libFuzzer. usage: replay_NAME CORPUS
 *
 * One TAP line a file, so that a crash names its input.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 1 << 20 };

static int is_input(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* False if the file cannot be read. */
static int replay(const char *folder, const char *name)
{
	char path[4096];
	uint8_t *all = malloc(INPUT_MAX), *exact;
	size_t len;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "rb");
	if (!file || !all)
		return 0;
	len = fread(all, 1, INPUT_MAX, file);
	fclose(file);
	/* In a block of just its size, for the sanitizer. */
	exact = realloc(all, len ? len : 1);
	LLVMFuzzerTestOneInput(exact, len);
	free(exact);
	return 1;
}

int main(int argc, char **argv)
{
	struct dirent **entries;
	int count, bad = 0;

	if (argc != 2)
		return 2;
	count = scandir(argv[1], &entries, is_input, alphasort);
	if (count <= 0) {
		fprintf(stderr, "no corpus in %s\n", argv[1]);
		return 1;
	}
	printf("1..%d\n", count);
	for (int i = 0; i < count; i++) {
		const int ok = replay(argv[1], entries[i]->d_name);

		printf("%sok %d - %s\n", ok ? "" : "not ", i + 1, entries[i]->d_name);
		fflush(stdout);
		bad += !ok;
		free(entries[i]);
	}
	free(entries);
	return bad > 0;
}
