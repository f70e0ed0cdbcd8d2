#include "ops/check.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "ops/daemon.h"
#include "ops/stores.h"
#include "origin/dsn.h"

/* Not in libpq's words, which quote parts of it. */
#define NO_DSN                                                                                     \
	"is no connection string that libpq can use; in a URI, signs of a password such as @ and " \
	"/ are written %40 and %2F"

bool check_open_pool(uv_loop_t *loop, const struct config *config, struct pool **ret_pool)
{
	int r = pool_create(loop, &config->origin, config->keyspaces, config->keyspaces_count,
			    config->store_prefix, ret_pool);
	if (r < 0)
		log_error("daemon.origin",
			  LOG_TEXT("why", r == -EINVAL ? "origin.dsn is no connection string"
						       : uv_strerror(r)));
	return r == 0;
}

const char *check_config(const struct config *config)
{
	struct store_url url;
	/* Only the service itself sees its credentials: who checks the file from a shell does not.
	 */
	const bool hidden = config->store_password_file &&
			    !strchr(config->store_password_file, '/') &&
			    !getenv("CREDENTIALS_DIRECTORY");
	const char *why =
		hidden ? store_url_parse(config->store_url, &url) : stores_read_url(config, &url);
	if (!why && dsn_check(config->origin.dsn) != 0)
		why = "origin.dsn " NO_DSN;
	if (!why && config->feed.dsn && dsn_check(config->feed.dsn) != 0)
		why = "feed.dsn " NO_DSN;
	return why;
}

struct inquiry {
	const struct config *config;
	int code;
};

static void tell_statement(struct inquiry *check, const struct statement *statement)
{
	const struct policy *policy = statement->policy;
	if (statement->state == STATEMENT_REFUSED) {
		printf("%s:%d: %s: %s\n", check->config->path, policy->line, policy->name,
		       statement->error);
		check->code = EXIT_CONFIG;
	} else if (statement->state == STATEMENT_OK && statement->single) {
		printf("%s: batch: ok, up to %d keys\n", policy->name, policy->batch.max);
	} else if (statement->state == STATEMENT_OK) {
		printf("%s: ok, %u argument%s%s\n", policy->name, statement->params_count,
		       statement->params_count == 1 ? "" : "s",
		       statement->columns & GUARD_HAS_VERSION ? ", versioned" : "");
	}
}

static void on_probed(struct pool *pool, void *arg)
{
	struct inquiry *check = arg;
	const char *trouble = pool_trouble(pool);
	check->code = trouble ? EXIT_CONFIG : EXIT_OK;
	if (trouble)
		printf("origin: %s\n", trouble);
	for (uint32_t i = 0; i < check->config->keyspaces_count; i++) {
		const struct statement *batch = pool_batch_statement(pool, i);
		tell_statement(check, pool_statement(pool, i));
		if (batch)
			tell_statement(check, batch);
	}
	pool_close(pool, NULL, NULL);
}

int check_origin(const struct config *config)
{
	uv_loop_t loop;
	struct pool *pool;
	struct inquiry check = { .config = config, .code = EXIT_CONFIG };
	signal(SIGPIPE, SIG_IGN);
	CHECK(uv_loop_init(&loop) == 0);
	if (check_open_pool(&loop, config, &pool))
		pool_probe(pool, on_probed, &check);
	uv_run(&loop, UV_RUN_DEFAULT);
	CHECK(uv_loop_close(&loop) == 0);
	return check.code;
}
