/* segard's server, engine and near cache over an origin in the same process, so that millions of
 * values are there in seconds, and a keyspace more costs nothing but itself.
 *
 *   stand_in SOCKET MEGABYTES [KEYSPACES]
 *
 * Keys are kN:own-LEN-…: in keyspace N, counted from 0, a value of LEN bytes that begins with the
 * key's last ten. Serves until SIGTERM.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/rpc_world.h"

static void on_signal(uv_signal_t *handle, int number)
{
	(void)number;
	uv_stop(handle->loop);
}

/* So many keyspaces, each like `first` but for its name. */
static struct policy *make_policies(const struct policy *first, uint32_t count)
{
	struct policy *policies = calloc(count, sizeof(*policies));

	cr_assert(policies);
	for (uint32_t i = 0; i < count; i++) {
		char name[16];

		snprintf(name, sizeof(name), "k%u", i);
		policies[i] = *first;
		policies[i].name = strdup(name);
		cr_assert(policies[i].name);
	}
	return policies;
}

int main(int argc, char **argv)
{
	static struct rpc_world world;
	const uint64_t megabytes = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	const uint32_t keyspaces = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 1;
	struct policy *policies;
	uv_signal_t signals;

	if (argc < 3 || argc > 4 || megabytes == 0 || keyspaces == 0) {
		fprintf(stderr, "usage: stand_in SOCKET MEGABYTES [KEYSPACES]\n");
		return 2;
	}
	rpc_world_defaults(&world);
	world.policy.fresh_us = 24 * 3600 * (int64_t)SECOND;
	world.policy.wait_us = 300 * (int64_t)SECOND;
	world.engine_limits.near_bytes_max = megabytes << 20;
	world.policies = policies = make_policies(&world.policy, keyspaces);
	world.policies_count = keyspaces;
	world.listen.socket = argv[1];
	rpc_world_open(&world);
	uv_signal_init(&world.loop, &signals);
	uv_signal_start(&signals, on_signal, SIGTERM);
	uv_run(&world.loop, UV_RUN_DEFAULT);
	uv_close((uv_handle_t *)&signals, NULL);
	rpc_world_close(&world);
	for (uint32_t i = 0; i < keyspaces; i++)
		free(policies[i].name);
	free(policies);
	return 0;
}
