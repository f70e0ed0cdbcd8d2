-- The schema, the sequence that all versions come from, and the list of tracked tables.
-- Idempotent, like every file here; install.sql runs them in order.

DO $$
DECLARE
	schema_owner name := (SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'segar');
BEGIN
	IF current_setting('server_version_num')::int < 140000 THEN
		RAISE EXCEPTION 'segar needs PostgreSQL 14 or later' USING ERRCODE = 'feature_not_supported';
	END IF;
	-- A schema of someone else's could hold objects that run with our rights.
	IF schema_owner <> current_user THEN
		RAISE EXCEPTION 'schema segar belongs to %', schema_owner
			USING ERRCODE = 'insufficient_privilege',
			HINT = format('SET ROLE %I, then install again.', schema_owner);
	END IF;
END
$$;

CREATE SCHEMA IF NOT EXISTS segar;
COMMENT ON SCHEMA segar IS 'segar: what the cache-refresh daemon needs to know of this database';
GRANT USAGE ON SCHEMA segar TO PUBLIC;

-- Raised by every change of the objects in this schema; the daemon asks for it.
CREATE OR REPLACE FUNCTION segar.schema_version() RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 2;
COMMENT ON FUNCTION segar.schema_version() IS 'which release of segar''s SQL files is installed';

-- One sequence for all rows of all tables, so that a row deleted and inserted again goes on upwards.
-- CACHE 1: a session that kept numbers in stock would hand them out late, behind other sessions.
CREATE SEQUENCE IF NOT EXISTS segar.row_version AS bigint CACHE 1 NO CYCLE;
COMMENT ON SEQUENCE segar.row_version IS 'the versions of all rows of all tracked tables';

CREATE TABLE IF NOT EXISTS segar.tracked (
	relation     regclass NOT NULL,
	key_template text NOT NULL,
	tracked_at   timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE segar.tracked ADD COLUMN IF NOT EXISTS keyspaces text[];
ALTER TABLE segar.tracked ADD COLUMN IF NOT EXISTS notify boolean NOT NULL DEFAULT true;
COMMENT ON TABLE segar.tracked IS 'tables tracked by segar.track, and which keys each of their rows feeds';
COMMENT ON COLUMN segar.tracked.key_template IS
	'such as order:{customer_id}: a keyspace, then its arguments; or the signature of a function that returns keys';
COMMENT ON COLUMN segar.tracked.keyspaces IS 'whose keys the function returns; NULL: it is a template';
COMMENT ON COLUMN segar.tracked.notify IS 'whether a change of the table rings: the same in all rows of one table';

-- In release 1 a table fed one keyspace.
DO $$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_index WHERE indrelid = 'segar.tracked'::regclass AND indisprimary AND indnatts = 2) THEN
		ALTER TABLE segar.tracked DROP CONSTRAINT IF EXISTS tracked_pkey;
		ALTER TABLE segar.tracked ADD PRIMARY KEY (relation, key_template);
	END IF;
END
$$;

-- Everyone may look, as at the system catalogs. Who may write is the installing role's to grant.
GRANT SELECT ON segar.tracked TO PUBLIC;
