-- What the daemons need to follow the log: how far each fleet has read, and the log's trimming.

CREATE TABLE IF NOT EXISTS segar.fleets (
	name     text PRIMARY KEY,
	history  text NOT NULL,
	position pg_snapshot NOT NULL,
	moved_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE segar.fleets IS 'how far each fleet of daemons has read segar.changes; the log keeps what one of them has not';
COMMENT ON COLUMN segar.fleets.name IS 'the daemons'' store.prefix';
COMMENT ON COLUMN segar.fleets.history IS 'the incarnation of this database, as the daemons know it';
COMMENT ON COLUMN segar.fleets.position IS 'what was visible in this snapshot has been applied';

-- What has been trimmed: a position that does not see these transactions has lost some of its log.
CREATE TABLE IF NOT EXISTS segar.trimmed (
	is_all boolean PRIMARY KEY DEFAULT true CHECK (is_all),
	before_xid xid8 NOT NULL DEFAULT '0'
);
INSERT INTO segar.trimmed DEFAULT VALUES ON CONFLICT DO NOTHING;
COMMENT ON TABLE segar.trimmed IS 'before which transaction segar.changes may have been trimmed';

-- Moves a fleet's position, unless another daemon has moved it meanwhile: then it says false.
-- `was` NULL: the fleet is new.
CREATE OR REPLACE FUNCTION segar.move_fleet(fleet text, of_history text, was pg_snapshot, now_at pg_snapshot) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF was IS NULL THEN
		INSERT INTO segar.fleets (name, history, position) VALUES (fleet, of_history, now_at) ON CONFLICT DO NOTHING;
	ELSE
		UPDATE segar.fleets f SET history = of_history, position = now_at, moved_at = now()
		WHERE f.name = fleet AND f.position::text = was::text;
	END IF;
	RETURN FOUND;
END
$$;
COMMENT ON FUNCTION segar.move_fleet(text, text, pg_snapshot, pg_snapshot) IS 'how far a fleet has read now, compared and set';

-- Removes at most `most` rows that are older than `retention` and that every fleet has read; how many.
CREATE OR REPLACE FUNCTION segar.trim_changes(retention interval, most int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	-- Transactions before this one have ended, and all fleets have read what they logged.
	-- (There is no min() of xid8 before PostgreSQL 15.)
	horizon CONSTANT xid8 := (
		SELECT pg_snapshot_xmin(f.position) AS x FROM segar.fleets f
		UNION ALL SELECT pg_snapshot_xmin(pg_current_snapshot())
		ORDER BY x LIMIT 1);
	gone   int;
	newest xid8;
BEGIN
	-- One at a time: two would only wait for each other's rows.
	IF NOT pg_try_advisory_xact_lock('segar.changes'::regclass::oid::int, 0) THEN
		RETURN 0;
	END IF;
	WITH old AS (
		SELECT c.ctid FROM segar.changes c
		WHERE c.xid < horizon AND c.changed_at < now() - retention
		ORDER BY c.xid LIMIT most
	), dead AS (
		DELETE FROM segar.changes c WHERE c.ctid = ANY (ARRAY(SELECT ctid FROM old)) RETURNING c.xid
	)
	SELECT count(*), (array_agg(xid ORDER BY xid DESC))[1] INTO gone, newest FROM dead;
	UPDATE segar.trimmed SET before_xid = (newest::text::numeric + 1)::text::xid8
	WHERE newest IS NOT NULL AND before_xid <= newest;
	RETURN gone;
END
$$;
COMMENT ON FUNCTION segar.trim_changes(interval, int) IS 'removes what has been read and is older than that';

-- Lets a role follow the log: the daemons'. For the owner of this schema to call.
CREATE OR REPLACE FUNCTION segar.allow_feed(reader regrole) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	EXECUTE format('GRANT SELECT ON segar.changes, segar.fleets, segar.trimmed TO %s', reader);
	EXECUTE format('GRANT EXECUTE ON FUNCTION segar.move_fleet(text, text, pg_snapshot, pg_snapshot), '
		'segar.trim_changes(interval, int) TO %s', reader);
END
$$;
COMMENT ON FUNCTION segar.allow_feed(regrole) IS 'lets the daemons'' role follow the log of changes';

REVOKE EXECUTE ON FUNCTION segar.move_fleet(text, text, pg_snapshot, pg_snapshot),
	segar.trim_changes(interval, int) FROM PUBLIC;
