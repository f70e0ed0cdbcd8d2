#include "client/ctl_screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* Without a cursor; characters that are two wide must not flow into the next line. */
#define SECOND_SCREEN "\x1b[?1049h\x1b[?25l\x1b[?7l"
#define FIRST_SCREEN  "\x1b[?7h\x1b[?25h\x1b[?1049l"
#define HOME          "\x1b[H"
#define REST_OF_LINE  "\x1b[K"
#define REST          "\x1b[J"

enum { ROWS_USUAL = 24, COLUMNS_USUAL = 80 };

static struct termios before, silent; /* the terminal's settings: as found, and ours */
static volatile sig_atomic_t ended, resized;
static char *picture;
static size_t picture_len;

static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

static void on_end(int number)
{
	(void)number;
	ended = 1;
}

static void on_resize(int number)
{
	(void)number;
	resized = 1;
}

/* ^Z: the shell finds the terminal as it was, and fg brings the screen back. Only calls that a
 * signal's handler may make. */
static void on_stop(int number)
{
	int saved_errno = errno;
	ssize_t n = write(STDOUT_FILENO, FIRST_SCREEN, strlen(FIRST_SCREEN));
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
	raise(SIGSTOP);
	tcsetattr(STDIN_FILENO, TCSANOW, &silent);
	n = write(STDOUT_FILENO, SECOND_SCREEN, strlen(SECOND_SCREEN));
	(void)n, (void)number;
	resized = 1;
	errno = saved_errno;
}

bool screen_is_there(void)
{
	const char *kind = getenv("TERM");
	return kind && *kind && strcmp(kind, "dumb") != 0 && isatty(STDIN_FILENO) &&
	       isatty(STDOUT_FILENO);
}

static void write_out(const char *bytes, size_t len)
{
	fwrite(bytes, 1, len, stdout);
	fflush(stdout);
}

bool screen_open(void)
{
	if (tcgetattr(STDIN_FILENO, &before) != 0)
		return false;
	/* Without SA_RESTART: they end a wait. */
	struct sigaction action = { .sa_handler = on_end };
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaction(ends[i], &action, NULL);
	action.sa_handler = on_resize;
	sigaction(SIGWINCH, &action, NULL);
	action.sa_handler = on_stop;
	silent = before;
	silent.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	if (tcsetattr(STDIN_FILENO, TCSANOW, &silent) != 0)
		return false;
	sigaction(SIGTSTP, &action, NULL);
	write_out(SECOND_SCREEN, strlen(SECOND_SCREEN));
	return true;
}

void screen_close(void)
{
	write_out(FIRST_SCREEN, strlen(FIRST_SCREEN));
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

bool screen_wait(int64_t ms)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	char key;
	if (ended)
		return false;
	int ready = poll(&input, 1, (int)ms);
	if (ready < 0)
		return errno == EINTR && !ended;
	if (ready > 0 && (read(STDIN_FILENO, &key, 1) != 1 || key == 'q'))
		return false;
	return !ended;
}

FILE *screen_begin(void)
{
	return open_memstream(&picture, &picture_len);
}

static void size_of_terminal(int *ret_rows, int *ret_columns)
{
	struct winsize size;
	bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col;
	*ret_rows = known ? size.ws_row : ROWS_USUAL;
	*ret_columns = known ? size.ws_col : COLUMNS_USUAL;
}

uint32_t screen_rows(void)
{
	int rows, columns;
	size_of_terminal(&rows, &columns);
	return (uint32_t)rows;
}

/* The length of what fits into so many columns; in UTF-8, each character is taken for one wide. */
static size_t cut(const char *line, size_t len, int columns)
{
	size_t at = 0;
	for (; at < len; at++) {
		bool begins = ((unsigned char)line[at] & 0xc0) != 0x80;
		if (begins && columns-- == 0)
			break;
	}
	return at;
}

void screen_end(FILE *out)
{
	int rows, columns;
	bool whole = fclose(out) == 0;
	size_of_terminal(&rows, &columns);
	resized = 0;
	fputs(HOME, stdout);
	const char *at = picture, *end = whole ? picture + picture_len : picture;
	for (int row = 0; row < rows && at < end; row++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((newline ? newline : end) - at);
		if (row > 0)
			fputs("\r\n", stdout);
		fwrite(at, 1, cut(at, len, columns), stdout);
		fputs(REST_OF_LINE, stdout);
		at = newline ? newline + 1 : end;
	}
	write_out(REST, strlen(REST));
	free(picture);
	picture = NULL;
}
