/* Connection strings, before anything connects. */
#pragma once

/* Whether libpq can use the DSN: 0, -EINVAL or -ENOMEM. One that it reads otherwise than it was
   meant is refused, too: of a URI whose password has an unescaped @ or /, part becomes the host or
   the port, which libpq's messages name. Connects to nothing; any thread. */
int dsn_check(const char *dsn) __attribute__((warn_unused_result));
