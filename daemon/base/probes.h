/* Probes for bpftrace, perf, SystemTap and gdb (USDT), of the provider `segar`: what
 * docs/TRACING.md lists, in the places where it happens. Each is one instruction that does nothing,
 * and a note in the program that says where it is and where its arguments are; without <sys/sdt.h>
 * it is nothing.
 *
 * An argument must be at hand already: it is computed whether or not anyone looks.
 */
#pragma once

#ifdef HAVE_SDT
#include <sys/sdt.h>
#define PROBE1(name, a)       DTRACE_PROBE1(segar, name, a)
#define PROBE3(name, a, b, c) DTRACE_PROBE3(segar, name, a, b, c)
#else
#define PROBE1(name, a)       ((void)(a))
#define PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif
