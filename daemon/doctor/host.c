/* This host: the socket, the folder for state, descriptors, the clock. */
#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <unistd.h>

#include "doctor/doctor.h"

enum { DESCRIPTORS_OF_OUR_OWN = 64 };

static void look_at_rights(const struct listen_policy *listen, const struct stat *st,
			   struct doctor_report *report)
{
	unsigned mode = st->st_mode & 0777;
	struct group found, *group = NULL;
	char buf[4096];
	if (listen->group)
		getgrnam_r(listen->group, &found, buf, sizeof(buf), &group);
	struct doctor_finding *finding;
	if (mode != listen->mode || (group && st->st_gid != group->gr_gid)) {
		finding =
			doctor_add(report, DOCTOR_BAD, "listen.socket",
				   "%s has mode %04o and group %u, not what the configuration says",
				   listen->socket, mode, st->st_gid);
		doctor_advise(finding,
			      "under systemd, set SocketMode= and SocketGroup= in segard.socket; "
			      "otherwise restart segard");
		return;
	}
	if (mode & 0002) {
		finding = doctor_add(report, DOCTOR_HINT, "listen.mode",
				     "%04o lets every user connect", mode);
		doctor_advise(
			finding,
			"set listen.mode to 0660 and listen.group to the applications' group");
		return;
	}
	doctor_add(report, DOCTOR_OK, "listen.socket", "%s, mode %04o", listen->socket, mode);
}

static void look_at_socket(const struct config *config, struct doctor_report *report)
{
	const struct listen_policy *listen = &config->listen;
	struct stat st;
	if (stat(listen->socket, &st) == 0 && S_ISSOCK(st.st_mode)) {
		look_at_rights(listen, &st, report);
		return;
	}
	doctor_advise(doctor_add(report, DOCTOR_BAD, "listen.socket", "%s: %s", listen->socket,
				 errno == ENOENT ? "there is no socket" : strerror(errno)),
		      "start segard (systemctl start segard.socket segard), or see that nothing "
		      "has removed "
		      "the socket of the one that runs");
}

static void look_at_state(const struct config *config, struct doctor_report *report)
{
	const char *folder = config->state_dir;
	if (!folder) {
		doctor_advise(doctor_add(report, DOCTOR_HINT, "state_dir", "none"),
			      "set state_dir (StateDirectory=segar gives /var/lib/segar), so that "
			      "a restarted "
			      "daemon keeps its place in the fleet and knows its hot keys");
	} else if (access(folder, W_OK | X_OK) != 0) {
		doctor_advise(doctor_add(report, DOCTOR_BAD, "state_dir", "%s: %s", folder,
					 strerror(errno)),
			      "make the folder, and give it to the user that segard runs as: "
			      "install -d -o segar "
			      "-g segar -m 0700 %s",
			      folder);
	} else {
		doctor_add(report, DOCTOR_OK, "state_dir", "%s", folder);
	}
}

static void look_at_descriptors(const struct config *config, struct doctor_report *report)
{
	struct rlimit limit;
	rlim_t wanted = (rlim_t)config->limits.connections + (rlim_t)config->origin.concurrency +
			DESCRIPTORS_OF_OUR_OWN;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	if (limit.rlim_max < wanted)
		doctor_advise(doctor_add(report, DOCTOR_HINT, "host.descriptors",
					 "%llu may be open, for limits.connections %d",
					 (unsigned long long)limit.rlim_max,
					 config->limits.connections),
			      "LimitNOFILE=%llu in segard.service, or fewer connections",
			      (unsigned long long)wanted);
	else
		doctor_add(report, DOCTOR_OK, "host.descriptors", "%llu may be open",
			   (unsigned long long)limit.rlim_max);
}

void doctor_look_at_host(const struct config *config, struct doctor_report *report)
{
	struct timex timex = { 0 };
	look_at_socket(config, report);
	look_at_state(config, report);
	look_at_descriptors(config, report);
	if (adjtimex(&timex) == TIME_ERROR)
		doctor_advise(doctor_add(report, DOCTOR_HINT, "host.clock",
					 "the kernel says that nothing sets it"),
			      "timedatectl set-ntp true; segar keeps a clock of its own, but logs "
			      "and alerts "
			      "go by this one");
	else
		doctor_add(report, DOCTOR_OK, "host.clock", "it is set by a server of the time");
}
