#include "ops/process.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

static double seconds_of(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

double process_cpu_seconds(void)
{
	struct rusage usage;
	if (getrusage(RUSAGE_SELF, &usage) != 0)
		return 0;
	return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

uint64_t process_resident_bytes(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	if (!file)
		return 0;
	if (fscanf(file, "%*u %lu", &pages) != 1)
		pages = 0;
	fclose(file);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t process_open_files(void)
{
	uint64_t count = 0;
	DIR *dir = opendir("/proc/self/fd");
	if (!dir)
		return 0;
	while (readdir(dir))
		count++;
	closedir(dir);
	return count > 3 ? count - 3 : 0; /* ".", ".." and the folder's own */
}

uint64_t process_files_max(void)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}
