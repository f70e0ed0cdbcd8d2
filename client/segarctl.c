/* segarctl: segard's methods on the command line. */
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl.h"
#include "client/drill.h"

/* --- options --- */

/* Those of segarctl itself. Those of the methods come from proto/method.h. */
enum { FOR_BENCH = 1, FOR_TOP, FOR_WARM };
static const struct own_option {
	char letter; /* what getopt returns */
	const char *name;
	const char *arg; /* NULL: it takes none */
	const char *text;
	int only; /* FOR_BENCH, FOR_TOP, FOR_WARM, or for all */
} own_options[] = {
	{ 's', "socket", "PATH", "the daemon's socket; or $SEGAR_SOCKET, or /run/segar/segard.sock",
	  0 },
	{ 'j', "json", NULL, "show JSON, one line for each value", 0 },
	{ 'r', "raw", NULL, "of a value, write its bytes and nothing else", 0 },
	{ 'w', "timeout-ms", "N", "how long segarctl waits for the daemon in all", 0 },
	{ 'c', "connections", "N", "connections at once (50; of drill, to each daemon: 8)",
	  FOR_BENCH },
	{ 'd', "depth", "N", "requests in flight on each (1)", FOR_BENCH },
	{ 'n', "requests", "N", "requests in all; without, for some seconds", FOR_BENCH },
	{ 't', "seconds", "N", "for how long (5)", FOR_BENCH },
	{ '1', "once", NULL, "show it once, and plainly", FOR_TOP },
	{ 'W', "wait", NULL, "wait until it has ended, and show how it goes", FOR_WARM },
	{ 'F', "fail-under", "P%", "with --wait: exit with 5 where less of the keys are warm then",
	  FOR_WARM },
	{ 'h', "help", NULL, "show this", 0 },
	{ 'V', "version", NULL, "show segarctl's version", 0 },
};
enum { OWN_OPTIONS = sizeof(own_options) / sizeof(own_options[0]) };

enum {
	OPTIONS_MAX = 48,         /* own, methods', estimate's and drill's */
	METHOD_OPTION = 0x1000,   /* what getopt returns for options_all[0], and so on */
	ESTIMATE_OPTION = 0x2000, /* for estimate_options[0] */
	DRILL_OPTION = 0x3000,    /* and for drill_options[0] */
	CONNECTIONS = 50,         /* of bench, if nothing is said */
	CONNECTIONS_MAX = 10000,  /* likewise */
	DEPTH_MAX = 1024,
	SECONDS_MAX = 86400,
};

/* --- help --- */

/* The name of a method's option on the command line: of wait_ms, wait-ms. */
static const char *option_flag(const struct option_spec *option, char ret_flag[32])
{
	snprintf(ret_flag, 32, "%s", option->name);
	for (char *c = ret_flag; *c; c++)
		if (*c == '_')
			*c = '-';
	return ret_flag;
}

/* What follows the name of a method's option. */
static const char *const option_args[] = {
	[OPTION_NUMBER] = " N", [OPTION_FLAG] = "", [OPTION_TRACE] = " TRACEPARENT"
};

/* The commands that take an option of the methods, as "get, mget". */
static void print_takers(FILE *out, unsigned methods)
{
	const char *comma = "";

	for (int i = 0; i < commands_count; i++) {
		if (!(commands[i].options & methods))
			continue;
		fprintf(out, "%s%s", comma, commands[i].name);
		comma = ", ";
	}
}

static void print_drill_limits(FILE *out)
{
	fprintf(out,
		"\ndrill takes --rate (100/s; at most %d/s, over all daemons), and -s up to %d "
		"times, for\n"
		"the daemons of this host. It kills and pauses nothing. It expires at most %d "
		"keys, one\n"
		"after the other at a tenth of the origin's budget, asks for at most %d keys that "
		"aren't\n"
		"there, and stops by itself after --builds, or where the fleet begins more builds "
		"in a\n"
		"second than half of the budget.\n",
		DRILL_RATE_MAX, CTL_SOCKETS_MAX, DRILL_KEYS_MAX, DRILL_ABSENT_MAX);
}

static void print_help(FILE *out)
{
	char flag[32];

	fputs("usage: segarctl [-s SOCKET] [options] COMMAND\n\ncommands:\n", out);
	for (int i = 0; i < commands_count; i++) {
		fprintf(out, "  %s%s%s\n", commands[i].name, *commands[i].args ? " " : "",
			commands[i].args);
		fprintf(out, "          %s\n", commands[i].text);
	}
	fputs("\noptions:\n", out);
	for (int i = 0; i < OWN_OPTIONS; i++)
		fprintf(out, "  -%c, --%s%s%s\n          %s%s\n", own_options[i].letter,
			own_options[i].name, own_options[i].arg ? " " : "",
			own_options[i].arg ? own_options[i].arg : "",
			own_options[i].only == FOR_BENCH  ? "bench: "
			: own_options[i].only == FOR_TOP  ? "top: "
			: own_options[i].only == FOR_WARM ? "warm: "
							  : "",
			own_options[i].text);
	for (size_t i = 0; i < options_count; i++) {
		fprintf(out, "      --%s%s\n          ", option_flag(&options_all[i], flag),
			option_args[options_all[i].type]);
		print_takers(out, options_all[i].methods);
		fprintf(out, ": %s\n", options_all[i].text);
	}
	for (int i = 0; i < estimate_options_count; i++)
		fprintf(out, "      --%s %s\n          estimate: %s\n", estimate_options[i].name,
			estimate_options[i].arg, estimate_options[i].text);
	for (int i = 0; i < drill_options_count; i++)
		fprintf(out, "      --%s%s%s\n          drill: %s\n", drill_options[i].name,
			drill_options[i].arg ? " " : "",
			drill_options[i].arg ? drill_options[i].arg : "", drill_options[i].text);
	print_drill_limits(out);
	fputs("\nA key is keyspace:argument:..., with : and % inside arguments as %3A and %25; "
	      "given\n"
	      "as KEYSPACE ARG... the arguments may be anything.\n"
	      "\nexit status: 0 a value, 1 an error, 2 wrong usage, 3 no daemon, 4 no such row,\n"
	      "5 fewer keys are warm than --fail-under asks for, or drill saw a promise broken\n",
	      out);
}

__attribute__((format(printf, 1, 2))) static enum ctl_exit refuse(const char *format, ...)
{
	va_list args;

	fputs("segarctl: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs("\nsegarctl --help tells more\n", stderr);
	return CTL_USAGE;
}

/* --- the command line --- */

/* A whole number within its range. */
static bool read_number(const char *text, int64_t least, int64_t most, int64_t *ret_number)
{
	char *end;
	long long number;

	errno = 0;
	number = strtoll(text, &end, 10);
	if (errno || end == text || *end || number < least || number > most)
		return false;
	*ret_number = number;
	return true;
}

static enum ctl_exit take_number(const char *name, const char *text, int64_t least, int64_t most,
				 int64_t *ret_number)
{
	if (read_number(text, least, most, ret_number))
		return CTL_VALUE;
	return refuse("--%s must be a number from %" PRId64 " to %" PRId64 ", not %s", name, least,
		      most, text);
}

static enum ctl_exit take_percent(const char *name, const char *text, double *ret_percent)
{
	char *end;
	const double number = strtod(text, &end);

	if (end == text || (*end && strcmp(end, "%") != 0) || !(number > 0 && number <= 100))
		return refuse("--%s must be a percentage, such as 99%%, not %s", name, text);
	*ret_percent = number;
	return CTL_VALUE;
}

/* What the command line says, before it is known for which command. */
struct line {
	struct options options;
	const char *trace; /* NULL: not said */
	struct estimate_line estimate;
	struct drill_line drill;
	const char *sockets[CTL_SOCKETS_MAX];
	int sockets_count;
	int64_t timeout_ms;
	int64_t connections, requests, seconds, depth;
	bool json, raw, once;
	struct warm_wish warm;
	int words;      /* of the command's name */
	bool for_bench; /* an option of bench's was given */
};

static enum ctl_exit take_method_option(struct line *line, const struct option_spec *option,
					const char *arg)
{
	int64_t *to = option_at(&line->options, option);
	char flag[32];

	if (option->type == OPTION_NUMBER)
		return take_number(option_flag(option, flag), arg, option->least, option->most, to);
	if (option->type == OPTION_TRACE)
		line->trace = arg;
	*to = 1;
	return CTL_VALUE;
}

static enum ctl_exit take_estimate_option(struct line *line, int option, const char *arg)
{
	const char *must_be = estimate_take(&line->estimate, option, arg);

	if (!must_be)
		return CTL_VALUE;
	return refuse("--%s must be %s, not %s", estimate_options[option].name, must_be, arg);
}

static enum ctl_exit take_drill_option(struct line *line, int option, const char *arg)
{
	const char *must_be = drill_take(&line->drill, option, arg);

	if (!must_be)
		return CTL_VALUE;
	return refuse("--%s must be %s, not %s", drill_options[option].name, must_be, arg);
}

static enum ctl_exit take_own_option(struct line *line, int letter, const char *arg)
{
	line->for_bench |= strchr("cdnt", letter) != NULL;
	switch (letter) {
	case 's':
		if (line->sockets_count == CTL_SOCKETS_MAX)
			return refuse("--socket can be said %d times at most", CTL_SOCKETS_MAX);
		line->sockets[line->sockets_count++] = arg;
		return CTL_VALUE;
	case 'j':
		line->json = true;
		return CTL_VALUE;
	case 'r':
		line->raw = true;
		return CTL_VALUE;
	case '1':
		line->once = true;
		return CTL_VALUE;
	case 'W':
		line->warm.wait = true;
		return CTL_VALUE;
	case 'F':
		return take_percent("fail-under", arg, &line->warm.fail_under);
	case 'w':
		return take_number("timeout-ms", arg, 1, INT32_MAX, &line->timeout_ms);
	case 'c':
		return take_number("connections", arg, 1, CONNECTIONS_MAX, &line->connections);
	case 'd':
		return take_number("depth", arg, 1, DEPTH_MAX, &line->depth);
	case 'n':
		return take_number("requests", arg, 1, INT64_MAX / 2, &line->requests);
	case 't':
		return take_number("seconds", arg, 1, SECONDS_MAX, &line->seconds);
	default:
		return CTL_USAGE; /* getopt has said what is wrong */
	}
}

/* All options as getopt wants them: short ones into `letters`, long ones into `longs`; `flags`
 * keeps their names. */
static void list_options(char *letters, struct option longs[OPTIONS_MAX],
			 char flags[OPTIONS_MAX][32])
{
	int count = 0;

	for (int i = 0; i < OWN_OPTIONS; i++) {
		const struct own_option *own = &own_options[i];

		*letters++ = own->letter;
		if (own->arg)
			*letters++ = ':';
		longs[count++] =
			(struct option){ own->name, own->arg ? required_argument : no_argument,
					 NULL, own->letter };
	}
	*letters = '\0';
	for (size_t i = 0; i < options_count; i++) {
		const struct option_spec *option = &options_all[i];
		const bool has_arg = option->type != OPTION_FLAG;

		assert(count < OPTIONS_MAX - 1);
		longs[count] = (struct option){ option_flag(option, flags[count]),
						has_arg ? required_argument : no_argument, NULL,
						METHOD_OPTION + (int)i };
		count++;
	}
	for (int i = 0; i < estimate_options_count; i++) {
		assert(count < OPTIONS_MAX - 1);
		longs[count++] = (struct option){ estimate_options[i].name, required_argument, NULL,
						  ESTIMATE_OPTION + i };
	}
	for (int i = 0; i < drill_options_count; i++) {
		assert(count < OPTIONS_MAX - 1);
		longs[count++] =
			(struct option){ drill_options[i].name,
					 drill_options[i].arg ? required_argument : no_argument,
					 NULL, DRILL_OPTION + i };
	}
	longs[count] = (struct option){ NULL, 0, NULL, 0 };
}

static enum ctl_exit read_line(int argc, char **argv, struct line *line)
{
	char letters[2 * OWN_OPTIONS + 1], flags[OPTIONS_MAX][32];
	struct option longs[OPTIONS_MAX];
	enum ctl_exit exit_code = CTL_VALUE;
	int found;

	list_options(letters, longs, flags);
	while (exit_code == CTL_VALUE &&
	       (found = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		if (found == 'h') {
			print_help(stdout);
			exit(CTL_VALUE);
		}
		if (found == 'V') {
			puts("segarctl " SEGAR_VERSION);
			exit(CTL_VALUE);
		}
		if (found >= DRILL_OPTION)
			exit_code = take_drill_option(line, found - DRILL_OPTION, optarg);
		else if (found >= ESTIMATE_OPTION)
			exit_code = take_estimate_option(line, found - ESTIMATE_OPTION, optarg);
		else if (found >= METHOD_OPTION)
			exit_code = take_method_option(line, &options_all[found - METHOD_OPTION],
						       optarg);
		else
			exit_code = take_own_option(line, found, optarg);
	}
	return exit_code;
}

/* Whether the options that were given are ones of the command. */
static enum ctl_exit check_options(struct line *line, const struct command *command)
{
	char flag[32];

	for (size_t i = 0; i < options_count; i++)
		if (*option_at(&line->options, &options_all[i]) != OPTION_UNSET &&
		    !(options_all[i].methods & command->options))
			return refuse("%s has no option --%s", command->name,
				      option_flag(&options_all[i], flag));
	const bool drills = strcmp(command->name, "drill") == 0;
	const bool warms = strcmp(command->name, "warm") == 0;
	const bool has_rate = warms || drills || strcmp(command->name, "log") == 0;
	if (line->for_bench && !drills && strcmp(command->name, "bench") != 0)
		return refuse("-c, -d, -n and -t are for bench");
	if (drills && (line->requests || line->seconds || line->depth != 1))
		return refuse("-d, -n and -t are for bench; drill has --rate and --for");
	if (line->drill.given && !drills)
		return refuse("--for, --scenes, --builds and what goes with them are for drill");
	if (line->sockets_count > 1 && !drills)
		return refuse("only drill takes more than one --socket");
	const unsigned own = line->estimate.given & ~(has_rate ? ESTIMATE_RATE : 0u);
	if (own && strcmp(command->name, "estimate") != 0)
		return refuse("--rate, --build and what goes with them are for estimate");
	if ((line->warm.wait || line->warm.fail_under > 0) && !warms)
		return refuse("--wait and --fail-under are for warm");
	if (line->warm.fail_under > 0 && !line->warm.wait)
		return refuse("--fail-under goes with --wait");
	if (line->once && strcmp(command->name, "top") != 0)
		return refuse("--once is for top");
	if (line->requests && line->seconds)
		return refuse("bench ends after -n requests or -t seconds, not both");
	return CTL_VALUE;
}

/* How many of the arguments are the command's name: 0, it is another. */
static int words_of(const struct command *command, char **args, int count)
{
	const char *space = strchr(command->name, ' ');

	if (!space)
		return strcmp(args[0], command->name) == 0 ? 1 : 0;
	const size_t len = (size_t)(space - command->name);

	return count > 1 && strlen(args[0]) == len && strncmp(args[0], command->name, len) == 0 &&
			       strcmp(args[1], space + 1) == 0
		       ? 2
		       : 0;
}

static enum ctl_exit find_command(struct line *line, char **args, int count,
				  const struct command **ret_command)
{
	for (int i = 0; count > 0 && i < commands_count; i++) {
		const struct command *command = &commands[i];

		const int words = words_of(command, args, count);

		if (words == 0)
			continue;
		line->words = words;
		if (count - words < command->args_min || count - words > command->args_max)
			return refuse("usage: segarctl %s%s%s", command->name,
				      *command->args ? " " : "", command->args);
		*ret_command = command;
		return check_options(line, command);
	}
	return count > 0 ? refuse("there is no command %s", args[0])
			 : refuse("a command is missing");
}

/* What the line says, as the commands want it. */
static void set_options(struct ctl *ctl, const struct line *line)
{
	ctl->json = line->json;
	ctl->raw = line->raw;
	ctl->once = line->once;
	ctl->options.wait_ms = line->options.wait_ms;
	ctl->options.max_stale_ms = line->options.max_stale_ms;
	ctl->options.min_version = line->options.min_version;
	ctl->options.if_older_ms = line->options.if_older_ms;
	ctl->options.hard = line->options.hard == 1;
	ctl->options.trace = line->trace;
	ctl->options.timeout_ms = line->timeout_ms;
	ctl->estimate = line->estimate;
	ctl->warm = line->warm;
	ctl->warm.rate_per_s = line->estimate.plan.rate_per_s;
	ctl->drill = line->drill;
	ctl->drill.connections = (int)line->connections;
	memcpy(ctl->sockets, line->sockets, sizeof(ctl->sockets));
	ctl->sockets_count = line->sockets_count;
	ctl->bench.connections = (int)(line->connections ? line->connections : CONNECTIONS);
	ctl->bench.depth = (int)line->depth;
	ctl->bench.requests = line->requests;
	ctl->bench.seconds = line->seconds ? (double)line->seconds : 5;
}

int main(int argc, char **argv)
{
	struct line line = { .options = options_unset(), .timeout_ms = SEGAR_UNSET, .depth = 1 };
	struct ctl ctl = { .options = SEGAR_OPTIONS };
	const struct command *command = NULL;
	enum ctl_exit exit_code = read_line(argc, argv, &line);

	if (exit_code == CTL_VALUE)
		exit_code = find_command(&line, argv + optind, argc - optind, &command);
	if (exit_code != CTL_VALUE)
		return exit_code;
	set_options(&ctl, &line);
	ctl.args = argv + optind + line.words;
	ctl.args_count = argc - optind - line.words;
	ctl.c = segar_open(ctl.sockets[0]);
	if (!ctl.c)
		return refuse("the socket's path is over 107 bytes");
	if (ctl.sockets_count == 0)
		ctl.sockets[ctl.sockets_count++] = segar_socket_path(ctl.c);
	segar_set_attempts(ctl.c, 1);
	exit_code = command->run(&ctl, command);
	segar_close(ctl.c);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		perror("segarctl: standard output");
		return CTL_ERROR;
	}
	return exit_code;
}
