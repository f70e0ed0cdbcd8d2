#include "origin/cancel.h"

static void cancel_run(void *arg)
{
	char error[256];

	(void)PQcancel(arg, error, sizeof(error));
}

static void cancel_drop(void *arg)
{
	PQfreeCancel(arg);
}

struct aside *cancel_start(PGconn *pg, uv_async_t *tell)
{
	static struct aside_quota quota = { .max = CANCELS_MAX };
	static const struct aside_call call = { cancel_run, cancel_drop, &quota };
	PGcancel *cancel = PQgetCancel(pg);

	return cancel ? aside_start(&call, cancel, tell) : NULL;
}
