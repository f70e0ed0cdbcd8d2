/* The printed names of the enums that the interfaces list; each comes from its X-macro. */
#include "core/origin.h"
#include "core/store.h"

const char *build_outcome_name(enum build_outcome outcome)
{
	static const char *const names[] = {
#define X(NAME, name, text) [BUILD_##NAME] = #name,
		BUILD_OUTCOME_MAP(X)
#undef X
	};
	return names[outcome];
}

const char *store_verb_name(enum store_verb verb)
{
	static const char *const names[] = {
#define X(NAME, name, text) [STORE_##NAME] = #name,
		STORE_VERB_MAP(X)
#undef X
	};
	return names[verb];
}
