#include "origin/aside.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* Two hold it, the owner and the thread. Not from base/mem.h, whose counter is the loop's alone. */
struct aside {
	pthread_mutex_t lock;
	const struct aside_call *call; /* borrowed, static */
	void *arg;                     /* owned */
	uv_async_t *tell;              /* borrowed from the owner; NULL once it let go */
	int holders;
	int returned;
};

static void aside_let_go(struct aside *aside)
{
	int left = --aside->holders;

	pthread_mutex_unlock(&aside->lock);
	if (left > 0)
		return;
	pthread_mutex_destroy(&aside->lock);
	aside->call->drop(aside->arg);
	free(aside);
}

static void *aside_run(void *arg)
{
	struct aside *aside = arg;

	aside->call->run(aside->arg);
	atomic_fetch_sub(&aside->call->quota->running, 1);
	pthread_mutex_lock(&aside->lock);
	aside->returned = 1;
	if (aside->tell)
		uv_async_send(aside->tell);
	aside_let_go(aside);
	return NULL;
}

/* A detached thread that gets no signals: they are the loop's. */
static int aside_spawn(struct aside *aside)
{
	sigset_t all, before;
	pthread_t thread;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, NULL, aside_run, aside);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		return -1;
	pthread_detach(thread);
	return 0;
}

struct aside *aside_start(const struct aside_call *call, void *arg, uv_async_t *tell)
{
	struct aside *aside = NULL;

	if (atomic_fetch_add(&call->quota->running, 1) >= call->quota->max)
		goto fail;
	aside = malloc(sizeof(*aside));
	if (!aside)
		goto fail;
	*aside = (struct aside){ .call = call, .arg = arg, .tell = tell, .holders = 2 };
	if (pthread_mutex_init(&aside->lock, NULL))
		goto fail;
	if (aside_spawn(aside) == 0)
		return aside;
	pthread_mutex_destroy(&aside->lock);
fail:
	free(aside);
	call->drop(arg);
	atomic_fetch_sub(&call->quota->running, 1);
	return NULL;
}

void *aside_result(struct aside *aside)
{
	void *result;

	pthread_mutex_lock(&aside->lock);
	result = aside->returned ? aside->arg : NULL;
	pthread_mutex_unlock(&aside->lock);
	return result;
}

void aside_free(struct aside *aside)
{
	if (!aside)
		return;
	pthread_mutex_lock(&aside->lock);
	aside->tell = NULL;
	aside_let_go(aside);
}
