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
	IF octet_length(key_template) > 16384 THEN
		problem := 'no key is longer than 16 KiB';
	END IF;
	WHILE problem IS NULL AND rest <> '' LOOP
		-- :{column} or :literal; a brace can stand in neither
		part := regexp_match(rest, '^:(?:\{([^{}]+)\}|([^:{}]+))(?=:|$)');
		args := args + 1;
		IF part IS NULL THEN
			problem := format('"%s" is no argument: {column} or plain text is', rest);
		ELSIF part[2] ~ '%(?![0-9A-Fa-f]{2})' THEN
			problem := format('"%s" has a %% that two hex digits do not follow', part[2]);
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
