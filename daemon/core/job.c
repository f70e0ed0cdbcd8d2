#include "core/job.h"

#include <string.h>

const char *job_state_name(enum job_state state)
{
	static const char *const names[] = {
#define X(NAME, name) [JOB_##NAME] = #name,
		JOB_STATE_MAP(X)
#undef X
	};
	return names[state];
}

void job_call_reset(struct job_call *call, enum job_outcome outcome)
{
	call->outcome = outcome;
	call->job = (struct job){ 0 };
	call->joined = call->lost = false;
	call->left_us = call->fed = 0;
	call->of = call->next = 0;
	call->ahead = 0;
	call->data = NULL;
	call->data_len = 0;
}

size_t chunk_next(const char *bytes, size_t len, const char **ret_text, uint32_t *ret_len)
{
	const unsigned char *at = (const unsigned char *)bytes;
	if (len < CHUNK_HEAD)
		return 0;
	uint32_t text_len =
		(uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
	if (text_len > len - CHUNK_HEAD)
		return 0;
	*ret_text = bytes + CHUNK_HEAD;
	*ret_len = text_len;
	return CHUNK_HEAD + (size_t)text_len;
}

size_t chunk_put(char *bytes, size_t size, const char *text, uint32_t len)
{
	if (size < CHUNK_HEAD || len > size - CHUNK_HEAD)
		return 0;
	for (int i = 0; i < CHUNK_HEAD; i++)
		bytes[i] = (char)(unsigned char)(len >> (24 - 8 * i));
	memcpy(bytes + CHUNK_HEAD, text, len);
	return CHUNK_HEAD + (size_t)len;
}
