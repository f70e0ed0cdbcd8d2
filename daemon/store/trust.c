#include "store/trust.h"

enum trust_beat trust_hear(struct trust *trust, uint64_t number)
{
	if (trust->has_last && number == trust->last)
		return TRUST_REPEATED;
	bool unbroken = trust->has_last && number == trust->last + 1;
	trust->has_last = true;
	trust->last = number;
	return unbroken ? TRUST_GOES_ON : TRUST_BEGINS;
}

void trust_lose(struct trust *trust)
{
	trust->has_last = false;
}
