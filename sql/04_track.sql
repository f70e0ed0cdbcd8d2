-- segar.track, segar.untrack and segar.use_notify: the functions that people call.
--
-- All run with the caller's rights: it takes the owner of the table to change it, and a grant on
-- segar.tracked to register it. Calls on one table queue up.

-- Each sees what the one before it has registered, and so makes a trigger for all of it. In a transaction
-- with one snapshot for all its statements it would not, and leave out the other's mapping.
CREATE OR REPLACE FUNCTION segar.queue_up(relation regclass) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
		RAISE EXCEPTION 'tracking does not go under isolation level %', current_setting('transaction_isolation')
			USING ERRCODE = 'invalid_transaction_state',
			DETAIL = 'It could leave out what others have tracked meanwhile.',
			HINT = 'BEGIN ISOLATION LEVEL READ COMMITTED';
	END IF;
	PERFORM pg_advisory_xact_lock('segar.tracked'::regclass::oid::int, relation::oid::int);
END
$$;
COMMENT ON FUNCTION segar.queue_up(regclass) IS 'waits for others that change how the table is tracked';

-- Raises unless `relation` is a table that can be tracked; says what to track instead, if anything.
CREATE OR REPLACE FUNCTION segar.check_trackable(relation regclass) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	class   pg_class;
	problem text;
	advice  text;
BEGIN
	SELECT c.* INTO class FROM pg_class c WHERE c.oid = relation;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'there is no relation %', coalesce(relation::oid::text, 'NULL')
			USING ERRCODE = 'undefined_table';
	END IF;
	problem := CASE
		WHEN class.relkind IN ('v', 'm') THEN 'is a view'
		WHEN class.relkind = 'f' THEN 'is a foreign table'
		WHEN class.relkind NOT IN ('r', 'p') THEN 'is not a table'
		WHEN class.relpersistence = 't' THEN 'is a temporary table'
		WHEN class.relispartition THEN 'is a partition'
		WHEN class.relnamespace IN (
			'pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'segar'::regnamespace)
			THEN 'is a system table'
		-- Triggers are inherited by partitions, but not by the children of INHERITS.
		WHEN class.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = relation)
			THEN 'has child tables'
	END;
	advice := CASE
		WHEN class.relkind IN ('v', 'm') THEN 'Track the tables that it reads.'
		WHEN class.relkind = 'f' THEN 'Track the table where it is.'
		WHEN class.relispartition THEN format('Track %s.', (
			SELECT relid FROM pg_partition_ancestors(relation) WITH ORDINALITY ORDER BY ordinality DESC LIMIT 1))
		WHEN problem = 'has child tables' THEN 'Make it a partitioned table, or track the children.'
	END;
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION '% %', relation, problem
			USING ERRCODE = 'wrong_object_type', HINT = coalesce(advice, 'Only tables can be tracked.');
	END IF;
	IF NOT pg_has_role(class.relowner, 'USAGE') THEN
		RAISE EXCEPTION 'must be owner of table %', relation
			USING ERRCODE = 'insufficient_privilege';
	END IF;
END
$$;
COMMENT ON FUNCTION segar.check_trackable(regclass) IS 'raises unless the relation is a table that can be tracked';

-- Gives `relation` its column row_version and the trigger that fills it; nothing to do costs no lock.
CREATE OR REPLACE FUNCTION segar.add_row_version(relation regclass) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	-- Triggers run in the order of their names; after this one no other should change the row.
	trigger_name CONSTANT name := 'zz_segar_row_version';
	col    pg_attribute;
	v      bigint;
	adopts boolean;
BEGIN
	SELECT a.* INTO col FROM pg_attribute a
	WHERE a.attrelid = relation AND a.attname = 'row_version' AND NOT a.attisdropped;
	adopts := FOUND;
	IF adopts AND col.attnotnull AND EXISTS (
		SELECT FROM pg_trigger t
		WHERE t.tgrelid = relation AND t.tgname = trigger_name AND t.tgenabled = 'A'
		  AND t.tgfoid = 'segar.set_row_version'::regproc)
	THEN
		RETURN;
	END IF;
	IF adopts AND (col.atttypid <> 'bigint'::regtype OR col.attgenerated <> '' OR col.attidentity <> '') THEN
		RAISE EXCEPTION '% has a column row_version of its own', relation
			USING ERRCODE = 'datatype_mismatch',
			DETAIL = format('Its type is %s%s; versions need a plain bigint.',
				format_type(col.atttypid, col.atttypmod),
				CASE WHEN col.attgenerated <> '' THEN ', generated'
				     WHEN col.attidentity <> '' THEN ', an identity' ELSE '' END),
			HINT = 'Rename that column, or drop it.';
	END IF;

	-- The strongest lock at once: raised step by step, it could deadlock with writers.
	EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', relation);
	v := nextval('segar.row_version');
	IF NOT adopts THEN
		-- A constant default is kept beside the table (PostgreSQL 11): all rows have it at once, and
		-- none is rewritten. It has done its work then: the trigger fills new rows.
		EXECUTE format('ALTER TABLE %s ADD COLUMN row_version bigint NOT NULL DEFAULT %s', relation, v);
		EXECUTE format('ALTER TABLE %s ALTER COLUMN row_version DROP DEFAULT', relation);
		EXECUTE format('COMMENT ON COLUMN %s.row_version IS %L', relation,
			'segar: grows with each change of the row');
	END IF;
	EXECUTE format('CREATE OR REPLACE TRIGGER %I BEFORE INSERT OR UPDATE ON %s '
		'FOR EACH ROW EXECUTE FUNCTION segar.set_row_version()', trigger_name, relation);
	-- Also where changes arrive by logical replication: caches here read this database.
	EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', relation, trigger_name);
	IF adopts THEN
		-- Rows without a version, or with one from elsewhere that the sequence is still to reach.
		EXECUTE format('UPDATE %s SET row_version = NULL WHERE row_version IS NULL OR row_version > %s',
			relation, v);
		EXECUTE format('ALTER TABLE %s ALTER COLUMN row_version SET NOT NULL', relation);
	END IF;
END
$$;
COMMENT ON FUNCTION segar.add_row_version(regclass) IS 'adds the column row_version and its trigger';

-- The registered mapping takes effect: the row versions first, which the log tells.
CREATE OR REPLACE FUNCTION segar.apply_tracking(relation regclass) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- Nothing tells of a table that is dropped: its entry goes with the next call.
	DELETE FROM segar.tracked t WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = t.relation);
	PERFORM segar.add_row_version(relation);
	PERFORM segar.add_change_log(relation);
END
$$;

CREATE OR REPLACE FUNCTION segar.track(relation regclass, key_template text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM segar.check_trackable(relation);
	PERFORM segar.queue_up(relation);
	IF key_template IS NULL THEN
		RAISE EXCEPTION 'the key template is NULL' USING ERRCODE = 'null_value_not_allowed';
	END IF;
	PERFORM segar.template_expression(relation, key_template, 'NEW');
	INSERT INTO segar.tracked (relation, key_template, notify)
	VALUES (track.relation, track.key_template,
		coalesce((SELECT bool_and(t.notify) FROM segar.tracked t WHERE t.relation = track.relation), true))
	ON CONFLICT ON CONSTRAINT tracked_pkey DO NOTHING;
	PERFORM segar.apply_tracking(relation);
END
$$;
COMMENT ON FUNCTION segar.track(regclass, text) IS
	'versions the rows of a table, logs their changes, and says which key each of them feeds: track(''orders'', ''order:{customer_id}'')';

CREATE OR REPLACE FUNCTION segar.track(relation regclass, key_function regprocedure, VARIADIC keyspaces text[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	signature CONSTANT text := segar.check_key_function(relation, key_function::text)::text;
BEGIN
	PERFORM segar.check_trackable(relation);
	PERFORM segar.queue_up(relation);
	IF array_position(keyspaces, NULL) IS NOT NULL OR cardinality(keyspaces) = 0 THEN
		RAISE EXCEPTION 'the keyspaces whose keys % returns are not named', key_function
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	PERFORM segar.template_columns(k) FROM unnest(keyspaces) k;
	INSERT INTO segar.tracked AS t (relation, key_template, keyspaces, notify)
	VALUES (track.relation, signature, track.keyspaces,
		coalesce((SELECT bool_and(o.notify) FROM segar.tracked o WHERE o.relation = track.relation), true))
	ON CONFLICT ON CONSTRAINT tracked_pkey DO UPDATE SET keyspaces = EXCLUDED.keyspaces;
	PERFORM segar.apply_tracking(relation);
END
$$;
COMMENT ON FUNCTION segar.track(regclass, regprocedure, text[]) IS
	'the same by a function that returns a row''s keys, which are of these keyspaces';

CREATE OR REPLACE FUNCTION segar.use_notify(relation regclass, ring boolean) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM segar.check_trackable(relation);
	PERFORM segar.queue_up(relation);
	UPDATE segar.tracked t SET notify = ring WHERE t.relation = use_notify.relation;
	IF NOT FOUND THEN
		RAISE EXCEPTION '% is not tracked', relation USING ERRCODE = 'object_not_in_prerequisite_state';
	END IF;
	PERFORM segar.apply_tracking(relation);
END
$$;
COMMENT ON FUNCTION segar.use_notify(regclass, boolean) IS
	'whether changes of a tracked table ring (NOTIFY), or wait until the log is read again';

CREATE OR REPLACE FUNCTION segar.untrack(relation regclass) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM segar.queue_up(relation);
	DELETE FROM segar.tracked t WHERE t.relation = untrack.relation;
	IF NOT EXISTS (SELECT FROM pg_trigger t
	               WHERE t.tgrelid = untrack.relation AND t.tgname IN ('zz_segar_row_version', 'zz_segar_changes')) THEN
		RETURN;
	END IF;
	EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', relation);
	PERFORM segar.drop_change_log(relation);
	EXECUTE format('DROP TRIGGER IF EXISTS zz_segar_row_version ON %s', relation);
	-- The column stays, since keyspaces' queries name it; nothing fills it any more.
	EXECUTE format('ALTER TABLE %s ALTER COLUMN row_version DROP NOT NULL', relation);
END
$$;
COMMENT ON FUNCTION segar.untrack(regclass) IS 'ends what segar.track began; the column row_version stays';

CREATE OR REPLACE FUNCTION segar.untrack(relation regclass, mapping text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM segar.queue_up(relation);
	DELETE FROM segar.tracked t
	WHERE t.relation = untrack.relation AND t.key_template = mapping;
	IF NOT EXISTS (SELECT FROM segar.tracked t WHERE t.relation = untrack.relation) THEN
		PERFORM segar.untrack(relation);
	ELSE
		PERFORM segar.apply_tracking(relation);
	END IF;
END
$$;
COMMENT ON FUNCTION segar.untrack(regclass, text) IS 'ends one mapping of a table: as segar.tracked shows it';

-- Tracking decides what caches refresh: not for everyone who happens to own a table.
REVOKE EXECUTE ON FUNCTION segar.track(regclass, text), segar.track(regclass, regprocedure, text[]),
	segar.use_notify(regclass, boolean), segar.untrack(regclass), segar.untrack(regclass, text) FROM PUBLIC;
