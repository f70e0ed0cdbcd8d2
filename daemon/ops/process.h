/* What the system says of this process. 0 where it does not. Any thread.
 */
#pragma once

#include <stdint.h>

double process_cpu_seconds(void); /* used since its start */
uint64_t process_resident_bytes(void);
uint64_t process_open_files(void);
uint64_t process_files_max(void);
