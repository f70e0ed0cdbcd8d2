-- Key templates: 'order:{customer_id}' says that a row feeds the key order:ARGUMENT of keyspace order.

-- The columns that a template takes its arguments from, in order. Raises where the template is no good:
-- a keyspace's name, then up to 16 arguments, each {column} or literal text in a key's own encoding.
CREATE OR REPLACE FUNCTION segar.template_columns(key_template text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	keyspace CONSTANT text := substring(key_template FROM '^[^:]*');
	rest     text := substr(key_template, length(keyspace) + 1);
	columns  text[] := '{}';
	args     int := 0;
	part     text[];
	problem  text;
BEGIN
	IF keyspace !~ '^[A-Za-z0-9_.-]{1,64}$' THEN
		problem := format('"%s" is no keyspace''s name: 1 to 64 of A-Z a-z 0-9 _ . -', keyspace);
	END IF;
	IF octet_length(key_template) > 1000 THEN
		problem := 'it is longer than 1,000 bytes';
	END IF;
	WHILE problem IS NULL AND rest <> '' LOOP
		-- :{column} or :literal; a brace can stand in neither
		part := regexp_match(rest, '^:(?:\{([^{}]+)\}|([^:{}]+))(?=:|$)');
		args := args + 1;
		IF part IS NULL THEN
			problem := format('"%s" is no argument: {column} or plain text is', rest);
		ELSIF part[2] ~ '%(?!3A|25)' THEN
			problem := format('"%s" has a %% that is neither %%3A nor %%25: nothing else is encoded', part[2]);
		ELSIF args > 16 THEN
			problem := 'a key has at most 16 arguments';
		ELSE
			columns := columns || part[1:1];
			rest := substr(rest, 2 + length(coalesce('{' || part[1] || '}', part[2])));
		END IF;
	END LOOP;
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION 'key template "%": %', left(key_template, 100), problem
			USING ERRCODE = 'invalid_parameter_value',
			HINT = 'A template looks like order:{customer_id}, or like settings for one key in all.';
	END IF;
	RETURN array_remove(columns, NULL);
END
$$;
COMMENT ON FUNCTION segar.template_columns(text) IS 'the columns in a key template; raises if it is malformed';

-- An argument in a key's own encoding.
CREATE OR REPLACE FUNCTION segar.key_argument(argument text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN replace(replace(argument, '%', '%25'), ':', '%3A');
COMMENT ON FUNCTION segar.key_argument(text) IS 'an argument as it stands in a key: with : and % encoded';

-- For functions that return keys. NULL where an argument is: no key has one.
CREATE OR REPLACE FUNCTION segar.key(keyspace text, VARIADIC arguments text[] DEFAULT '{}') RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN array_position(arguments, NULL) IS NULL
	THEN keyspace || coalesce((SELECT string_agg(':' || segar.key_argument(a), '' ORDER BY n)
	                           FROM unnest(arguments) WITH ORDINALITY u (a, n)), '')
END;
COMMENT ON FUNCTION segar.key(text, text[]) IS 'the key of a keyspace with these arguments: key(''order'', ''7'') is order:7';

-- The expression that makes the key of a row called `row_name` (NEW or OLD); NULL where a column is.
CREATE OR REPLACE FUNCTION segar.template_expression(relation regclass, key_template text, row_name text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	keyspace CONSTANT text := substring(key_template FROM '^[^:]*');
	col        text;
	type       regtype;
	expression text := quote_literal(keyspace);
	part       text[];
BEGIN
	PERFORM segar.template_columns(key_template);
	FOR part IN SELECT regexp_matches(substr(key_template, length(keyspace) + 1), ':(?:\{([^{}]+)\}|([^:{}]+))', 'g') LOOP
		expression := expression || ' || ' || quote_literal(':');
		IF part[2] IS NOT NULL THEN
			expression := expression || ' || ' || quote_literal(part[2]);
			CONTINUE;
		END IF;
		SELECT a.atttypid::regtype INTO type FROM pg_attribute a
		WHERE a.attrelid = relation AND a.attname = part[1] AND a.attnum > 0 AND NOT a.attisdropped;
		IF NOT FOUND THEN
			RAISE EXCEPTION 'key template "%": % has no column "%"', key_template, relation, part[1]
				USING ERRCODE = 'undefined_column';
		END IF;
		col := format('%s.%I::text', row_name, part[1]);
		IF type NOT IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype, 'oid'::regtype,
		                'uuid'::regtype, 'boolean'::regtype, 'date'::regtype) THEN
			col := format('segar.key_argument(%s)', col);
		END IF;
		expression := expression || ' || ' || col;
	END LOOP;
	RETURN expression;
END
$$;
COMMENT ON FUNCTION segar.template_expression(regclass, text, text) IS 'the SQL expression of a template''s key';
