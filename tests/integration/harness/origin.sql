-- What the daemon reads in the tests: tables, and functions through which a test watches and steers
-- each build. A keyspace's query calls one; the function
--   1. logs "build KEYSPACE ARG", which Postgres.builds() counts: no rollback and no crash undoes that,
--   2. reads its row,
--   3. does what the table `behaviour` says for the keyspace: waits at a gate, sleeps, fails.

CREATE TABLE behaviour (
	keyspace text PRIMARY KEY,
	gate     bigint,   -- an advisory lock that a test holds: the build waits until it lets go
	delay_s  float8,
	error    text
);

CREATE TABLE items (id bigint PRIMARY KEY, value text, row_version bigint NOT NULL);
INSERT INTO items SELECT i, 'item ' || i, i FROM generate_series(1, 10000) i;

CREATE TABLE texts (id text PRIMARY KEY, value text);
CREATE TABLE blobs (id text PRIMARY KEY, value bytea);

CREATE FUNCTION build_begins(keyspace text, arg text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	RAISE LOG 'build % %', keyspace, arg;
END
$$;

CREATE FUNCTION build_behaves(of_keyspace text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	b behaviour;
BEGIN
	SELECT * INTO b FROM behaviour WHERE keyspace = of_keyspace;
	IF b.gate IS NOT NULL THEN
		PERFORM pg_advisory_xact_lock_shared(b.gate);
	END IF;
	IF b.delay_s > 0 THEN
		PERFORM pg_sleep(b.delay_s);
	END IF;
	IF b.error IS NOT NULL THEN
		RAISE EXCEPTION '%', b.error;
	END IF;
END
$$;

-- keyspace item: one row of items, ordered by version
CREATE FUNCTION item(item_id bigint) RETURNS TABLE (value text, version bigint) LANGUAGE plpgsql AS $$
DECLARE
	exists_already bool;
BEGIN
	PERFORM build_begins('item', item_id::text);
	SELECT i.value, i.row_version INTO value, version FROM items i WHERE i.id = item_id;
	exists_already := FOUND;
	PERFORM build_behaves('item');
	IF exists_already THEN
		RETURN NEXT;
	END IF;
END
$$;

-- keyspace text: any text as argument
CREATE FUNCTION text_of(text_id text) RETURNS TABLE (value text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM build_begins('text', text_id);
	RETURN QUERY SELECT t.value FROM texts t WHERE t.id = text_id;
	PERFORM build_behaves('text');
END
$$;

-- keyspace blob: bytes, whatever their number
CREATE FUNCTION blob(blob_id text) RETURNS TABLE (value bytea) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM build_begins('blob', blob_id);
	RETURN QUERY SELECT b.value FROM blobs b WHERE b.id = blob_id;
	PERFORM build_behaves('blob');
END
$$;

-- keyspace sized: as many bytes as the argument says
CREATE FUNCTION sized(bytes int) RETURNS TABLE (value text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM build_begins('sized', bytes::text);
	value := repeat('x', bytes);
	PERFORM build_behaves('sized');
	RETURN NEXT;
END
$$;

-- keyspace many: items, one by one or many at once; logs each build and each statement. Item 666 fails.
CREATE FUNCTION many_of(ids bigint[]) RETURNS TABLE (key text, value text, version bigint) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM build_begins('statement', cardinality(ids)::text);
	PERFORM build_begins('many', id::text) FROM unnest(ids) id;
	IF 666 = ANY(ids) THEN
		RAISE division_by_zero;
	END IF;
	RETURN QUERY SELECT i.id::text, i.value, i.row_version FROM items i WHERE i.id = ANY(ids);
	PERFORM build_behaves('many');
END
$$;

CREATE FUNCTION many(item_id bigint) RETURNS TABLE (value text, version bigint) LANGUAGE sql AS $$
	SELECT m.value, m.version FROM many_of(ARRAY[item_id]) m
$$;

-- The role of the daemon.
CREATE ROLE segard LOGIN;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO segard;
