-- The trigger that gives each row its version.

-- BEFORE UPDATE triggers run with the row locked, so one row's versions grow in the order of commits.
-- Runs with the owner's rights: whoever writes to a tracked table needs none in this schema.
-- What the statement itself says about row_version is overwritten: it could only go back.
CREATE OR REPLACE FUNCTION segar.set_row_version() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	NEW.row_version := nextval('segar.row_version');
	RETURN NEW;
END
$$;
COMMENT ON FUNCTION segar.set_row_version() IS 'trigger: gives each row that is written a new version';
