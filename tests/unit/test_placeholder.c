#include "origin/placeholder.h"

#include <criterion/criterion.h>

#include "base/mem.h"

static void assert_replaced(const char *query, const char *expected)
{
	char *sql = placeholder_replace(query, "<>");
	cr_assert_str_eq(sql, expected);
	mem_free(sql);
}

Test(placeholder, the_first_parameter_is_replaced_wherever_it_stands)
{
	assert_replaced("$1", "<>");
	assert_replaced("id = ANY($1)", "id = ANY(<>)");
	assert_replaced("$1::int[] || $1", "<>::int[] || <>");
	assert_replaced("($01)", "(<>)");
	assert_replaced("1+$1-2", "1+<>-2");
	assert_replaced("a/$1*2", "a/<>*2");
	assert_replaced("'a'$1", "'a'<>");
	assert_replaced("", "");
}

Test(placeholder, other_parameters_stay)
{
	assert_replaced("$2 $10 $11 $12 $0", "$2 $10 $11 $12 $0");
}

Test(placeholder, what_only_looks_like_it_stays)
{
	assert_replaced("'$1' $1", "'$1' <>");
	assert_replaced("'it''s $1' $1", "'it''s $1' <>");
	assert_replaced("'\\' $1", "'\\' <>");
	assert_replaced("E'\\'$1' $1", "E'\\'$1' <>");
	assert_replaced("e'\\\\' $1", "e'\\\\' <>");
	assert_replaced("E'a'\n  '\\'$1' $1", "E'a'\n  '\\'$1' <>");
	assert_replaced("E'a' '\\' $1", "E'a' '\\' <>");
	assert_replaced("type'\\' $1", "type'\\' <>");
	assert_replaced("\"$1\" \"a\"\"$1\" $1", "\"$1\" \"a\"\"$1\" <>");
	assert_replaced("-- $1\n$1 -- $1", "-- $1\n<> -- $1");
	assert_replaced("/* $1 /* $1 */ $1 */ $1", "/* $1 /* $1 */ $1 */ <>");
	assert_replaced("$$ $1 $$ $1", "$$ $1 $$ <>");
	assert_replaced("$a$ $1 $b$ $1 $$ $a$ $1", "$a$ $1 $b$ $1 $$ $a$ <>");
	assert_replaced("a$1 _$1 é$1 $1", "a$1 _$1 é$1 <>");
	assert_replaced("a$b$1 $1", "a$b$1 <>");
}

Test(placeholder, what_does_not_end_is_passed_on)
{
	assert_replaced("'$1", "'$1");
	assert_replaced("\"$1", "\"$1");
	assert_replaced("/* $1", "/* $1");
	assert_replaced("$a$ $1", "$a$ $1");
	assert_replaced("E'\\", "E'\\");
	assert_replaced("$", "$");
	assert_replaced("$a", "$a");
}

Test(placeholder, without_memory_there_is_none)
{
	mem_fail_at(1);
	cr_assert_null(placeholder_replace("$1", "<>"));
	mem_fail_at(0);
}
