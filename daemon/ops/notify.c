#include "ops/notify.h"

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>

void notify_ready(const char *status)
{
	sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void notify_stopping(void)
{
	sd_notify(0, "STOPPING=1");
}
#else
void notify_ready(const char *status)
{
	(void)status;
}

void notify_stopping(void)
{
}
#endif
