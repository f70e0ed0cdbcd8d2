/* segarctl's inside: what the command line asked for, and how things are shown. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "client/ctl_drill.h"
#include "client/ctl_estimate.h"
#include "client/segar.h"
#include "proto/method.h"
#include "proto/wire.h"

/* How a run ends: the numbers are a contract with scripts. */
enum ctl_exit {
	CTL_VALUE = 0,
	CTL_ERROR = 1,
	CTL_USAGE = 2,
	CTL_NO_DAEMON = 3,
	CTL_ABSENT = 4,
	CTL_FAIL_UNDER = 5,
	CTL_NOT_KEPT = 5,
};

enum { CTL_SOCKETS_MAX = 16 };

struct bench_plan {
	int connections;
	int depth;        /* requests in flight on each */
	int64_t requests; /* in all; 0: as many as come in `seconds` */
	double seconds;
};

struct warm_wish {
	bool wait;
	double fail_under; /* of --wait: so many percent of the keys are to be warm */
	double rate_per_s; /* 0: the plan's */
};

struct ctl {
	segar *c;
	bool json;
	bool raw;  /* of a value, its bytes only */
	bool once; /* of top: a plain picture, and no more */
	segar_options options;
	struct bench_plan bench;
	struct estimate_line estimate;
	struct warm_wish warm;
	struct drill_line drill;
	const char *sockets[CTL_SOCKETS_MAX]; /* each that was said; at least the one of c */
	int sockets_count;
	char **args; /* behind the command */
	int args_count;
};

struct command {
	const char *name;
	const char *args; /* for the help */
	const char *text;
	int args_min, args_max;
	unsigned options; /* the methods whose options it takes, a bit each */
	enum ctl_exit (*run)(struct ctl *ctl, const struct command *command);
};
extern const struct command commands[];
extern const int commands_count;

/* Shows a value that is MessagePack as JSON, or as indented text for people. Binaries, and strings
 * that are no UTF-8, become {"base64": "…"} in JSON. False if it is no whole value. */
bool ctl_print_json(FILE *out, struct wire_span encoded);
bool ctl_print_text(FILE *out, struct wire_span encoded);

/* Text that a terminal can be trusted with: what it might take for a command is shown as \xNN. */
void ctl_put_text(FILE *out, struct wire_span text);

/* Text as a JSON string; what is no UTF-8 in it as {"base64": "…"}. */
void ctl_put_json_text(FILE *out, const char *text);

/* Shows what a get or mget told of one key; as ctl->json and ctl->raw want it. */
void ctl_print_result(FILE *out, const struct ctl *ctl, const segar_result *result);

/* Shows an error: as JSON on `out`, or for people on stderr. */
void ctl_print_error(FILE *out, const struct ctl *ctl, int status, const char *text,
		     int64_t retry_after_ms);

/* The exit code that a status asks for. */
enum ctl_exit ctl_exit_of(int status);

/* Shows what the daemon's doctor finds; CTL_ERROR too where anything is bad. */
enum ctl_exit ctl_doctor(struct ctl *ctl);

/* Shows what happens to the key, until the daemon goes or this process is ended. */
enum ctl_exit ctl_trace(struct ctl *ctl, const char *key);

/* Loads the key of ctl->args, and tells how quickly it was answered. */
enum ctl_exit ctl_bench(struct ctl *ctl, const char *key);

/* Shows what ctl->estimate comes to; of a keyspace, NULL: none, by what its daemon measures. */
enum ctl_exit ctl_estimate(struct ctl *ctl, const char *keyspace);

/* Starts the warm-up of ctl->args, a plan or keys, and perhaps waits for it. */
enum ctl_exit ctl_warm(struct ctl *ctl);

/* warm_status or warm_cancel. */
enum ctl_exit ctl_warm_ask(struct ctl *ctl, const char *method);

/* Tries the fleet's promises on the keyspace and keys of ctl->args. */
enum ctl_exit ctl_drill(struct ctl *ctl);
