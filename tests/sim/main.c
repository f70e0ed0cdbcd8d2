/* The simulator's program: plays scenes, and says how to play a broken one again.
 *
 *   sim                        60 seeds
 *   sim --seeds 500 --from 1   seeds 1 to 500
 *   sim --list seeds.txt       the seeds of a file, the regressions
 *   sim --seed 42 --trace      one seed, with all that happens in it
 *   sim --seeds 40 --compare   equal hits counted and run one by one: the same comes of it (hot.h)
 *   sim --seed 42 --shrink     which kinds of trouble, how many daemons and seconds it takes
 *
 * Each seed is played in a process of its own, so that a failed check of the core is one broken
 * seed. Exit code 0 only if no promise was broken.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "fleet.h"

enum {
	SEEDS_DEFAULT = 60,
	JOBS_MAX = 64,
	CPU_SECONDS_MAX = 600, /* a world that goes round in a circle is broken too */
	TAIL_LINES = 60,
	BROKEN_LINES = 5,
	WORDS_MAX = 32,
	LINE_MAX_BYTES = 1024,
};

struct settings {
	struct scene_options options;
	uint64_t from, seeds;
	const char *list;
	bool traced, shrinks, compares;
	int jobs;
};

/* ---- one seed ----------------------------------------------------------------------------- */

/* In a process of its own: what an allocation costs depends on those before. */
static struct outcome play_apart(uint64_t seed, const struct scene_options *options)
{
	struct outcome outcome;
	int ends[2], status;
	CHECK(pipe(ends) == 0);
	fflush(NULL);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		outcome = fleet_play(seed, options, TRACE_SUM);
		_Exit(write(ends[1], &outcome, sizeof(outcome)) != sizeof(outcome));
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status != 0)
		exit(EXIT_FAILURE);
	CHECK(read(ends[0], &outcome, sizeof(outcome)) == sizeof(outcome));
	close(ends[0]);
	close(ends[1]);
	return outcome;
}

/* Equal hits counted and run: the same must come of it. */
static void compare(uint64_t seed, const struct scene_options *options)
{
	struct scene_options other = *options;
	other.one_by_one = !options->one_by_one;
	struct outcome counted = play_apart(seed, options), run = play_apart(seed, &other);
	bool same = counted.digest == run.digest && counted.trace == run.trace &&
		    counted.hits == run.hits;
	printf("%s digest=%016" PRIx64 ",%016" PRIx64 " trace=%016" PRIx64 ",%016" PRIx64
	       " hits=%" PRIu64 ",%" PRIu64 " steps=%" PRIu64 ",%" PRIu64 "\n",
	       same ? "same" : "broken=\"counting equals running\"", counted.digest, run.digest,
	       counted.trace, run.trace, counted.hits, run.hits, counted.steps, run.steps);
	if (!same)
		exit(EXIT_FAILURE);
}

static void play(uint64_t seed, const struct scene_options *options, enum tracing tracing)
{
	if (tracing == TRACE_SUM) {
		compare(seed, options);
		return;
	}
	struct outcome outcome = fleet_play(seed, options, tracing);
	printf("seed=%" PRIu64 " digest=%016" PRIx64 " builds=%" PRIu64 " batches=%" PRIu64
	       " replies=%" PRIu64 " errors=%" PRIu64 " hits=%" PRIu64 " steps=%" PRIu64 "\n",
	       seed, outcome.digest, outcome.builds, outcome.batches, outcome.replies,
	       outcome.errors, outcome.hits, outcome.steps);
	fflush(stdout);
}

struct job {
	pid_t pid; /* 0: free */
	uint64_t seed;
	struct scene_options options;
	FILE *output; /* owned */
};

static void job_start(struct job *job, uint64_t seed, const struct scene_options *options,
		      enum tracing tracing)
{
	job->seed = seed;
	job->options = *options;
	job->output = tmpfile();
	CHECK(job->output);
	fflush(NULL);
	job->pid = fork();
	CHECK(job->pid >= 0);
	if (job->pid > 0)
		return;
	setrlimit(RLIMIT_CPU, &(struct rlimit){ CPU_SECONDS_MAX, CPU_SECONDS_MAX });
	dup2(fileno(job->output), STDOUT_FILENO);
	dup2(fileno(job->output), STDERR_FILENO);
	play(seed, options, tracing);
	exit(EXIT_SUCCESS);
}

/* The last lines of what the job has written. */
static void job_show(struct job *job, int lines)
{
	char line[1024];
	long starts[TAIL_LINES] = { 0 };
	int count = 0;
	rewind(job->output);
	for (long at = 0; fgets(line, sizeof(line), job->output); at = ftell(job->output))
		starts[count++ % lines] = at;
	fseek(job->output, count > lines ? starts[count % lines] : 0, SEEK_SET);
	while (fgets(line, sizeof(line), job->output))
		printf("  %s", line);
}

/* Waits until one of the jobs is over, and takes it out. */
static struct job jobs_wait(struct job *jobs, bool *ret_well)
{
	int status, i = 0;
	pid_t pid = waitpid(-1, &status, 0);
	CHECK(pid > 0);
	while (jobs[i].pid != pid)
		i++;
	struct job job = jobs[i];
	jobs[i].pid = 0;
	*ret_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	return job;
}

static bool play_quietly(uint64_t seed, const struct scene_options *options)
{
	struct job job = { 0 };
	bool well;
	job_start(&job, seed, options, TRACE_NOT);
	fclose(jobs_wait(&job, &well).output);
	return well;
}

/* ---- a broken seed ------------------------------------------------------------------------ */

static void print_kinds(uint32_t kinds)
{
	const char *comma = "";
	for (int i = 0; i < TROUBLE_COUNT; i++) {
		if (!(kinds & (1u << i)))
			continue;
		printf("%s%s", comma, trouble_name((enum trouble_kind)i));
		comma = ",";
	}
	if (!kinds)
		printf("none");
}

static void print_replay(uint64_t seed, const struct scene_options *options)
{
	printf("replay: sim --seed %" PRIu64, seed);
	if (options->nodes)
		printf(" --nodes %d", options->nodes);
	if (options->seconds)
		printf(" --seconds %d", options->seconds);
	if (options->hot_per_s > 0)
		printf(" --hot %.0f", options->hot_per_s);
	if (options->only_set) {
		printf(" --only ");
		print_kinds(options->only);
	}
	if (options->without) {
		printf(" --without ");
		print_kinds(options->without);
	}
	if (options->one_by_one)
		printf(" --one-by-one");
	if (options->changes)
		printf(" --changes");
	printf(" --trace\n");
}

static void show_broken(uint64_t seed, const struct scene_options *options)
{
	struct job job = { 0 }, done;
	bool well;
	job_start(&job, seed, options, TRACE_PRINT);
	done = jobs_wait(&job, &well);
	job_show(&done, TAIL_LINES);
	fclose(done.output);
	print_replay(seed, options);
}

/* Leaves out what the seed breaks without. */
static void shrink(uint64_t seed, const struct scene_options *options)
{
	struct scene scene;
	scene_draw(&scene, seed, options);
	struct scene_options least = *options;
	least.only_set = true;
	least.only = scene.troubles;
	scene_close(&scene);
	for (int i = 0; i < TROUBLE_COUNT; i++) {
		struct scene_options fewer = least;
		fewer.only &= ~(1u << i);
		if (fewer.only != least.only && !play_quietly(seed, &fewer))
			least = fewer;
	}
	static const int nodes[] = { 5, 3, 2, 1 };
	for (size_t i = 0; i < sizeof(nodes) / sizeof(*nodes); i++) {
		struct scene_options fewer = least;
		fewer.nodes = nodes[i];
		if (!play_quietly(seed, &fewer))
			least = fewer;
	}
	static const int seconds[] = { 30, 10, 5 };
	for (size_t i = 0; i < sizeof(seconds) / sizeof(*seconds); i++) {
		struct scene_options fewer = least;
		fewer.seconds = seconds[i];
		if (!play_quietly(seed, &fewer))
			least = fewer;
	}
	show_broken(seed, &least);
}

/* ---- options ------------------------------------------------------------------------------- */

static uint32_t parse_kinds(const char *text)
{
	uint32_t kinds = 0;
	char copy[512];
	snprintf(copy, sizeof(copy), "%s", text);
	for (char *word = strtok(copy, ","); word; word = strtok(NULL, ",")) {
		int kind = 0;
		while (kind < TROUBLE_COUNT &&
		       strcmp(word, trouble_name((enum trouble_kind)kind)) != 0)
			kind++;
		if (kind < TROUBLE_COUNT) {
			kinds |= 1u << kind;
		} else if (strcmp(word, "none") != 0) {
			fprintf(stderr, "no trouble is called %s\n", word);
			exit(2);
		}
	}
	return kinds;
}

static void usage(void)
{
	puts("usage: sim [--seeds N] [--from N] [--list FILE] [--jobs N] [--compare]\n"
	     "       sim --seed N [--trace | --shrink]\n"
	     "  --nodes N  --seconds N  --hot N (reads of one key a second, at each daemon)\n"
	     "  --only KINDS  --without KINDS  --one-by-one\n"
	     "  --changes (the origin's log of changes is followed)\n"
	     "kinds of trouble, separated by commas, or none:");
	for (int i = 0; i < TROUBLE_COUNT; i++)
		printf("  %-9s %s\n", trouble_name((enum trouble_kind)i),
		       trouble_text((enum trouble_kind)i));
}

enum {
	OPTION_SEEDS,
	OPTION_FROM,
	OPTION_SEED,
	OPTION_LIST,
	OPTION_JOBS,
	OPTION_TRACE,
	OPTION_SHRINK,
	OPTION_NODES,
	OPTION_SECONDS,
	OPTION_HOT,
	OPTION_ONLY,
	OPTION_WITHOUT,
	OPTION_ONE_BY_ONE,
	OPTION_COMPARE,
	OPTION_CHANGES,
	OPTION_HELP,
};

static const struct option long_options[] = {
	{ "seeds", required_argument, NULL, OPTION_SEEDS },
	{ "from", required_argument, NULL, OPTION_FROM },
	{ "seed", required_argument, NULL, OPTION_SEED },
	{ "list", required_argument, NULL, OPTION_LIST },
	{ "jobs", required_argument, NULL, OPTION_JOBS },
	{ "trace", no_argument, NULL, OPTION_TRACE },
	{ "shrink", no_argument, NULL, OPTION_SHRINK },
	{ "nodes", required_argument, NULL, OPTION_NODES },
	{ "seconds", required_argument, NULL, OPTION_SECONDS },
	{ "hot", required_argument, NULL, OPTION_HOT },
	{ "only", required_argument, NULL, OPTION_ONLY },
	{ "without", required_argument, NULL, OPTION_WITHOUT },
	{ "one-by-one", no_argument, NULL, OPTION_ONE_BY_ONE },
	{ "compare", no_argument, NULL, OPTION_COMPARE },
	{ "changes", no_argument, NULL, OPTION_CHANGES },
	{ "help", no_argument, NULL, OPTION_HELP },
	{ 0 },
};

static void set(struct settings *settings, int option, const char *text)
{
	struct scene_options *options = &settings->options;
	switch (option) {
	case OPTION_SEEDS:
		settings->seeds = strtoull(text, NULL, 10);
		return;
	case OPTION_FROM:
		settings->from = strtoull(text, NULL, 10);
		return;
	case OPTION_SEED:
		settings->from = strtoull(text, NULL, 10);
		settings->seeds = 1;
		return;
	case OPTION_LIST:
		settings->list = text;
		return;
	case OPTION_JOBS:
		settings->jobs = atoi(text);
		return;
	case OPTION_TRACE:
		settings->traced = true;
		return;
	case OPTION_SHRINK:
		settings->shrinks = true;
		return;
	case OPTION_NODES:
		options->nodes = atoi(text);
		return;
	case OPTION_SECONDS:
		options->seconds = atoi(text);
		return;
	case OPTION_HOT:
		options->hot_per_s = atof(text);
		return;
	case OPTION_ONLY:
		options->only_set = true;
		options->only = parse_kinds(text);
		return;
	case OPTION_WITHOUT:
		options->without = parse_kinds(text);
		return;
	case OPTION_ONE_BY_ONE:
		options->one_by_one = true;
		return;
	case OPTION_CHANGES:
		options->changes = true;
		return;
	case OPTION_COMPARE:
		settings->compares = true;
		return;
	case OPTION_HELP:
		usage();
		exit(0);
	default:
		usage();
		exit(2);
	}
}

static void read_options(struct settings *settings, int argc, char **argv)
{
	int option;
	optind = 0; /* from the start, also the second time */
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		set(settings, option, optarg);
	if (optind < argc) {
		usage();
		exit(2);
	}
}

/* ---- many seeds --------------------------------------------------------------------------- */

struct play {
	uint64_t seed;
	struct scene_options options;
};

/* All that is to be played. */
struct plays {
	struct play *at; /* owned */
	size_t count;
};

static void plays_add(struct plays *plays, uint64_t seed, const struct scene_options *options)
{
	plays->at = realloc(plays->at, (plays->count + 1) * sizeof(*plays->at));
	CHECK(plays->at);
	plays->at[plays->count++] = (struct play){ seed, *options };
}

/* A line of the list is a seed with its options, and after # what it has shown. */
static void plays_add_line(struct plays *plays, const struct settings *defaults, char *line)
{
	struct settings settings = *defaults;
	char *words[WORDS_MAX + 1];
	int count = 0;
	line[strcspn(line, "#\n")] = '\0';
	for (char *word = strtok(line, " "); word && count < WORDS_MAX; word = strtok(NULL, " "))
		words[count++] = word;
	words[count] = NULL;
	if (count == 0)
		return;
	read_options(&settings, count, words);
	plays_add(plays, strtoull(words[0], NULL, 10), &settings.options);
}

/* 0, or -1 where the list cannot be read. */
static int plays_init(struct plays *plays, const struct settings *settings)
{
	char line[LINE_MAX_BYTES];
	*plays = (struct plays){ 0 };
	for (uint64_t i = 0; i < settings->seeds && !settings->list; i++)
		plays_add(plays, settings->from + i, &settings->options);
	if (!settings->list)
		return 0;
	FILE *list = fopen(settings->list, "re");
	if (!list)
		return -1;
	while (fgets(line, sizeof(line), list))
		plays_add_line(plays, settings, line);
	fclose(list);
	return 0;
}

static void show_broken_job(struct job *job)
{
	printf("seed %" PRIu64 " is broken:\n", job->seed);
	job_show(job, BROKEN_LINES);
	print_replay(job->seed, &job->options);
}

static int play_all(const struct settings *settings)
{
	struct plays plays;
	struct job jobs[JOBS_MAX] = { 0 };
	size_t begun = 0, over = 0, broken = 0;
	if (plays_init(&plays, settings) != 0) {
		perror(settings->list);
		return 2;
	}
	while (over < plays.count) {
		if (begun < plays.count && begun - over < (size_t)settings->jobs) {
			const struct play *play = &plays.at[begun++];
			struct job *job = jobs;
			while (job->pid != 0)
				job++;
			job_start(job, play->seed, &play->options,
				  settings->compares ? TRACE_SUM : TRACE_NOT);
			continue;
		}
		bool well;
		struct job done = jobs_wait(jobs, &well);
		over++;
		broken += !well;
		if (!well)
			show_broken_job(&done);
		fclose(done.output);
	}
	free(plays.at);
	printf("%zu seeds, %zu broken\n", over, broken);
	return broken > 0 || over == 0;
}

int main(int argc, char **argv)
{
	log_open(STDERR_FILENO, LOG_LEVEL_ERROR, LOG_FORMAT_TEXT); /* the trace says it */
	struct settings settings = { .from = 1, .seeds = SEEDS_DEFAULT, .jobs = 2 };
	read_options(&settings, argc, argv);
	if (settings.jobs < 1 || settings.jobs > JOBS_MAX || settings.seeds < 1) {
		usage();
		return 2;
	}
	if (settings.traced)
		play(settings.from, &settings.options, TRACE_PRINT);
	else if (settings.shrinks)
		shrink(settings.from, &settings.options);
	else
		return play_all(&settings);
	return 0;
}
