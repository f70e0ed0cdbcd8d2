#include "origin/cancel.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Two hold it, the owner and the thread; who lets go last frees it. Not from mem.h, whose counter
 * is the loop's alone. */
struct cancel {
	pthread_mutex_t lock;
	int holders;
	int told;
	uv_async_t *tell; /* borrowed from the owner; NULL once abandoned */
	PGcancel *request;
};

static atomic_int threads;

static void cancel_let_go(struct cancel *cancel)
{
	int left = --cancel->holders;

	pthread_mutex_unlock(&cancel->lock);
	if (left > 0)
		return;
	pthread_mutex_destroy(&cancel->lock);
	PQfreeCancel(cancel->request);
	free(cancel);
}

static void *cancel_run(void *arg)
{
	struct cancel *cancel = arg;
	char error[256];

	/* Whether it worked shows in what the statement answers. */
	(void)PQcancel(cancel->request, error, sizeof(error));
	atomic_fetch_sub(&threads, 1);
	pthread_mutex_lock(&cancel->lock);
	cancel->told = 1;
	if (cancel->tell)
		uv_async_send(cancel->tell);
	cancel_let_go(cancel);
	return NULL;
}

/* A thread that gets no signals: they are the loop's. */
static int cancel_spawn(struct cancel *cancel)
{
	sigset_t all, before;
	pthread_t thread;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, NULL, cancel_run, cancel);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		return -1;
	pthread_detach(thread);
	return 0;
}

int cancel_start(PGconn *pg, uv_async_t *tell, struct cancel **ret_cancel)
{
	struct cancel *cancel;

	if (atomic_fetch_add(&threads, 1) >= CANCEL_THREADS_MAX)
		goto fail_threads;
	cancel = calloc(1, sizeof(*cancel));
	if (!cancel)
		goto fail_threads;
	*cancel = (struct cancel){ .holders = 2, .tell = tell, .request = PQgetCancel(pg) };
	if (!cancel->request || pthread_mutex_init(&cancel->lock, NULL))
		goto fail_cancel;
	if (cancel_spawn(cancel) < 0)
		goto fail_lock;
	*ret_cancel = cancel;
	return 0;

fail_lock:
	pthread_mutex_destroy(&cancel->lock);
fail_cancel:
	PQfreeCancel(cancel->request);
	free(cancel);
fail_threads:
	atomic_fetch_sub(&threads, 1);
	return -1;
}

int cancel_is_told(struct cancel *cancel)
{
	int told;

	pthread_mutex_lock(&cancel->lock);
	told = cancel->told;
	pthread_mutex_unlock(&cancel->lock);
	return told;
}

void cancel_abandon(struct cancel *cancel)
{
	if (!cancel)
		return;
	pthread_mutex_lock(&cancel->lock);
	cancel->tell = NULL;
	cancel_let_go(cancel);
}
