/* Assertions that stay on: for programmer errors only; bad input gets a status, never a check.
 *
 * A failed check prints the expression, its place and, where given, a line on the object at fault,
 * then aborts: the service manager restarts the daemon, and the core dump has the rest.
 */
#pragma once

#include <stdnoreturn.h>

#define CHECK(expr) ((expr) ? (void)0 : check_failed(#expr, __FILE__, __LINE__, "%s", ""))

/* CHECK_MSG(f->refs > 0, "flight %s is gone", flight_state_name(f->state)) */
#define CHECK_MSG(expr, ...)                                                                       \
	((expr) ? (void)0 : check_failed(#expr, __FILE__, __LINE__, __VA_ARGS__))

noreturn void check_failed(const char *expr, const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 4, 5), cold));

/* The object that holds `member`, from a pointer to the member. */
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
