-- Installs segar's SQL side, or brings it up to date: psql -f install.sql DATABASE
-- See README.md for who may run it and what it needs. All or nothing: one transaction.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
BEGIN;
\ir 01_schema.sql
\ir 02_version.sql
\ir 03_template.sql
\ir 04_track.sql
\ir 05_changes.sql
\ir 06_feed.sql
-- What an older release tracked has no log yet: that takes each table's owner, and a lock on it.
DO $$
DECLARE
	unlogged text := (SELECT string_agg(format('%s', t.relation), ', ') FROM segar.tracked t
		WHERE EXISTS (SELECT FROM pg_class c WHERE c.oid = t.relation) AND NOT EXISTS (
			SELECT FROM pg_trigger g WHERE g.tgrelid = t.relation AND g.tgname = 'zz_segar_changes'));
BEGIN
	IF unlogged IS NOT NULL THEN
		RAISE WARNING 'changes are not logged yet of: %', unlogged
			USING HINT = 'SELECT segar.track(relation, key_template) FROM segar.tracked logs them.';
	END IF;
END
$$;
COMMIT;
