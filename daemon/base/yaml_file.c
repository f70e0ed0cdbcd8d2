#include "base/yaml_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/mem.h"

static const struct config_place whole_file = { 0, 0 };

static struct config_place place_of(yaml_mark_t mark)
{
	return (struct config_place){ .line = (int)mark.line + 1, .column = (int)mark.column + 1 };
}

/* 0 when `fd` is a regular file. */
static int read_check(int fd, struct config_errors *errors)
{
	struct stat st;
	if (fstat(fd, &st) < 0) {
		config_error(errors, whole_file, "cannot be examined: %s", strerror(errno));
		return -errno;
	}
	if (S_ISDIR(st.st_mode)) {
		config_error(errors, whole_file, "is a directory; expected a YAML file");
		return -EISDIR;
	}
	if (!S_ISREG(st.st_mode)) {
		config_error(errors, whole_file, "is not a regular file; expected a YAML file");
		return -EINVAL;
	}
	return 0;
}

/* Fills `text` to its end or the file's; the number of bytes, or a negative errno. */
static ssize_t read_all(int fd, char *text, size_t size)
{
	size_t len = 0;
	while (len < size) {
		ssize_t n = read(fd, text + len, size - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

static int read_open_file(int fd, char **ret_text, size_t *ret_len, struct config_errors *errors)
{
	int r = read_check(fd, errors);
	if (r < 0)
		return r;
	char *text = mem_alloc(CONFIG_BYTES_MAX + 1);
	if (!text) {
		config_error(errors, whole_file, "out of memory");
		return -ENOMEM;
	}
	ssize_t len = read_all(fd, text, CONFIG_BYTES_MAX + 1);
	if (len < 0) {
		config_error(errors, whole_file, "cannot be read: %s", strerror((int)-len));
		r = (int)len;
		goto free_text;
	}
	if (len > CONFIG_BYTES_MAX) {
		config_error(errors, whole_file, "is too large; expected at most %d bytes",
			     CONFIG_BYTES_MAX);
		r = -EFBIG;
		goto free_text;
	}
	*ret_text = text;
	*ret_len = (size_t)len;
	return 0;

free_text:
	mem_free(text);
	return r;
}

int yaml_file_read(const char *path, char **ret_text, size_t *ret_len, struct config_errors *errors)
{
	/* Not to hang on a FIFO: whether it is a regular file is known only once it is open. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		int error = errno;
		config_error(errors, whole_file, "cannot be opened: %s", strerror(error));
		return -error;
	}
	int r = read_open_file(fd, ret_text, ret_len, errors);
	close(fd);
	return r;
}

/* The place of byte `offset`: libyaml gives no line for bytes it could not decode. */
static struct config_place place_of_offset(const char *text, size_t len, size_t offset)
{
	struct config_place place = { 1, 1 };
	for (size_t i = 0; i < len && i < offset; i++) {
		if (text[i] == '\n') {
			place.line++;
			place.column = 1;
		} else if ((text[i] & 0xC0) != 0x80) {
			place.column++;
		}
	}
	return place;
}

/* The byte at a place, 0 behind the end. */
static char byte_at(const char *text, size_t len, yaml_mark_t mark)
{
	size_t i = 0;
	for (size_t line = 0; i < len && line < mark.line; i++)
		line += text[i] == '\n';
	for (size_t column = 0; i < len && column < mark.column; column++)
		for (i++; i < len && (text[i] & 0xC0) == 0x80; i++)
			;
	return i < len ? text[i] : '\0';
}

static int parse_failed(const yaml_parser_t *parser, const char *text, size_t len,
			struct config_errors *errors)
{
	if (parser->error == YAML_MEMORY_ERROR) {
		config_error(errors, whole_file, "out of memory");
		return -ENOMEM;
	}
	if (parser->error == YAML_COMPOSER_ERROR && errors->errors.count > 0)
		return -EINVAL; /* about an anchor or alias, which the vetting has refused already
				 */
	const char *problem = parser->problem ? parser->problem : "unknown problem";
	if (parser->error == YAML_READER_ERROR)
		config_error(errors, place_of_offset(text, len, parser->problem_offset),
			     "%s; expected text in UTF-8", problem);
	else if (byte_at(text, len, parser->problem_mark) == '\t')
		config_error(errors, place_of(parser->problem_mark),
			     "a tab indents this line; expected spaces, as YAML wants them");
	else if (parser->context)
		config_error(errors, place_of(parser->problem_mark),
			     "%s (%s that begins on line %d); expected YAML", problem,
			     parser->context, (int)parser->context_mark.line + 1);
	else
		config_error(errors, place_of(parser->problem_mark), "%s; expected YAML", problem);
	return -EINVAL;
}

static int parser_init(yaml_parser_t *parser, const char *text, size_t len,
		       struct config_errors *errors)
{
	if (!yaml_parser_initialize(parser)) {
		config_error(errors, whole_file, "out of memory");
		return -ENOMEM;
	}
	yaml_parser_set_input_string(parser, (const unsigned char *)text, len);
	yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
	return 0;
}

/* What has been seen of the events so far. */
struct vetting {
	struct config_errors *errors;
	int documents;
	int depth;
};

static void vet_marks(struct vetting *vetting, yaml_mark_t mark, const yaml_char_t *anchor,
		      const yaml_char_t *tag)
{
	if (anchor)
		config_error(vetting->errors, place_of(mark),
			     "anchors (&%.40s) are refused; expected each value written out",
			     (const char *)anchor);
	if (tag)
		config_error(vetting->errors, place_of(mark),
			     "tags (%.40s) are refused; expected a plain value", (const char *)tag);
}

static int vet_open(struct vetting *vetting, yaml_mark_t mark)
{
	if (++vetting->depth <= CONFIG_DEPTH_MAX)
		return 0;
	config_error(vetting->errors, place_of(mark),
		     "is nested too deeply; expected at most %d levels", CONFIG_DEPTH_MAX);
	return -EINVAL;
}

/* The root of the first document must be a mapping; there must be no second one. */
static int vet_place(struct vetting *vetting, const yaml_event_t *event)
{
	if (event->type == YAML_DOCUMENT_START_EVENT && ++vetting->documents > 1) {
		config_error(vetting->errors, place_of(event->start_mark),
			     "a second document begins here; expected one");
		return -EINVAL;
	}
	bool is_root =
		vetting->documents == 1 && vetting->depth == 0 &&
		(event->type == YAML_SCALAR_EVENT || event->type == YAML_SEQUENCE_START_EVENT);
	if (is_root) {
		config_error(vetting->errors, place_of(event->start_mark),
			     "is not a mapping; expected keys such as origin: and keyspaces:");
		return -EINVAL;
	}
	return 0;
}

static int vet_event(struct vetting *vetting, const yaml_event_t *event)
{
	int r = vet_place(vetting, event);
	if (r < 0)
		return r;
	switch (event->type) {
	case YAML_ALIAS_EVENT:
		config_error(vetting->errors, place_of(event->start_mark),
			     "aliases (*%.40s) are refused; expected each value written out",
			     (const char *)event->data.alias.anchor);
		return 0;
	case YAML_SCALAR_EVENT:
		vet_marks(vetting, event->start_mark, event->data.scalar.anchor,
			  event->data.scalar.tag);
		return 0;
	case YAML_SEQUENCE_START_EVENT:
		vet_marks(vetting, event->start_mark, event->data.sequence_start.anchor,
			  event->data.sequence_start.tag);
		return vet_open(vetting, event->start_mark);
	case YAML_MAPPING_START_EVENT:
		vet_marks(vetting, event->start_mark, event->data.mapping_start.anchor,
			  event->data.mapping_start.tag);
		return vet_open(vetting, event->start_mark);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		vetting->depth--;
		return 0;
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_STREAM_END_EVENT:
	case YAML_DOCUMENT_START_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		return 0;
	}
	CHECK(!"an event that libyaml does not have");
	return -EINVAL;
}

/* Walks the events before any tree is built: the text is known to be one shallow document then. */
static int parse_vet(const char *text, size_t len, struct config_errors *errors)
{
	yaml_parser_t parser;
	int r = parser_init(&parser, text, len, errors);
	if (r < 0)
		return r;
	struct vetting vetting = { .errors = errors };
	bool ended = false;
	while (r == 0 && !ended) {
		yaml_event_t event;
		if (!yaml_parser_parse(&parser, &event)) {
			r = parse_failed(&parser, text, len, errors);
			break;
		}
		r = vet_event(&vetting, &event);
		ended = event.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&event);
	}
	if (r == 0 && vetting.documents == 0) {
		config_error(errors, whole_file,
			     "is empty; expected keys such as origin: and keyspaces:");
		r = -EINVAL;
	}
	yaml_parser_delete(&parser);
	return r;
}

int yaml_file_parse(const char *text, size_t len, yaml_document_t *ret_document,
		    struct config_errors *errors)
{
	int r = parse_vet(text, len, errors);
	if (r < 0)
		return r;
	yaml_parser_t parser;
	r = parser_init(&parser, text, len, errors);
	if (r < 0)
		return r;
	if (!yaml_parser_load(&parser, ret_document))
		r = parse_failed(&parser, text, len, errors);
	yaml_parser_delete(&parser);
	return r;
}
