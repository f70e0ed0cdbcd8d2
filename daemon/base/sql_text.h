/* Reads SQL text part by part, by PostgreSQL's lexical rules (section 4.1 of its manual), with
 * standard_conforming_strings on. Whatever comes is read to its end: what is not closed ends there.
 * Pure; any thread.
 */
#pragma once

/* The end of what begins here: a name, a string, a comment, the number of a parameter, or one byte.
   `at` is not at the end of the text. */
const char *sql_text_skip(const char *at);

/* Past white space and comments, if there are any. */
const char *sql_text_skip_blank(const char *at);
