#include "ops/own_jobs.h"

#include "base/check.h"

static void on_turn(uv_idle_t *idle)
{
	struct own_jobs *own = idle->data;
	uv_idle_stop(idle);
	/* Answers submit anew: those wait for the next turn. */
	for (size_t n = own->submitted.count; n > 0; n--) {
		struct job_call *call =
			container_of(list_pop_front(&own->submitted), struct job_call, node);
		job_book_do(&own->book, call, own->now_us(own->arg));
		call->done(call);
	}
}

static void own_submit(void *impl, struct job_call *call)
{
	struct own_jobs *own = impl;
	list_node_init(&call->node);
	list_push_back(&own->submitted, &call->node);
	CHECK(uv_idle_start(&own->turn, on_turn) == 0);
}

void own_jobs_open(struct own_jobs *own, uv_loop_t *loop)
{
	job_book_init(&own->book);
	list_init(&own->submitted);
	CHECK(uv_idle_init(loop, &own->turn) == 0);
	own->turn.data = own;
}

struct job_store own_jobs_iface(struct own_jobs *own)
{
	return (struct job_store){ .impl = own, .submit = own_submit };
}

void own_jobs_close(struct own_jobs *own)
{
	CHECK(list_empty(&own->submitted));
	job_book_close(&own->book);
	uv_close((uv_handle_t *)&own->turn, NULL);
}
