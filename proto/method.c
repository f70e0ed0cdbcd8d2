#include "proto/method.h"

#include <inttypes.h>
#include <string.h>

static const struct {
	const char *name, *params, *text;
} methods[] = {
#define X(NAME, name, params, text) [METHOD_##NAME] = { #name, params, text },
	METHOD_MAP(X)
#undef X
};

const struct option_spec options_all[] = {
#define X(name, type, least, most, methods, text)                                                  \
	{ #name, text, type, methods, least, most, offsetof(struct options, name) },
	OPTION_MAP(X)
#undef X
};
const size_t options_count = sizeof(options_all) / sizeof(options_all[0]);

int method_from_name(const char *name, size_t len)
{
	for (int i = 0; i < METHOD_COUNT; i++)
		if (strlen(methods[i].name) == len && memcmp(methods[i].name, name, len) == 0)
			return i;
	return -1;
}

const char *method_name(enum method method)
{
	return methods[method].name;
}

const char *method_params(enum method method)
{
	return methods[method].params;
}

const char *method_text(enum method method)
{
	return methods[method].text;
}

static const struct option_spec *find_option(struct wire_span name)
{
	for (size_t i = 0; i < options_count; i++)
		if (strlen(options_all[i].name) == name.len &&
		    memcmp(options_all[i].name, name.data, name.len) == 0)
			return &options_all[i];
	return NULL;
}

/* Clients whose language has only floats send 1000 as 1000.0. */
static bool number_of(const struct mp_value *value, int64_t *ret_number)
{
	if (value->type == MP_INT) {
		*ret_number = value->number;
		return true;
	}
	if (value->type != MP_FLOAT || !(value->real >= -0x1p53 && value->real <= 0x1p53) ||
	    value->real != (double)(int64_t)value->real)
		return false;
	*ret_number = (int64_t)value->real;
	return true;
}

static enum status option_value(const struct option_spec *option, const struct mp_value *value,
				int64_t *ret_number, struct wire_error *error)
{
	if (value->type == MP_NIL) {
		*ret_number = OPTION_UNSET;
		return STATUS_OK;
	}
	if (option->type == OPTION_FLAG) {
		if (value->type != MP_BOOL)
			return wire_refuse(error, STATUS_BAD_REQUEST,
					   "option %s is %s; it must be a boolean", option->name,
					   mp_type_text(value->type));
		*ret_number = value->boolean;
		return STATUS_OK;
	}
	if (!number_of(value, ret_number))
		return wire_refuse(error, STATUS_BAD_REQUEST,
				   "option %s is %s; it must be an integer", option->name,
				   mp_type_text(value->type));
	if (*ret_number < option->least || *ret_number > option->most)
		return wire_refuse(error, STATUS_BAD_REQUEST,
				   "option %s is %" PRId64 "; it must be %" PRId64 " to %" PRId64,
				   option->name, *ret_number, option->least, option->most);
	return STATUS_OK;
}

int64_t *option_at(struct options *options, const struct option_spec *option)
{
	return (int64_t *)((char *)options + option->offset);
}

static enum status read_trace(const struct option_spec *option, const struct mp_value *value,
			      struct options *options, struct wire_error *error)
{
	const char *why;

	if (value->type != MP_STR && value->type != MP_BIN)
		return wire_refuse(error, STATUS_BAD_REQUEST,
				   "option %s is %s; it must be a string", option->name,
				   mp_type_text(value->type));
	why = trace_parse(value->bytes.data, value->bytes.len, &options->traceparent);
	if (why)
		return wire_refuse(error, STATUS_BAD_REQUEST,
				   "option %s %s; it must be a traceparent", option->name, why);
	options->trace = 1;
	return STATUS_OK;
}

static enum status read_option(struct reader *params, enum method method, struct options *options,
			       unsigned *seen, struct wire_error *error)
{
	const struct option_spec *option;
	char quoted[WIRE_QUOTED_MAX];
	struct mp_value value;
	struct wire_span name;
	unsigned bit;

	if (!reader_text(params, &name))
		return wire_refuse(error, STATUS_BAD_REQUEST, "the name of an option is no string");
	option = find_option(name);
	if (!option || !(option->methods & 1u << method))
		return wire_refuse(error, STATUS_BAD_REQUEST, "%s has no option \"%s\"",
				   method_name(method), wire_quote(name.data, name.len, quoted));
	bit = 1u << (option - options_all);
	if (*seen & bit)
		return wire_refuse(error, STATUS_BAD_REQUEST, "option %s is there twice",
				   option->name);
	*seen |= bit;
	if (!reader_next(params, &value))
		return wire_refuse(error, STATUS_BAD_REQUEST, "option %s has no value",
				   option->name);
	if (option->type == OPTION_TRACE && value.type != MP_NIL)
		return read_trace(option, &value, options, error);
	return option_value(option, &value, option_at(options, option), error);
}

enum status options_read(struct reader *params, enum method method, struct options *ret_options,
			 struct wire_error *error)
{
	struct options options = options_unset();
	unsigned seen = 0;
	struct mp_value head;
	enum status status;

	if (!reader_at_end(params)) {
		if (!reader_next(params, &head) || (head.type != MP_MAP && head.type != MP_NIL))
			return wire_refuse(error, STATUS_BAD_REQUEST,
					   "the options of %s are no map", method_name(method));
		/* Ends with the bytes or at the first repetition, whatever the count claims. */
		for (uint32_t i = 0; i < mp_inside_count(&head) / 2; i++) {
			status = read_option(params, method, &options, &seen, error);
			if (status != STATUS_OK)
				return status;
		}
		if (!reader_at_end(params))
			return wire_refuse(error, STATUS_BAD_REQUEST, "%s has too many params",
					   method_name(method));
	}
	*ret_options = options;
	return STATUS_OK;
}

void options_put(struct wire_buf *b, const struct options *options)
{
	struct options copy = *options;
	uint32_t set = 0;

	for (size_t i = 0; i < options_count; i++)
		set += *option_at(&copy, &options_all[i]) != OPTION_UNSET;
	wire_buf_map(b, set);
	for (size_t i = 0; i < options_count; i++) {
		const int64_t number = *option_at(&copy, &options_all[i]);

		if (number == OPTION_UNSET)
			continue;
		wire_buf_str(b, options_all[i].name);
		if (options_all[i].type == OPTION_NUMBER)
			wire_buf_int(b, number);
		else if (options_all[i].type == OPTION_TRACE)
			wire_buf_str_len(b, options->trace_text.data, options->trace_text.len);
		else
			wire_buf_bool(b, number != 0);
	}
}
