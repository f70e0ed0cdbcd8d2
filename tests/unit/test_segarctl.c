/* segarctl as a script sees it: what it prints, and how it ends. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/wait.h>

#include "client/segar.h"
#include "peer.h"
#include "proto/method.h"

/* A daemon that has a row for key 1, none for key 2, an error for key 3, and 1 to 3 bytes that are
 * no text for keys 4 to 6. */
static void put_result_of(struct peer_conn *conn, char key)
{
	struct result result = { .state = RESULT_STALE,
				 .reason = RESULT_REASON_REFRESHING,
				 .source = RESULT_SOURCE_STORE,
				 .has_value = true,
				 .has_version = true,
				 .version = 9,
				 .age_ms = 5,
				 .stale_ms = 3 };
	const char *value = key >= '4' ? "\xff\x00\xfe" : "a \"b\"\n\x1b[1m\xc3\xa9\xc2\x9b";

	if (key == '2') {
		result_put(&conn->out, &(struct result){ .state = RESULT_ABSENT,
							 .source = RESULT_SOURCE_ORIGIN,
							 .ttl_ms = 7 });
		return;
	}
	result.value_len = key >= '4' ? (uint32_t)(key - '3') : 14;
	result_put(&conn->out, &result);
	wire_buf_raw(&conn->out, value, result.value_len);
}

static void answer_get(struct peer_conn *conn, char key)
{
	if (key == '3') {
		rpc_put_error(&conn->out, conn->message.id, STATUS_OVERLOADED, 20, "full", 4);
		return;
	}
	rpc_put_response(&conn->out, conn->message.id);
	put_result_of(conn, key);
}

static void answer_mget(struct peer_conn *conn)
{
	struct wire_span key;
	struct reader r;
	uint32_t count;

	reader_init(&r, conn->message.params.data, conn->message.params.len);
	assert(reader_array(&r, &count));
	rpc_put_response(&conn->out, conn->message.id);
	wire_buf_array(&conn->out, count);
	while (count-- > 0) {
		assert(reader_text(&r, &key));
		if (key.data[key.len - 1] == '3')
			result_put_error(&conn->out, STATUS_TIMEOUT, -1, "late", 4);
		else
			put_result_of(conn, key.data[key.len - 1]);
	}
}

/* [{name: "p", parts: [1, [2, 3]], none: {}, nil: nil, bytes: b"\xff"}, 1.5, true, false, {one:
 * [1]}] */
static void answer_keyspaces(struct peer_conn *conn)
{
	static const char result[] =
		"\x95\x85\xa4name\xa1p\xa5parts\x92\x01\x92\x02\x03\xa4none\x80"
		"\xa3nil\xc0\xa5"
		"bytes\xc4\x01\xff\xcb\x3f\xf8\0\0\0\0\0\0\xc3\xc2\x81\xa3one\x91\x01";

	rpc_put_response(&conn->out, conn->message.id);
	wire_buf_raw(&conn->out, result, sizeof(result) - 1);
}

/* The params of the last request, for tests that look at what was sent. */
static char last_params[200];
static size_t last_len;

static void serve(struct peer_conn *conn)
{
	while (peer_take(conn)) {
		const struct rpc_message *m = &conn->message;
		const int method = method_from_name(m->method.data, m->method.len);
		struct wire_span key = { "", 0 };
		struct reader r;

		last_len =
			m->params.len < sizeof(last_params) ? m->params.len : sizeof(last_params);
		memcpy(last_params, m->params.data, last_len);
		reader_init(&r, m->params.data, m->params.len);
		if (method == METHOD_GET) {
			assert(reader_text(&r, &key));
			answer_get(conn, key.data[key.len - 1]);
		} else if (method == METHOD_MGET) {
			answer_mget(conn);
		} else if (method == METHOD_KEYSPACES) {
			answer_keyspaces(conn);
		} else if (method == METHOD_REFRESH || method == METHOD_INVALIDATE) {
			rpc_put_response(&conn->out, m->id);
			wire_buf_map(&conn->out, method == METHOD_REFRESH);
			if (method == METHOD_REFRESH) {
				wire_buf_str(&conn->out, "built");
				wire_buf_bool(&conn->out, true);
			}
		} else if (method == METHOD_PING) {
			rpc_put_response(&conn->out, m->id);
			wire_buf_str(&conn->out, "pong");
		} else {
			rpc_put_error(&conn->out, m->id, STATUS_DENIED, -1, "no", 2);
		}
		peer_send(conn);
	}
}

enum { OUTPUT_MAX = 16 * 1024 };

/* Runs segarctl with those arguments, as a shell reads them; its exit code, and both of its
 * outputs. */
static int run(const char *socket, const char *arguments, char ret_output[OUTPUT_MAX])
{
	char command[1000];
	size_t len;
	FILE *pipe;
	int status;

	snprintf(command, sizeof(command), "SEGAR_SOCKET=%s %s %s 2>&1", socket, getenv("SEGARCTL"),
		 arguments);
	pipe = popen(command, "r");
	cr_assert_not_null(pipe);
	len = fread(ret_output, 1, OUTPUT_MAX - 1, pipe);
	ret_output[len] = '\0';
	status = pclose(pipe);
	cr_assert(WIFEXITED(status), "%s", arguments);
	return WEXITSTATUS(status);
}

#define RESULT_1                                                                                   \
	"{\"state\": \"stale\", \"value\": \"a \\\"b\\\"\\n\\u001b[1m\xc3\xa9\\u009b\", "          \
	"\"encoding\": \"utf-8\", \"version\": 9, \"age_ms\": 5, \"ttl_ms\": 0, "                  \
	"\"stale_ms\": 3, \"reason\": \"refreshing\", \"source\": \"store\"}\n"
#define RESULT_2                                                                                   \
	"{\"state\": \"absent\", \"value\": null, \"encoding\": null, \"version\": null, "         \
	"\"age_ms\": 0, \"ttl_ms\": 7, \"stale_ms\": 0, \"reason\": null, "                        \
	"\"source\": \"origin\"}\n"
#define RESULT_IN_BASE64(value)                                                                    \
	"{\"state\": \"stale\", \"value\": \"" value "\", \"encoding\": \"base64\", "              \
	"\"version\": 9, \"age_ms\": 5, \"ttl_ms\": 0, \"stale_ms\": 3, "                          \
	"\"reason\": \"refreshing\", \"source\": \"store\"}\n"
#define TEXT_1                                                                                     \
	"state    stale (refreshing)\nsource   store\nversion  9\nage      5 ms\n"                 \
	"stale    for 3 ms\nvalue    a \"b\"\n\\x1b[1m\xc3\xa9\\xc2\\x9b\n"
#define TEXT_2 "state    absent\nsource   origin\nage      0 ms\nfresh    for 7 ms\n"

static const struct {
	const char *arguments;
	int code;
	const char *output;
} runs[] = {
	{ "ping", 0, "pong\n" },
	{ "--json ping", 0, "\"pong\"\n" },
	{ "get ks:1", 0, TEXT_1 },
	{ "get ks 1", 0, TEXT_1 },
	{ "--json get ks:1", 0, RESULT_1 },
	{ "get ks:1 --json", 0, RESULT_1 },
	{ "get -r ks:1", 0, "a \"b\"\n\x1b[1m\xc3\xa9\xc2\x9b" },
	{ "get ks:2", 4, TEXT_2 },
	{ "get -j ks:2", 4, RESULT_2 },
	{ "get -r ks:2", 4, "" },
	{ "get ks:3", 1, "segarctl: overloaded: full retry_after_ms=20\n" },
	{ "get -j ks:3", 1,
	  "{\"error\": {\"code\": \"overloaded\", \"text\": \"full retry_after_ms=20\", "
	  "\"retry_after_ms\": 20}}\n" },
	{ "get -j ks:4", 0, RESULT_IN_BASE64("/w==") },
	{ "get -j ks:5", 0, RESULT_IN_BASE64("/wA=") },
	{ "get -j ks:6", 0, RESULT_IN_BASE64("/wD+") },
	{ "mget ks:1 ks:2", 4, "key      ks:1\n" TEXT_1 "\nkey      ks:2\n" TEXT_2 },
	{ "mget -j ks:1 ks:1", 0, RESULT_1 RESULT_1 },
	{ "mget -j ks:2 ks:3 ks:1", 1,
	  RESULT_2 "{\"error\": {\"code\": \"timeout\", \"text\": \"late\"}}\n" RESULT_1 },
	{ "mget ks:3", 1, "key      ks:3\nerror    timeout: late\n" },
	{ "refresh ks:1", 0, "built: true\n" },
	{ "refresh -j ks:1", 0, "{\"built\": true}\n" },
	{ "invalidate ks:1", 0, "" },
	{ "invalidate -j ks:1", 0, "{}\n" },
	{ "keyspaces", 0,
	  "- name: p\n  parts:\n    - 1\n    - - 2\n      - 3\n  none: (none)\n  nil: -\n"
	  "  bytes: (1 bytes)\n- 1.5\n- true\n- false\n- one:\n    - 1\n" },
	{ "keyspaces -j", 0,
	  "[{\"name\": \"p\", \"parts\": [1, [2, 3]], \"none\": {}, \"nil\": null, "
	  "\"bytes\": {\"base64\": \"/w==\"}}, 1.5, true, false, {\"one\": [1]}]\n" },
	{ "stats", 1, "segarctl: denied: no\n" },
	{ "", 2, "segarctl: a command is missing\nsegarctl --help tells more\n" },
	{ "foo", 2, "segarctl: there is no command foo\nsegarctl --help tells more\n" },
	{ "get", 2,
	  "segarctl: usage: segarctl get KEY | KEYSPACE ARG...\nsegarctl --help tells more\n" },
	{ "ping now", 2, "segarctl: usage: segarctl ping\nsegarctl --help tells more\n" },
	{ "get --hard ks:1", 2,
	  "segarctl: get has no option --hard\nsegarctl --help tells more\n" },
	{ "get -n 5 ks:1", 2,
	  "segarctl: -c, -d, -n and -t are for bench\nsegarctl --help tells more\n" },
	{ "bench -n 5 -t 5 ks:1", 2,
	  "segarctl: bench ends after -n requests or -t seconds, not both\n"
	  "segarctl --help tells more\n" },
	{ "get --wait-ms 300001 ks:1", 2,
	  "segarctl: --wait-ms must be a number from 0 to 300000, not 300001\n"
	  "segarctl --help tells more\n" },
	{ "get --wait-ms 1s ks:1", 2,
	  "segarctl: --wait-ms must be a number from 0 to 300000, not 1s\n"
	  "segarctl --help tells more\n" },
	{ "estimate --rate 1500/s --build 400ms", 0,
	  "1,500 requests a second for 1 key, builds of 400 ms, 1 host of 1 process\n"
	  "builds at once when what they build is lost\n"
	  "  without protection                         600\n"
	  "  single-flight in each process                1\n"
	  "  segar                                        1\n" },
	{ "estimate --rate 30000/m --build 0.3s --processes 15 --pool 40", 0,
	  "500 requests a second for 1 key, builds of 300 ms, 1 host of 15 processes\n"
	  "builds at once when what they build is lost\n"
	  "  without protection                         150  over the pool of 40, 10 in each "
	  "process\n"
	  "  single-flight in each process               15  within the pool of 40\n"
	  "  segar                                        1  within the pool of 40\n" },
	{ "estimate --rate 50000/s --build 800ms -j", 0,
	  "{\"rate_per_s\": 50000, \"build_ms\": 800, \"keys\": 1, \"hosts\": 1, "
	  "\"processes\": 1, \"at_once\": {\"unprotected\": 40000, \"in_each_process\": 40000, "
	  "\"single_flight\": 1, \"segar\": 1}}\n" },
	{ "estimate --rate 50000/s --build 50ms --keys 200000 --fresh 300s --budget 200/s", 0,
	  "50,000 requests a second for 200,000 keys, builds of 50 ms, 1 host of 1 process\n"
	  "builds at once when what they build is lost\n"
	  "  without protection                       2,500\n"
	  "  single-flight in each process            2,500\n"
	  "  segar                                    2,500\n"
	  "keys that were built together and are all asked for expire\n"
	  "  without jitter                         200,000  at once\n"
	  "  with jitter                              3,333  a second, for 60 s; in the worst one "
	  "about 3,499\n"
	  "  in the long run                            667  a second, 33.3 builds at once\n"
	  "segar begins at most 180 builds a second\n"
	  "  in the long run                too few: not all of these keys can be kept fresh\n"
	  "  all keys are built anew in     1,111 s; nobody waits if stale is 1,051 s, and it is "
	  "0 ms\n" },
	{ "estimate --rate 50000/s --build 60s --keys 2000000 --fresh 10m", 0,
	  "50,000 requests a second for 2,000,000 keys, builds of 60 s, 1 host of 1 process\n"
	  "builds at once when what they build is lost\n"
	  "  without protection                   3,000,000\n"
	  "  single-flight in each process        2,000,000\n"
	  "  segar                                2,000,000\n"
	  "keys that were built together and are all asked for expire\n"
	  "  without jitter                       2,000,000  at once\n"
	  "  with jitter                             16,667  a second, for 120 s; in the worst one "
	  "about 17,066\n"
	  "  in the long run                          3,333  a second, 200,000 builds at once\n" },
	{ "estimate --rate 5/s", 2,
	  "segarctl: estimate needs --rate and --build, or a keyspace to watch\n" },
	{ "estimate --rate 5 --build 1s", 2,
	  "segarctl: --rate must be a rate such as 1500/s or 90/m, not 5\n"
	  "segarctl --help tells more\n" },
	{ "estimate --build -1s", 2,
	  "segarctl: --build must be a duration such as 400ms, 30s or 10m, not -1s\n"
	  "segarctl --help tells more\n" },
	{ "estimate --jitter 101%", 2,
	  "segarctl: --jitter must be a percentage from 0% to 100%, not 101%\n"
	  "segarctl --help tells more\n" },
	{ "estimate --keys 0", 2,
	  "segarctl: --keys must be a whole number from 1 on, not 0\nsegarctl --help tells "
	  "more\n" },
	{ "estimate --watch 1s --rate 1/s --build 1s", 2,
	  "segarctl: --watch is for a keyspace: estimate KEYSPACE\n" },
	{ "estimate --watch 2h ks", 2,
	  "segarctl: --watch must be a duration from 1ms to 1h, not 2h\nsegarctl --help tells "
	  "more\n" },
	{ "get --rate 1/s ks:1", 2,
	  "segarctl: --rate, --build and what goes with them are for estimate\n"
	  "segarctl --help tells more\n" },
	{ "--version", 0, "segarctl " SEGAR_VERSION "\n" },
};

Test(segarctl, says_what_the_daemon_said_and_ends_accordingly)
{
	char output[OUTPUT_MAX];
	struct peer peer;

	peer_start(&peer, serve);
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		const int code = run(peer.path, runs[i].arguments, output);

		cr_assert_str_eq(output, runs[i].output, "%s:\n%s", runs[i].arguments, output);
		cr_assert_eq(code, runs[i].code, "%s", runs[i].arguments);
	}
	peer_stop(&peer);
}

/* What a command line makes of the params. */
static const struct {
	const char *arguments;
	const char *params;
	size_t len;
} sent[] = {
	{ "get --wait-ms=0 --min-version -3 ks:1", "\xa4ks:1\x82\xa7wait_ms\x00\xabmin_version\xfd",
	  28 },
	{ "get --wait-m 5 --max-stale 6 ks:1", "\xa4ks:1\x82\xa7wait_ms\x05\xacmax_stale_ms\x06",
	  29 },
	{ "refresh --if-older-ms 9 ks:1", "\xa4ks:1\x81\xabif_older_ms\x09", 19 },
	{ "invalidate --hard ks:1", "\xa4ks:1\x81\xa4hard\xc3", 12 },
	{ "get ks 'a:b' 100% 1", "\xb1ks:a%3Ab:100%25:1\x80", 19 },
};

Test(segarctl, asks_for_what_the_command_line_says)
{
	char output[OUTPUT_MAX];
	struct peer peer;

	peer_start(&peer, serve);
	for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++) {
		cr_assert_eq(run(peer.path, sent[i].arguments, output), 0, "%s", output);
		cr_assert_eq(last_len, sent[i].len, "%s: %zu", sent[i].arguments, last_len);
		cr_assert_arr_eq(last_params, sent[i].params, last_len);
	}
	peer_stop(&peer);
}

Test(segarctl, without_a_daemon_it_ends_with_3)
{
	char output[OUTPUT_MAX], expected[200];
	struct peer peer;

	peer_init(&peer, serve);
	snprintf(expected, sizeof(expected),
		 "segarctl: disconnected: cannot connect to %s: No such file or directory\n",
		 peer.path);
	cr_assert_eq(run(peer.path, "get ks:1", output), 3);
	cr_assert_str_eq(output, expected);
	cr_assert_eq(run(peer.path, "bench ks:1", output), 3);
	cr_assert_str_eq(output, expected);
	peer_stop(&peer);
}

Test(segarctl, help_tells_of_every_command_and_option)
{
	char output[OUTPUT_MAX], word[64];

	cr_assert_eq(run("/nowhere", "--help", output), 0);
	for (int i = 0; i < METHOD_COUNT; i++) {
		snprintf(word, sizeof(word), "\n  %s", method_name((enum method)i));
		for (char *c = word; *c; c++)
			*c = *c == '_' ? ' ' : *c;
		cr_assert_not_null(strstr(output, word), "%s", word);
	}
	for (size_t i = 0; i < options_count; i++) {
		snprintf(word, sizeof(word), "--%s", options_all[i].name);
		for (char *c = word; *c; c++)
			*c = *c == '_' ? '-' : *c;
		cr_assert_not_null(strstr(output, word), "%s", word);
	}
}

Test(segarctl, bench_asks_as_often_as_it_is_told)
{
	char output[OUTPUT_MAX];
	struct peer peer;

	peer_start(&peer, serve);
	/* The peer serves one connection after the other, so that one is all there can be. */
	cr_assert_eq(run(peer.path, "bench -c 1 -d 10 -n 1000 -j ks:1", output), 0, "%s", output);
	cr_assert_not_null(strstr(output, "\"replies\": 1000,"), "%s", output);
	cr_assert_not_null(strstr(output, "\"errors\": 0, \"one_value\": true,"), "%s", output);
	cr_assert_not_null(strstr(output, "\"fresh\": 0, \"stale\": 1000,"), "%s", output);
	cr_assert_eq(run(peer.path, "bench -c 1 -n 10 ks:2", output), 0);
	cr_assert_not_null(strstr(output, "states    absent 10, all of one value\n"), "%s", output);
	cr_assert_eq(run(peer.path, "bench -c 1 -n 10 ks:3", output), 1);
	cr_assert_not_null(strstr(output, "errors    overloaded 10\n"), "%s", output);
	peer_stop(&peer);
}
