#include "base/suggest.h"

#include <ctype.h>
#include <string.h>

enum { NAME_MAX_LEN = 40 };

static int min_of(int a, int b)
{
	return a < b ? a : b;
}

/* The optimal string alignment distance, letters' case and - for _ not counted. */
static int edits(const char *a, const char *b)
{
	int rows[3][NAME_MAX_LEN + 1];
	int *before = rows[0], *above = rows[1], *row = rows[2];
	int b_len = (int)strlen(b);
	for (int j = 0; j <= b_len; j++)
		above[j] = j;
	for (int i = 1; a[i - 1]; i++) {
		row[0] = i;
		for (int j = 1; j <= b_len; j++) {
			char x = a[i - 1] == '-' ? '_' : (char)tolower((unsigned char)a[i - 1]);
			int cost = x != b[j - 1];
			row[j] = min_of(above[j - 1] + cost, 1 + min_of(above[j], row[j - 1]));
			if (i > 1 && j > 1 && x == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = min_of(row[j], before[j - 2] + 1);
		}
		int *free_row = before;
		before = above;
		above = row;
		row = free_row;
	}
	return above[b_len];
}

const char *suggest_nearest(const char *typed, const char *const names[], size_t names_count)
{
	const char *nearest = NULL;
	int fewest = 0;
	if (strlen(typed) > NAME_MAX_LEN)
		return NULL;
	for (size_t i = 0; i < names_count; i++) {
		size_t len = strlen(names[i]);
		if (len > NAME_MAX_LEN)
			continue;
		int allowed = len <= 3 ? 1 : len <= 6 ? 2 : 3;
		int needed = edits(typed, names[i]);
		if (needed <= allowed && (!nearest || needed < fewest)) {
			nearest = names[i];
			fewest = needed;
		}
	}
	return nearest;
}
