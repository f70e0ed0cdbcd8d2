/* Any bytes as a configuration file: a config or errors, never both, and nothing left behind. */
#include <stdint.h>
#include <stdio.h>

#include "base/check.h"
#include "base/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config *config = NULL;
	static struct config_errors errors;
	int r = config_parse("f.yaml", (const char *)data, size, &config, &errors);
	CHECK((r == 0) == (config != NULL));
	CHECK((r == 0) == (errors.errors.count == 0));
	static FILE *null;
	if (!null)
		null = fopen("/dev/null", "w");
	config_errors_print(&errors, null);
	config_free(config);
	return 0;
}
