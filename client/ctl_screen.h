/* A screen that is shown again and again: the terminal's second one, so that the first is as it was
 * when it is left. Lines that are too long or too many are cut.
 *
 * One a process: screen_open … screen_close. Signals that end the process, and the key q, end
 * screen_wait first.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Whether standard input and output are a terminal. */
bool screen_is_there(void);

/* False, with the terminal as it was, if it is none that can be used. */
bool screen_open(void);
void screen_close(void);

/* Waits; less if the terminal's size changes. False: enough was seen. */
bool screen_wait(int64_t ms);

/* How many lines fit. */
uint32_t screen_rows(void);

/* Where the next picture is written, or NULL without memory; screen_end shows it, and frees it. */
FILE *screen_begin(void);
void screen_end(FILE *out);
