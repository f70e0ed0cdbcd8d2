/* Holds the simulated store to the real one: random sequences of acts on both, compared.
 *
 *   twins                        30 seeds of 500 acts each
 *   twins --seeds 500 --from 1   seeds 1 to 500
 *   twins --seed 7 --acts 300    one seed, shorter
 *   twins --seed 7 --only 3,17   of its acts only these; with --trace, all that happens
 *
 * A seed that differs is shrunk to the fewest acts that do (not with --plain), and how to play
 * these again is printed. Each play is a process of its own, so that a failed check is a difference
 * too. Redis is a throw-away one, whose clock stands where it is put. Exit code 0 only if all
 * agree.
 */
#include <getopt.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "store/server.h"
#include "twins.h"
#include "wire.h"

enum {
	SEEDS_DEFAULT = 30,
	ACTS_DEFAULT = 500,
	ACTS_MAX = 100000,
	AGREE_EVERY = 50, /* acts */
	PLAY_SECONDS_MAX = 120,
	SKIPPED = 77, /* as meson has it */
};

struct settings {
	uint64_t from, seeds;
	unsigned acts;
	bool traced;
	bool plain;       /* a difference is told, and not shrunk */
	const char *only; /* numbers with commas; NULL: all */
};

/* Which of a seed's acts are played. */
struct choice {
	uint64_t seed;
	unsigned count;
	bool chosen[ACTS_MAX];
};

/* ---- one play ---------------------------------------------------------------------------- */

static bool play(const struct choice *choice, struct server *server, bool traced)
{
	static struct twins twins;
	struct rng rng;
	unsigned done = 0;
	alarm(PLAY_SECONDS_MAX);
	twins_open(&twins, choice->seed, server->socket, server->stands_at_us, traced);
	rng_seed(&rng, choice->seed);
	for (unsigned i = 0; i < choice->count && !twins.differs; i++) {
		struct act act = act_draw(&rng, twins.daemons_count, TWINS_KEYS);
		if (!choice->chosen[i])
			continue;
		twins_note(&twins, "act %u", i);
		if (twins_do(&twins, &act) && ++done % AGREE_EVERY == 0)
			twins_agree(&twins);
	}
	if (!twins.differs)
		twins_agree(&twins);
	if (twins.differs)
		printf("%s\n", twins.difference);
	if (!twins.differs)
		twins_close(&twins);
	return !twins.differs;
}

/* In a process of its own; what it prints is shown or not. */
static bool try(const struct choice *choice, struct server *server, bool shown, bool traced)
{
	int status;
	fflush(NULL);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		if (!shown)
			CHECK(freopen("/dev/null", "w", stdout) &&
			      freopen("/dev/null", "w", stderr));
		server->context = NULL;
		exit(play(choice, server, traced) ? 0 : 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- a difference ------------------------------------------------------------------------ */

/* Leaves acts out, in ever smaller pieces (Zeller, "Simplifying and isolating failure-inducing
   input", TSE 2002). */
static void shrink(struct choice *choice, struct server *server)
{
	static struct choice fewer;
	bool shrunk = true;
	for (unsigned size = choice->count / 2; size > 0;
	     size = shrunk && size == 1 ? 1 : size / 2) {
		shrunk = false;
		for (unsigned at = 0; at < choice->count; at += size) {
			bool any = false;
			fewer = *choice;
			for (unsigned i = at; i < at + size && i < fewer.count; i++) {
				any |= fewer.chosen[i];
				fewer.chosen[i] = false;
			}
			if (!any || try(&fewer, server, false, false))
				continue;
			*choice = fewer;
			shrunk = true;
		}
	}
}

static void show(struct choice *choice, struct server *server)
{
	const char *comma = "";
	shrink(choice, server);
	try(choice, server, true, true);
	printf("replay: twins --seed %" PRIu64 " --trace --only ", choice->seed);
	for (unsigned i = 0; i < choice->count; i++) {
		if (!choice->chosen[i])
			continue;
		printf("%s%u", comma, i);
		comma = ",";
	}
	printf("%s\n", *comma ? "" : "none");
}

/* ---- options ----------------------------------------------------------------------------- */

static _Noreturn void usage(void)
{
	fputs("usage: twins [--seeds N] [--from N] [--seed N] [--acts N] [--only N,…|none] "
	      "[--trace] [--plain]\n",
	      stderr);
	exit(2);
}

static void read_options(struct settings *settings, int argc, char **argv)
{
	static const struct option options[] = {
		{ "seeds", required_argument, NULL, 'n' }, { "from", required_argument, NULL, 'f' },
		{ "seed", required_argument, NULL, 's' },  { "acts", required_argument, NULL, 'a' },
		{ "only", required_argument, NULL, 'o' },  { "trace", no_argument, NULL, 't' },
		{ "plain", no_argument, NULL, 'p' },       { 0 },
	};
	int option;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'n') {
			settings->seeds = strtoull(optarg, NULL, 10);
		} else if (option == 'f') {
			settings->from = strtoull(optarg, NULL, 10);
		} else if (option == 's') {
			settings->from = strtoull(optarg, NULL, 10);
			settings->seeds = 1;
		} else if (option == 'a') {
			settings->acts = (unsigned)strtoul(optarg, NULL, 10);
		} else if (option == 'o') {
			settings->only = optarg;
		} else if (option == 'p') {
			settings->plain = true;
		} else if (option == 't') {
			settings->traced = true;
		} else {
			usage();
		}
	}
	if (optind < argc || settings->acts < 1 || settings->acts > ACTS_MAX || settings->seeds < 1)
		usage();
}

static void choose(struct choice *choice, const struct settings *settings, uint64_t seed)
{
	char copy[4096];
	*choice = (struct choice){ .seed = seed, .count = settings->acts };
	for (unsigned i = 0; i < choice->count; i++)
		choice->chosen[i] = settings->only == NULL;
	if (!settings->only)
		return;
	snprintf(copy, sizeof(copy), "%s", settings->only);
	for (char *word = strtok(copy, ","); word; word = strtok(NULL, ",")) {
		unsigned long number = strtoul(word, NULL, 10);
		if (strcmp(word, "none") == 0)
			continue;
		if (number >= ACTS_MAX)
			usage();
		choice->chosen[number] = true;
		if (choice->count <= number)
			choice->count = (unsigned)number + 1;
	}
}

int main(int argc, char **argv)
{
	static struct choice choice;
	struct settings settings = { .from = 1, .seeds = SEEDS_DEFAULT, .acts = ACTS_DEFAULT };
	struct server server;
	uint64_t seed = 0, differ = 0;
	read_options(&settings, argc, argv);
	if (!server_is_possible()) {
		puts("redis-server is not installed");
		return SKIPPED;
	}
	server_create(&server);
	if (!server_can_skew(&server)) {
		puts("SEGAR_SKEW_LIBRARY is not set");
		server_remove(&server);
		return SKIPPED;
	}
	*server.stands_at_us = FLEET_EPOCH_US;
	server_start(&server, "--enable-debug-command", "local", NULL);
	for (; seed < settings.seeds && differ == 0; seed++) {
		choose(&choice, &settings, settings.from + seed);
		if (try(&choice, &server, settings.traced, settings.traced))
			continue;
		printf("seed %" PRIu64 " differs:\n", choice.seed);
		differ++;
		if (settings.plain)
			try(&choice, &server, true, false);
		else if (!settings.only)
			show(&choice, &server);
	}
	server_remove(&server);
	printf("%" PRIu64 " seeds, %" PRIu64 " differ\n", seed, differ);
	return differ > 0;
}
