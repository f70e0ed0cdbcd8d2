#include "core/account.h"

#include "base/check.h"
#include "core/request.h"

const char *refresh_cause_name(enum refresh_cause cause)
{
	static const char *const names[] = {
#define X(NAME, name, text) #name,
		REFRESH_CAUSE_MAP(X)
#undef X
	};
	return names[cause];
}

const char *refresh_outcome_name(enum refresh_outcome outcome)
{
	static const char *const names[] = {
#define X(NAME, name, text) #name,
		REFRESH_OUTCOME_MAP(X)
#undef X
	};
	return names[outcome];
}

uint64_t account_gets(const struct account *account)
{
	const uint64_t *at = &account->gets[0][0][0];
	uint64_t sum = 0;
	for (size_t i = 0; i < sizeof(account->gets) / sizeof(*at); i++)
		sum += at[i];
	for (size_t i = 0; i < STATUS_COUNT; i++)
		sum += account->errors[i];
	return sum;
}

void account_answer(struct account *account, const struct answer *answer)
{
	if (answer->status != STATUS_OK) {
		account->errors[answer->status]++;
		return;
	}
	account->gets[answer->state][answer->source][answer->reason]++;
	if (answer->stale_us > 0)
		durations_add(&account->stale_ages, answer->stale_us);
}
