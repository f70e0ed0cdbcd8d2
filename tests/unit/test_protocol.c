/* Replays PROTOCOL.md: its bytes mean what it says beside them, its tables are those of the code.
 */
#include <criterion/criterion.h>
#include <ctype.h>
#include <msgpack.h>
#include <stdio.h>

#include "proto/frame.h"
#include "proto/key.h"
#include "proto/method.h"
#include "proto/result.h"
#include "proto/rpc.h"
#include "wire_help.h"

enum { LINES_MAX = 1000, LINE_MAX_LEN = 2000, CELLS_MAX = 5 };

/* The document, cut into lines. */
static char *lines[LINES_MAX];
static size_t lines_count;

static void load(void)
{
	char path[4096], line[LINE_MAX_LEN];
	FILE *file;

	snprintf(path, sizeof(path), "%s/proto/PROTOCOL.md", getenv("SEGAR_ROOT"));
	file = fopen(path, "r");
	cr_assert_not_null(file, "%s", path);
	while (fgets(line, sizeof(line), file)) {
		cr_assert_lt(lines_count, LINES_MAX);
		line[strcspn(line, "\n")] = '\0';
		lines[lines_count++] = strdup(line);
	}
	fclose(file);
}

static void unload(void)
{
	while (lines_count > 0)
		free(lines[--lines_count]);
}

/* One line of bytes in a fence, and what is written behind them. */
struct example {
	char direction; /* '>' or '<'; 0 in fences that have none */
	struct bytes bytes;
	const char *meaning; /* borrows the line */
};
typedef void (*example_cb)(const struct example *example);

static bool starts_with(const char *line, const char *prefix)
{
	return strncmp(line, prefix, strlen(prefix)) == 0;
}

/* The example that begins at line *at: its bytes may go over several lines, up to the " = " or a
 * line with "= ". Moves *at to its last line. */
static struct example take_example(size_t *at)
{
	struct example example = { .bytes = bytes_from_hex("", NULL) };
	const char *line = lines[*at], *rest;

	if (*line == '>' || *line == '<')
		example.direction = *line++;
	for (;;) {
		struct bytes more = bytes_from_hex(line, &rest);

		example.bytes.data = realloc(example.bytes.data, example.bytes.len + more.len + 1);
		memcpy(example.bytes.data + example.bytes.len, more.data, more.len);
		example.bytes.len += more.len;
		free(more.data);
		if (starts_with(rest, "= "))
			break;
		cr_assert_str_empty(rest, "line %zu: neither hex nor a meaning: %s", *at + 1, rest);
		line = lines[++*at];
	}
	example.meaning = rest + 2;
	return example;
}

/* Calls back for every example in the fences of that name; there must be some. */
static void for_examples(const char *fence, example_cb on_example)
{
	char opening[32];
	size_t count = 0;

	snprintf(opening, sizeof(opening), "```%s", fence);
	for (size_t at = 0; at < lines_count; at++) {
		if (strcmp(lines[at], opening) != 0)
			continue;
		for (at++; strcmp(lines[at], "```") != 0; at++) {
			struct example example;

			if (!*lines[at])
				continue;
			example = take_example(&at);
			on_example(&example);
			free(example.bytes.data);
			count++;
		}
	}
	cr_assert_gt(count, 0, "no example in any fence %s", fence);
}

static void render_bytes(FILE *out, const char *bytes, uint32_t len, bool binary)
{
	fputs(binary ? "b\"" : "\"", out);
	for (uint32_t i = 0; i < len; i++) {
		const unsigned char c = (unsigned char)bytes[i];

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < ' ' || (binary && c > '~'))
			fprintf(out, "\\x%02x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

/* The document's way to write a value, of what msgpack-c reads. */
static void render(FILE *out, const msgpack_object *o)
{
	switch (o->type) {
	case MSGPACK_OBJECT_NIL:
		fputs("nil", out);
		break;
	case MSGPACK_OBJECT_BOOLEAN:
		fputs(o->via.boolean ? "true" : "false", out);
		break;
	case MSGPACK_OBJECT_POSITIVE_INTEGER:
		fprintf(out, "%lu", o->via.u64);
		break;
	case MSGPACK_OBJECT_NEGATIVE_INTEGER:
		fprintf(out, "%ld", o->via.i64);
		break;
	case MSGPACK_OBJECT_FLOAT32:
	case MSGPACK_OBJECT_FLOAT64:
		fprintf(out, "%g", o->via.f64);
		break;
	case MSGPACK_OBJECT_STR:
		render_bytes(out, o->via.str.ptr, o->via.str.size, false);
		break;
	case MSGPACK_OBJECT_BIN:
		render_bytes(out, o->via.bin.ptr, o->via.bin.size, true);
		break;
	case MSGPACK_OBJECT_EXT:
		fputs("ext", out);
		break;
	case MSGPACK_OBJECT_ARRAY:
		fputc('[', out);
		for (uint32_t i = 0; i < o->via.array.size; i++) {
			fputs(i > 0 ? ", " : "", out);
			render(out, &o->via.array.ptr[i]);
		}
		fputc(']', out);
		break;
	case MSGPACK_OBJECT_MAP:
		fputc('{', out);
		for (uint32_t i = 0; i < o->via.map.size; i++) {
			fputs(i > 0 ? ", " : "", out);
			render(out, &o->via.map.ptr[i].key);
			fputs(": ", out);
			render(out, &o->via.map.ptr[i].val);
		}
		fputc('}', out);
		break;
	}
}

/* Fails unless the bytes are one value that is written as the `len` characters at `meaning`. */
static void check_meaning(struct bytes bytes, const char *meaning, size_t len)
{
	msgpack_unpacked unpacked;
	size_t end = 0, size;
	char *text;
	FILE *out = open_memstream(&text, &size);

	msgpack_unpacked_init(&unpacked);
	cr_assert_eq(msgpack_unpack_next(&unpacked, (char *)bytes.data, bytes.len, &end),
		     MSGPACK_UNPACK_SUCCESS, "%s", meaning);
	cr_assert_eq(end, bytes.len, "%s", meaning);
	render(out, &unpacked.data);
	fclose(out);
	cr_assert(size == len && memcmp(text, meaning, len) == 0, "the bytes are\n%s\nnot\n%.*s",
		  text, (int)len, meaning);
	msgpack_unpacked_destroy(&unpacked);
	free(text);
}

/* The request that a response answers. */
static struct {
	uint32_t id;
	int method; /* -1: none that we have */
	bool readable;
	struct wire_error error; /* unless readable */
} asked;

/* What the daemon's side makes of a get's params: the key, then the options. */
static void read_get(const struct rpc_message *message)
{
	char *scratch = malloc(KEY_TEXT_MAX);
	struct options options;
	struct wire_key key;
	struct reader r;

	reader_init(&r, message->params.data, message->params.len);
	asked.readable = key_read(&r, scratch, &key, &asked.error) == STATUS_OK &&
			 options_read(&r, METHOD_GET, &options, &asked.error) == STATUS_OK;
	free(scratch);
}

static void check_error(const struct rpc_message *message, struct bytes bytes)
{
	struct wire_span text;
	struct wire_buf again;
	int64_t retry;
	const int status = rpc_read_error(message->error, &text, &retry);

	cr_assert_gt(status, STATUS_OK);
	if (asked.method == METHOD_GET && !asked.readable) {
		cr_assert_eq(status, (int)asked.error.status);
		cr_assert_eq(text.len, strlen(asked.error.text));
		cr_assert_eq(memcmp(text.data, asked.error.text, text.len), 0);
	}
	wire_buf_init(&again, 4096);
	rpc_put_error(&again, message->id, (enum status)status, -1, text.data, text.len);
	cr_assert_eq(again.len, bytes.len);
	cr_assert_arr_eq(again.data, bytes.data, bytes.len);
	wire_buf_close(&again);
}

/* A result of get must be what we would read and write. */
static void check_result(const struct rpc_message *message, struct bytes bytes)
{
	struct result result;
	struct wire_buf again;

	cr_assert(result_read(message->result, &result));
	wire_buf_init(&again, 4096);
	rpc_put_response(&again, message->id);
	result_put(&again, &result);
	if (result.has_value)
		wire_buf_raw(&again, result.value, result.value_len);
	cr_assert_eq(again.len, bytes.len);
	cr_assert_arr_eq(again.data, bytes.data, bytes.len);
	wire_buf_close(&again);
}

static void check_message(const struct example *example)
{
	struct frame_scan scan = { 0 };
	struct rpc_message message;
	const char *why = NULL;
	size_t len = 0;

	check_meaning(example->bytes, example->meaning, strlen(example->meaning));
	for (size_t got = 0; got < example->bytes.len; got++)
		cr_assert_eq(
			frame_scan(&scan, example->bytes.data, got, WIRE_REQUEST_MAX, &len, &why),
			FRAME_MORE);
	cr_assert_eq(frame_scan(&scan, example->bytes.data, example->bytes.len, WIRE_REQUEST_MAX,
				&len, &why),
		     FRAME_COMPLETE);
	cr_assert_eq(len, example->bytes.len);
	cr_assert_eq(rpc_parse(example->bytes.data, len, &message, &why), RPC_PARSED, "%s: %s",
		     example->meaning, why);

	if (example->direction == '>') {
		cr_assert_neq(message.type, RPC_RESPONSE);
		asked.id = message.id;
		asked.method = method_from_name(message.method.data, message.method.len);
		if (asked.method == METHOD_GET)
			read_get(&message);
		return;
	}
	cr_assert_eq(message.type, RPC_RESPONSE);
	cr_assert_eq(message.id, asked.id, "%s", example->meaning);
	if (message.error.len != 1)
		check_error(&message, example->bytes);
	else if (asked.method == METHOD_GET)
		check_result(&message, example->bytes);
}

static void check_refused(const struct example *example)
{
	struct rpc_message message;
	const char *why = NULL;

	cr_assert_eq(rpc_parse(example->bytes.data, example->bytes.len, &message, &why),
		     RPC_REFUSED);
	cr_assert_str_eq(why, example->meaning);
}

static void check_broken(const struct example *example)
{
	struct frame_scan scan = { 0 };
	struct rpc_message message;
	const char *why = NULL;
	size_t len = 0;
	const enum frame_verdict verdict = frame_scan(
		&scan, example->bytes.data, example->bytes.len, WIRE_REQUEST_MAX, &len, &why);

	cr_assert_neq(verdict, FRAME_MORE);
	if (verdict == FRAME_COMPLETE)
		cr_assert_eq(rpc_parse(example->bytes.data, len, &message, &why), RPC_BROKEN);
	cr_assert_str_eq(why, example->meaning);
}

/* "value = canonical", or "value ! why not". */
static void check_key(const struct example *example)
{
	const char *good = strstr(example->meaning, " = "), *bad = strstr(example->meaning, " ! ");
	const char *rest = good ? good : bad;
	char *scratch = malloc(KEY_TEXT_MAX);
	struct wire_error error;
	struct wire_key key;
	struct reader r;

	cr_assert_not_null(rest);
	check_meaning(example->bytes, example->meaning, (size_t)(rest - example->meaning));
	reader_init(&r, example->bytes.data, example->bytes.len);
	if (good) {
		cr_assert_eq(key_read(&r, scratch, &key, &error), STATUS_OK);
		cr_assert_eq(key.len, strlen(rest + 3), "%s", example->meaning);
		cr_assert_eq(memcmp(key.text, rest + 3, key.len), 0, "%s", example->meaning);
	} else {
		cr_assert_eq(key_read(&r, scratch, &key, &error), STATUS_BAD_REQUEST);
		cr_assert_str_eq(error.text, rest + 3, "%s", error.text);
	}
	free(scratch);
}

TestSuite(protocol, .init = load, .fini = unload);

Test(protocol, messages_are_what_is_said_of_them)
{
	for_examples("wire", check_message);
}

Test(protocol, requests_with_a_fault_are_refused_in_those_words)
{
	for_examples("refused", check_refused);
}

Test(protocol, what_breaks_a_connection_does)
{
	for_examples("broken", check_broken);
}

Test(protocol, keys_have_the_canonical_texts_that_it_names)
{
	for_examples("key", check_key);
}

/* The cells of a table's row, blanks and backquotes around them taken off. */
struct row {
	char cells[CELLS_MAX][LINE_MAX_LEN];
};

static char *trim(char *cell)
{
	size_t len = strlen(cell);

	while (len > 0 && (cell[len - 1] == ' ' || cell[len - 1] == '`'))
		cell[--len] = '\0';
	return cell + strspn(cell, " `");
}

/* Cuts a line into `row`. False if it is no row of a table. */
static bool read_row(const char *line, struct row *row)
{
	char copy[LINE_MAX_LEN], *at = copy;

	if (*line != '|')
		return false;
	snprintf(copy, sizeof(copy), "%s", line + 1);
	memset(row, 0, sizeof(*row));
	for (int i = 0; i < CELLS_MAX; i++) {
		char *cell = strsep(&at, "|");

		if (!cell)
			break;
		snprintf(row->cells[i], LINE_MAX_LEN, "%s", trim(cell));
	}
	return true;
}

/* Row `n` of the table whose first line is `header`. False if it has no more. */
static bool table_row(const char *header, size_t n, struct row *row)
{
	for (size_t at = 0; at < lines_count; at++) {
		if (strcmp(lines[at], header) != 0)
			continue;
		for (size_t i = at + 2; i < at + 2 + n; i++)
			if (i >= lines_count || *lines[i] != '|')
				return false;
		return at + 2 + n < lines_count && read_row(lines[at + 2 + n], row);
	}
	cr_assert(false, "there is no table %s", header);
	return false;
}

Test(protocol, its_codes_are_those_of_the_code)
{
	const char *header = "| number | code | meaning |";
	struct row *row = malloc(sizeof(*row));
	char number[12];
	int i = 1;

	for (; table_row(header, (size_t)i - 1, row); i++) {
		cr_assert_lt(i, STATUS_COUNT);
		snprintf(number, sizeof(number), "%d", i);
		cr_assert_str_eq(row->cells[0], number);
		cr_assert_str_eq(row->cells[1], status_name((enum status)i));
		cr_assert_str_eq(row->cells[2], status_text((enum status)i));
	}
	cr_assert_eq(i, STATUS_COUNT);
	free(row);
}

Test(protocol, its_methods_are_those_of_the_code)
{
	struct row *row = malloc(sizeof(*row));
	int i = 0;

	for (; table_row("| method | params | result |", (size_t)i, row); i++) {
		cr_assert_lt(i, METHOD_COUNT);
		cr_assert_str_eq(row->cells[0], method_name((enum method)i));
	}
	cr_assert_eq(i, METHOD_COUNT);
	free(row);
}

/* The methods that a cell names, as bits. */
static unsigned named_methods(char *cell)
{
	unsigned bits = 0;

	for (char *name = strtok(cell, ",` "); name; name = strtok(NULL, ",` ")) {
		const int method = method_from_name(name, strlen(name));

		cr_assert_geq(method, 0, "%s", name);
		bits |= 1u << method;
	}
	return bits;
}

Test(protocol, its_options_are_those_of_the_code)
{
	struct row *row = malloc(sizeof(*row));
	size_t i = 0;

	for (; table_row("| option | methods | value | what it asks for |", i, row); i++) {
		cr_assert_lt(i, options_count);
		cr_assert_str_eq(row->cells[0], options_all[i].name);
		cr_assert_eq(named_methods(row->cells[1]), options_all[i].methods, "%s",
			     row->cells[0]);
	}
	cr_assert_eq(i, options_count);
	free(row);
}

#define X(NAME, name) #name,
static const char *const states[] = { RESULT_STATE_MAP(X) };
static const char *const reasons[] = { RESULT_REASON_MAP(X) };
static const char *const sources[] = { RESULT_SOURCE_MAP(X) };
#undef X

/* A table's first column is these words, all of them, in order. */
static void check_words(const char *header, const char *const *words, size_t count)
{
	struct row *row = malloc(sizeof(*row));
	size_t i = 0;

	for (; table_row(header, i, row); i++) {
		cr_assert_lt(i, count);
		cr_assert_str_eq(row->cells[0], words[i]);
	}
	cr_assert_eq(i, count, "%s", header);
	free(row);
}

Test(protocol, its_words_are_those_of_the_code)
{
	check_words("| `state` |", states, RESULT_STATE_COUNT);
	/* none of them is nil on the wire */
	check_words("| `reason` | |", reasons + 1, RESULT_REASON_COUNT - 1);
	check_words("| `source` |", sources + 1, RESULT_SOURCE_COUNT - 1);
}

Test(protocol, its_limits_are_those_of_the_code)
{
	static const long limits[] = { WIRE_REQUEST_MAX,   WIRE_REPLY_MAX,     WIRE_VALUE_MAX,
				       WIRE_DEPTH_MAX,     WIRE_KEYSPACE_MAX,  WIRE_KEY_ARGS_MAX,
				       WIRE_KEY_BYTES_MAX, WIRE_MGET_KEYS_MAX, WIRE_WAIT_MS_MAX,
				       WIRE_ERROR_TEXT_MAX };
	struct row *row = malloc(sizeof(*row));
	size_t i = 0;

	for (; table_row("| what | at most |", i, row); i++) {
		cr_assert_lt(i, sizeof(limits) / sizeof(limits[0]));
		cr_assert_eq(strtol(row->cells[1], NULL, 10), limits[i], "%s", row->cells[0]);
	}
	cr_assert_eq(i, sizeof(limits) / sizeof(limits[0]));
	free(row);
}
