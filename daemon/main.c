/* segard: reads its options and its configuration, then serves (ops/daemon.h). */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "doctor/doctor.h"
#include "ops/check.h"
#include "ops/daemon.h"
#include "ops/memory.h"

struct options {
	const char *config;
	bool check;
	bool origin;
	bool doctor;
};

static const char usage[] =
	"usage: segard [--config FILE] [--check [--origin] | --doctor]\n"
	"\n"
	"Keeps cached database results fresh, and the database's load within its budget.\n"
	"\n"
	"  -c, --config FILE   the configuration (default: /etc/segar/segard.yaml)\n"
	"      --check         read the configuration, say all that is wrong with it, and exit\n"
	"      --origin        with --check: connect to PostgreSQL and prepare every query too\n"
	"      --doctor        look at all that a daemon lives by, say how to mend what is wrong, "
	"and exit\n"
	"      --help-config   print the reference of the configuration's keys, and exit\n"
	"  -h, --help          print this, and exit\n"
	"      --version       print the version, and exit\n"
	"\n"
	"Exit status: 0 fine, 1 configuration, 2 usage, 3 the socket is in use by another "
	"segard.\n";

static int bad_usage(const char *why, const char *what)
{
	fprintf(stderr, "segard: %s%s\n%s", why, what, usage);
	return EXIT_USAGE;
}

/* -1: go on; else the exit code. */
static int read_options(int argc, char **argv, struct options *ret_options)
{
	enum { CHECK_ONLY = 256, ORIGIN, DOCTOR, HELP_CONFIG, VERSION };
	static const struct option longs[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "check", no_argument, NULL, CHECK_ONLY },
		{ "origin", no_argument, NULL, ORIGIN },
		{ "doctor", no_argument, NULL, DOCTOR },
		{ "help", no_argument, NULL, 'h' },
		{ "help-config", no_argument, NULL, HELP_CONFIG },
		{ "version", no_argument, NULL, VERSION },
		{ 0 },
	};
	*ret_options = (struct options){ .config = "/etc/segar/segard.yaml" };
	int option;
	while ((option = getopt_long(argc, argv, "c:h", longs, NULL)) != -1) {
		switch (option) {
		case 'c':
			ret_options->config = optarg;
			break;
		case CHECK_ONLY:
			ret_options->check = true;
			break;
		case ORIGIN:
			ret_options->origin = true;
			break;
		case DOCTOR:
			ret_options->doctor = true;
			break;
		case HELP_CONFIG:
			config_print_reference(stdout);
			return EXIT_OK;
		case VERSION:
			puts("segard " SEGAR_VERSION);
			return EXIT_OK;
		case 'h':
			fputs(usage, stdout);
			return EXIT_OK;
		default: /* getopt has said what is wrong */
			return EXIT_USAGE;
		}
	}
	if (optind < argc)
		return bad_usage("it takes no arguments, but got ", argv[optind]);
	if (ret_options->origin && !ret_options->check)
		return bad_usage("--origin goes with --check", "");
	return -1;
}

static int check(const struct options *options, const struct config *config)
{
	const char *why = check_config(config);
	if (why) {
		fprintf(stderr, "%s: %s\n", options->config, why);
		return EXIT_CONFIG;
	}
	if (options->origin) {
		int code = check_origin(config);
		if (code != EXIT_OK)
			return code;
	}
	printf("%s: ok, %zu keyspace%s\n", options->config, config->keyspaces_count,
	       config->keyspaces_count == 1 ? "" : "s");
	memory_print(stdout, config);
	return EXIT_OK;
}

static int examine(const char *path)
{
	static struct doctor_report report;
	doctor_examine(path, &report);
	doctor_print(&report, stdout);
	return report.bad > 0 ? EXIT_CONFIG : EXIT_OK;
}

/* A file opened as 0, 1 or 2 would be written to as if it were the terminal. */
static void open_standard_files(void)
{
	int fd;
	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	open_standard_files();
	struct options options;
	int code = read_options(argc, argv, &options);
	if (code >= 0)
		return code;

	if (options.doctor)
		return examine(options.config);

	static struct config_errors errors;
	struct config *config = NULL;
	int r = config_load(options.config, &config, &errors);
	config_errors_print(&errors, stderr);
	if (r < 0)
		return EXIT_CONFIG;
	log_open(STDERR_FILENO, config->log_level, config->log_format);
	log_hide_keys(config->log_keys == LOG_KEYS_HASHED, config->log_salt);
	code = options.check ? check(&options, config) : daemon_run(config);
	config_free(config);
	return code;
}
