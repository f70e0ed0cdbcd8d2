#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ops/spooler_state.h"

/* The job, and which of its spools. */
static const char FILE_FORM[] = "warm-%016" PRIx64 "-%016" PRIx64 ".keys";

bool spooling_path(const struct spooling *spooling, uint64_t spool, char ret_path[SPOOL_PATH_MAX])
{
	const struct config *config = *spooling->spooler->options.config;
	char name[80];
	snprintf(name, sizeof(name), FILE_FORM, spooling->id, spool);
	if (!config->state_dir)
		return false;
	snprintf(ret_path, SPOOL_PATH_MAX, "%.4000s/%s", config->state_dir, name);
	return true;
}

void spooling_drop_spool(struct spooling *spooling)
{
	spool_end(spooling->spool);
	spooling->spool = NULL;
	if (spooling->fd >= 0)
		close(spooling->fd);
	spooling->fd = -1;
}

void spooling_drop_file(const struct spooling *spooling)
{
	char path[SPOOL_PATH_MAX];
	if (!spooling->keys && spooling_path(spooling, spooling->spool_id, path))
		unlink(path);
}

bool spooling_open_file(struct spooling *spooling)
{
	char path[SPOOL_PATH_MAX];
	struct stat info;
	if (!spooling_path(spooling, spooling->spool_id, path))
		return false;
	spooling->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (spooling->fd < 0)
		return false;
	spooling->size = fstat(spooling->fd, &info) == 0 ? info.st_size : 0;
	return true;
}

void spooler_sweep(struct spooler *spooler)
{
	const struct config *config = *spooler->options.config;
	char path[SPOOL_PATH_MAX];
	struct dirent *entry;
	uint64_t id, spool;
	DIR *dir = config->state_dir ? opendir(config->state_dir) : NULL;
	spooler->swept = true;
	while (dir && (entry = readdir(dir))) {
		bool runs = false;
		if (sscanf(entry->d_name, "warm-%16" SCNx64 "-%16" SCNx64 ".keys", &id, &spool) !=
		    2)
			continue;
		list_foreach (&spooler->options.warmer->jobs, node)
			runs |= container_of(node, struct warmer_job, node)->job.id == id;
		list_foreach (&spooler->spoolings, node)
			runs |= container_of(node, struct spooling, node)->id == id;
		if (runs)
			continue;
		snprintf(path, sizeof(path), "%.4000s/%.160s", config->state_dir, entry->d_name);
		unlink(path);
	}
	if (dir)
		closedir(dir);
}
