#include "client/segar.h"
#include "proto/result.h"
#include "proto/status.h"

const char *segar_status_name(int status)
{
	switch (status) {
	case SEGAR_DISCONNECTED:
		return "disconnected";
	case SEGAR_NO_REPLY:
		return "no_reply";
	case SEGAR_PROTOCOL:
		return "protocol";
	case SEGAR_NO_MEMORY:
		return "no_memory";
	case SEGAR_TOO_MANY:
		return "too_many";
	case SEGAR_OTHER:
		return "other";
	default:
		return status_name((enum status)status);
	}
}

const char *segar_state_name(enum segar_state state)
{
	return (unsigned)state < RESULT_STATE_COUNT ? result_state_name((enum result_state)state)
						    : "unknown";
}

const char *segar_reason_name(enum segar_reason reason)
{
	return (unsigned)reason < RESULT_REASON_COUNT
		       ? result_reason_name((enum result_reason)reason)
		       : "unknown";
}

const char *segar_source_name(enum segar_source source)
{
	return (unsigned)source < RESULT_SOURCE_COUNT
		       ? result_source_name((enum result_source)source)
		       : "unknown";
}
