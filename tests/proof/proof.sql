-- What the fleet of the proof reads. Each value says of itself when its build began, by the origin's clock, of which
-- version, key and timeline it is: whoever gets it knows what was served, without asking the daemon. Each build logs its
-- begin and its end, which no rollback and no crash undoes.

CREATE TABLE rows (id bigint PRIMARY KEY, touched bigint NOT NULL DEFAULT 0);
CREATE TABLE items (id bigint PRIMARY KEY, touched bigint NOT NULL DEFAULT 0);

-- How long a keyspace's builds take.
CREATE TABLE pace (keyspace text PRIMARY KEY, seconds float8 NOT NULL);

CREATE FUNCTION now_us() RETURNS bigint LANGUAGE sql AS $$
	SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

CREATE FUNCTION make_value(begun bigint, version bigint, row_id bigint) RETURNS text LANGUAGE sql AS $$
	SELECT rpad(concat_ws(' ', begun, version, row_id,
		('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int, ''), 100, '.')
$$;

-- Keyspaces hot, soft and hard; a build takes what its pace says.
CREATE FUNCTION build_row(keyspace_ text, row_id bigint) RETURNS TABLE (value text, version bigint) LANGUAGE plpgsql AS $$
DECLARE
	begun bigint := now_us();
BEGIN
	RAISE LOG 'proof begin % % %', keyspace_, row_id, begun;
	SELECT r.row_version INTO version FROM rows r WHERE r.id = row_id;
	value := make_value(begun, version, row_id);
	PERFORM pg_sleep(p.seconds) FROM pace p WHERE p.keyspace = keyspace_;
	RAISE LOG 'proof end % % %', keyspace_, row_id, now_us();
	IF version IS NOT NULL THEN
		RETURN NEXT;
	END IF;
END
$$;

CREATE FUNCTION build_item(row_id bigint) RETURNS TABLE (value text, version bigint) LANGUAGE plpgsql AS $$
DECLARE
	begun bigint := now_us();
BEGIN
	RAISE LOG 'proof begin item % %', row_id, begun;
	SELECT i.row_version INTO version FROM items i WHERE i.id = row_id;
	value := make_value(begun, version, row_id);
	PERFORM pg_sleep(p.seconds) FROM pace p WHERE p.keyspace = 'item';
	RAISE LOG 'proof end item % %', row_id, now_us();
	IF version IS NOT NULL THEN
		RETURN NEXT;
	END IF;
END
$$;

CREATE ROLE segard LOGIN;
