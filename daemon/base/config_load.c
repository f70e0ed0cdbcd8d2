/* A configuration's life: from the file to the struct, and to its end; and what two have apart. */
#include <errno.h>
#include <string.h>
#include <yaml.h>

#include "base/check.h"
#include "base/config.h"
#include "base/config_schema.h"
#include "base/mem.h"
#include "base/schema_reference.h"
#include "base/yaml_file.h"

static char *copy_text(const char *text)
{
	char *copy = mem_alloc(strlen(text) + 1);
	return copy ? strcpy(copy, text) : NULL;
}

/* FNV-1a (Fowler, Noll, Vo): tells files apart for people, against nobody's will. */
static uint64_t digest_of(const char *text, size_t len)
{
	uint64_t digest = 0xcbf29ce484222325u;
	for (size_t i = 0; i < len; i++)
		digest = (digest ^ (unsigned char)text[i]) * 0x100000001b3u;
	return digest;
}

static void release(struct policy_home *home)
{
	struct config *config = container_of(home, struct config, home);
	schema_release(&config_schema, config);
	mem_free(config->path);
	mem_free(config);
}

static int parse(const char *path, const char *text, size_t len, struct config **ret_config,
		 struct config_errors *errors)
{
	/* Editors on other systems put a byte order mark before UTF-8. */
	if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
		text += 3;
		len -= 3;
	}
	yaml_document_t document;
	int r = yaml_file_parse(text, len, &document, errors);
	if (r < 0)
		return r;
	struct config *config = mem_zalloc(sizeof *config);
	if (config) {
		config->home = (struct policy_home){ .refs = 1, .release = release };
		config->digest = digest_of(text, len);
	}
	if (!config || !(config->path = copy_text(path))) {
		config_error(errors, (struct config_place){ 0, 0 }, "out of memory");
		r = -ENOMEM;
		goto free_config;
	}
	r = schema_read(&config_schema, &document, config, errors);
	if (r < 0)
		goto free_config;
	if (errors->errors.count > 0) {
		r = -EINVAL;
		goto free_config;
	}
	yaml_document_delete(&document);
	*ret_config = config;
	return 0;

free_config:
	config_free(config);
	yaml_document_delete(&document);
	return r;
}

int config_parse(const char *path, const char *text, size_t len, struct config **ret_config,
		 struct config_errors *errors)
{
	config_errors_init(errors, path);
	return parse(path, text, len, ret_config, errors);
}

int config_load(const char *path, struct config **ret_config, struct config_errors *errors)
{
	char *text;
	size_t len;
	config_errors_init(errors, path);
	int r = yaml_file_read(path, &text, &len, errors);
	if (r < 0)
		return r;
	r = parse(path, text, len, ret_config, errors);
	mem_free(text);
	return r;
}

void config_free(struct config *config)
{
	if (config && --config->home.refs == 0)
		release(&config->home);
}

/* ---- comparing ------------------------------------------------------------------------------- */

struct comparison {
	config_differ_cb *differ;
	void *arg;
};

static void on_difference(void *arg, const char *path, const struct field *field)
{
	const struct comparison *comparison = arg;
	char key[120];
	snprintf(key, sizeof key, "%s%s", path, field->name);
	comparison->differ(comparison->arg, key, field->live);
}

void config_compare(const struct config *a, const struct config *b, config_differ_cb *differ,
		    void *arg)
{
	struct comparison comparison = { differ, arg };
	schema_compare(&config_schema, a, b, "", on_difference, &comparison);
}

static void on_any_difference(void *arg, const char *path, const struct field *field)
{
	(void)path;
	(void)field;
	*(bool *)arg = true;
}

bool config_same_keyspace(const struct policy *a, const struct policy *b)
{
	bool differs = false;
	schema_compare(&config_keyspace_schema, a, b, "", on_any_difference, &differs);
	return !differs;
}

void config_print_reference(FILE *out)
{
	fputs("# segard.yaml\n\n"
	      "The configuration of `segard`: a YAML file, `/etc/segar/segard.yaml` unless "
	      "`--config` "
	      "names another.\n"
	      "`segard --check` tells all that is wrong with it, each with its line and column.\n"
	      "A running daemon reads it again on SIGHUP or `segarctl reload`: it takes over what "
	      "is "
	      "`live` below, and\nrefuses the whole file, naming the key, where something else has "
	      "changed, which takes a `restart`.\n\n"
	      "A number is directly followed by its unit: durations by `ms`, `s`, `m`, `h` or `d`, "
	      "sizes by `B`, `KiB`, `MiB` or `GiB`,\nrates by `/s` or `/m`, percentages by `%`. "
	      "It may have decimals (`1.5s`); a bare `0` needs no unit.\n\n"
	      "Unknown keys, keys that are there twice, anchors, aliases, tags and a second "
	      "document "
	      "are refused.\n\n"
	      "This file is printed from the tables that read the configuration: "
	      "`segard --help-config`.\n",
	      out);
	schema_print_reference(&config_schema, out);
}
