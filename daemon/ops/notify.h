/* What the service manager is told: sd_notify(3), where segard was built with libsystemd and runs
 * under a manager that listens; else nothing. The loop's thread.
 */
#pragma once

void notify_ready(const char *status);
void notify_stopping(void);
