-- The log of changes, and the triggers that write it.
--
-- The log is the truth; NOTIFY only tells that there is something to read. A reader that knows a
-- snapshot up to which it has read asks for what has become visible since (06_feed.sql).

CREATE TABLE IF NOT EXISTS segar.changes (
	xid        xid8 NOT NULL DEFAULT pg_current_xact_id(),
	version    bigint NOT NULL,
	changed_at timestamptz NOT NULL DEFAULT now(),
	operation  "char" NOT NULL,
	key        text NOT NULL
);
CREATE INDEX IF NOT EXISTS changes_xid ON segar.changes (xid);
COMMENT ON TABLE segar.changes IS 'what changed in tracked tables, as keys: read by the daemons, trimmed by them';
COMMENT ON COLUMN segar.changes.xid IS 'the transaction that made the change';
COMMENT ON COLUMN segar.changes.version IS 'the changed row''s; a deletion has a new one';
COMMENT ON COLUMN segar.changes.changed_at IS 'when that transaction began';
COMMENT ON COLUMN segar.changes.operation IS 'I, U, D; or T: all keys of the keyspace that is named by key';

-- What one change of a row writes for one mapping: its statements in the trigger's function.
CREATE OR REPLACE FUNCTION segar.log_statements(mapping segar.tracked) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	called regprocedure;
	name   text;
BEGIN
	IF mapping.keyspaces IS NULL THEN
		RETURN format($f$
	k := NULL;
	o := NULL;
	IF TG_OP <> 'DELETE' THEN
		k := %s;
	END IF;
	IF TG_OP <> 'INSERT' THEN
		o := %s;
	END IF;
	IF k IS NOT NULL THEN
		INSERT INTO segar.changes (key, version, operation) VALUES (k, v, left(TG_OP, 1)::"char");
	END IF;
	IF o IS NOT NULL AND o IS DISTINCT FROM k THEN
		INSERT INTO segar.changes (key, version, operation) VALUES (o, v, left(TG_OP, 1)::"char");
	END IF;$f$,
			segar.template_expression(mapping.relation, mapping.key_template, 'NEW'),
			segar.template_expression(mapping.relation, mapping.key_template, 'OLD'));
	END IF;

	called := segar.check_key_function(mapping.relation, mapping.key_template);
	SELECT format('%I.%I', n.nspname, p.proname) INTO name
	FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = called;
	RETURN format($f$
	IF TG_OP = 'INSERT' THEN
		INSERT INTO segar.changes (key, version, operation)
		SELECT DISTINCT n.k, v, 'I'::"char" FROM %1$s(NEW) n (k) WHERE n.k IS NOT NULL;
	ELSIF TG_OP = 'DELETE' THEN
		INSERT INTO segar.changes (key, version, operation)
		SELECT DISTINCT o.k, v, 'D'::"char" FROM %1$s(OLD) o (k) WHERE o.k IS NOT NULL;
	ELSE
		INSERT INTO segar.changes (key, version, operation)
		SELECT u.k, v, 'U'::"char" FROM (
			SELECT n.k FROM %1$s(NEW) n (k) UNION SELECT o.k FROM %1$s(OLD) o (k)) u
		WHERE u.k IS NOT NULL;
	END IF;$f$, name);
END
$$;
COMMENT ON FUNCTION segar.log_statements(segar.tracked) IS 'what the trigger does for one mapping';

-- The function by that signature, if it may be called by the trigger. That runs with our rights, so
-- it must be of one who has them, and nobody else can change it.
CREATE OR REPLACE FUNCTION segar.check_key_function(relation regclass, signature text) RETURNS regprocedure
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	called  CONSTANT regprocedure := to_regprocedure(signature);
	ours    CONSTANT oid := (SELECT nspowner FROM pg_namespace WHERE nspname = 'segar');
	proc    pg_proc;
	problem text;
BEGIN
	SELECT p.* INTO proc FROM pg_proc p WHERE p.oid = called;
	problem := CASE
		WHEN called IS NULL THEN 'does not exist'
		WHEN proc.prokind <> 'f' THEN 'is no plain function'
		WHEN proc.prorettype <> 'text'::regtype THEN 'does not return text, or SETOF text'
		WHEN proc.pronargs <> 1 OR proc.proargtypes[0] <> (SELECT reltype FROM pg_class WHERE oid = relation)
			THEN format('does not take one argument, a row of %s', relation)
		WHEN proc.proowner <> ours AND NOT (SELECT rolsuper FROM pg_roles WHERE oid = proc.proowner)
			THEN format('does not belong to %s, with whose rights it would run', pg_get_userbyid(ours))
	END;
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION 'key function % %', signature, problem
			USING ERRCODE = CASE WHEN called IS NULL THEN 'undefined_function' ELSE 'invalid_function_definition' END;
	END IF;
	RETURN called;
END
$$;
COMMENT ON FUNCTION segar.check_key_function(regclass, text) IS 'raises unless it returns the keys of a row of the table';

-- Makes the trigger's function for `relation`, or brings it up to date; says which it is. A function
-- for each table, so that its statements are planned once a session. Its name is not the table's
-- number: that is another after a dump and restore.
CREATE OR REPLACE FUNCTION segar.make_log_function(relation regclass) RETURNS regprocedure
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	there    oid;
	name     text;
	body     text;
	settings text := '';
BEGIN
	SELECT format($f$
DECLARE
	v bigint;
	k text;
	o text;
	told boolean;
BEGIN
	IF TG_OP = 'DELETE' THEN
		v := nextval('segar.row_version');
	ELSE
		v := NEW.row_version;
	END IF;%s%s
	RETURN NULL;
END
$f$,
		string_agg(segar.log_statements(t), '' ORDER BY t.key_template),
		-- one that waits already is not told again in the same transaction; an assignment is cheaper than PERFORM
		CASE WHEN bool_or(t.notify) THEN $n$
	told := pg_notify('segar_changes', '') IS NULL;$n$ ELSE '' END)
	INTO body
	FROM segar.tracked t WHERE t.relation = make_log_function.relation;
	IF body IS NULL THEN
		RAISE EXCEPTION '% is not tracked', relation USING ERRCODE = 'object_not_in_prerequisite_state';
	END IF;
	-- Text that depends on the writer's settings would name other keys.
	IF EXISTS (
		SELECT FROM segar.tracked t, pg_attribute a
		WHERE t.relation = make_log_function.relation AND t.keyspaces IS NULL AND a.attrelid = t.relation
		  AND a.attname = ANY (segar.template_columns(t.key_template))
		  AND a.atttypid NOT IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype, 'oid'::regtype,
			'uuid'::regtype, 'boolean'::regtype, 'text'::regtype, 'varchar'::regtype, 'name'::regtype))
	THEN
		settings := 'SET datestyle = ''ISO, YMD'' SET timezone = ''UTC'' SET intervalstyle = ''postgres'' '
			'SET extra_float_digits = 1 SET bytea_output = ''hex'' ';
	END IF;

	SELECT p.oid, p.proname INTO there, name FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
	WHERE t.tgrelid = relation AND t.tgname = 'zz_segar_changes' AND p.pronamespace = 'segar'::regnamespace;
	IF NOT FOUND THEN
		name := 'log_' || nextval('segar.row_version');
	ELSIF (SELECT p.prosrc = body AND (p.proconfig[2] IS NULL) = (settings = '') FROM pg_proc p WHERE p.oid = there) THEN
		RETURN there;
	END IF;
	EXECUTE format('CREATE OR REPLACE FUNCTION segar.%I() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER '
		'SET search_path = pg_catalog, pg_temp %s AS %L', name, settings, body);
	RETURN format('segar.%I()', name)::regprocedure;
END
$$;
COMMENT ON FUNCTION segar.make_log_function(regclass) IS 'the trigger function that logs the changes of a tracked table';

CREATE OR REPLACE FUNCTION segar.drop_unused_log_functions() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	unused regprocedure;
BEGIN
	FOR unused IN
		SELECT p.oid FROM pg_proc p
		WHERE p.pronamespace = 'segar'::regnamespace AND p.prorettype = 'trigger'::regtype
		  AND p.proname ~ '^log_[0-9]+$' AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgfoid = p.oid)
	LOOP
		EXECUTE format('DROP FUNCTION %s', unused);
	END LOOP;
END
$$;

-- TRUNCATE changes all keys of the keyspaces that the table feeds; a partition's, those of the whole.
CREATE OR REPLACE FUNCTION segar.log_truncate() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	INSERT INTO segar.changes (key, version, operation)
	SELECT DISTINCT k, nextval('segar.row_version'), 'T'::"char"
	FROM segar.tracked t, unnest(coalesce(t.keyspaces, ARRAY[substring(t.key_template FROM '^[^:]*')])) k
	WHERE t.relation = TG_RELID OR t.relation IN (SELECT relid FROM pg_partition_ancestors(TG_RELID));
	IF EXISTS (SELECT FROM segar.tracked t
	           WHERE t.notify AND (t.relation = TG_RELID OR t.relation IN (SELECT relid FROM pg_partition_ancestors(TG_RELID))))
	THEN
		PERFORM pg_notify('segar_changes', '');
	END IF;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION segar.log_truncate() IS 'trigger: logs that all rows of a table are gone';

-- Nobody can read what was in the log any more: anything may have changed.
CREATE OR REPLACE FUNCTION segar.log_lost() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	INSERT INTO segar.changes (key, version, operation)
	SELECT DISTINCT k, nextval('segar.row_version'), 'T'::"char"
	FROM segar.tracked t, unnest(coalesce(t.keyspaces, ARRAY[substring(t.key_template FROM '^[^:]*')])) k;
	PERFORM pg_notify('segar_changes', '');
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION segar.log_lost() IS 'trigger: tells that the log itself was truncated';
CREATE OR REPLACE TRIGGER zz_segar_lost AFTER TRUNCATE ON segar.changes
	FOR EACH STATEMENT EXECUTE FUNCTION segar.log_lost();

-- Gives `relation` the triggers that log its changes; nothing to do costs no lock.
CREATE OR REPLACE FUNCTION segar.add_change_log(relation regclass) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	logs CONSTANT regprocedure := segar.make_log_function(relation);
	leaf regclass;
BEGIN
	IF NOT EXISTS (
		SELECT FROM pg_trigger t
		WHERE t.tgrelid = relation AND t.tgname = 'zz_segar_changes' AND t.tgenabled = 'A' AND t.tgfoid = logs)
	THEN
		EXECUTE format('CREATE OR REPLACE TRIGGER zz_segar_changes AFTER INSERT OR UPDATE OR DELETE ON %s '
			'FOR EACH ROW EXECUTE FUNCTION %s', relation, logs);
		-- Also where changes arrive by logical replication, which knows row triggers only.
		EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER zz_segar_changes', relation);
	END IF;
	-- A statement's trigger is not inherited.
	FOR leaf IN
		SELECT relation UNION SELECT p.relid FROM pg_partition_tree(relation) p
	LOOP
		CONTINUE WHEN EXISTS (
			SELECT FROM pg_trigger t WHERE t.tgrelid = leaf AND t.tgname = 'zz_segar_truncate' AND t.tgenabled = 'A')
			OR EXISTS (SELECT FROM pg_class c WHERE c.oid = leaf AND c.relkind = 'f');
		EXECUTE format('CREATE OR REPLACE TRIGGER zz_segar_truncate AFTER TRUNCATE ON %s '
			'FOR EACH STATEMENT EXECUTE FUNCTION segar.log_truncate()', leaf);
		EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER zz_segar_truncate', leaf);
	END LOOP;
END
$$;
COMMENT ON FUNCTION segar.add_change_log(regclass) IS 'adds the triggers that log a tracked table''s changes';

CREATE OR REPLACE FUNCTION segar.drop_change_log(relation regclass) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	leaf regclass;
BEGIN
	EXECUTE format('DROP TRIGGER IF EXISTS zz_segar_changes ON %s', relation);
	FOR leaf IN
		SELECT t.tgrelid FROM pg_trigger t
		WHERE t.tgname = 'zz_segar_truncate' AND t.tgfoid = 'segar.log_truncate'::regproc
		  AND (t.tgrelid = relation OR t.tgrelid IN (SELECT p.relid FROM pg_partition_tree(relation) p))
	LOOP
		EXECUTE format('DROP TRIGGER zz_segar_truncate ON %s', leaf);
	END LOOP;
	PERFORM segar.drop_unused_log_functions();
END
$$;

-- The number that the session's last change of a tracked row was given, a deletion included: what a
-- writer passes on as min_version.
CREATE OR REPLACE FUNCTION segar.last_version() RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
RETURN currval('segar.row_version');
COMMENT ON FUNCTION segar.last_version() IS 'the version of this session''s last change of a tracked row';

-- For what no trigger sees: a partition dropped, a file swapped, data of another system.
CREATE OR REPLACE FUNCTION segar.log_change(key text) RETURNS bigint
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT pg_notify('segar_changes', '');
	INSERT INTO segar.changes (key, version, operation)
	VALUES (log_change.key, nextval('segar.row_version'),
		CASE WHEN position(':' IN log_change.key) = 0 THEN 'T' ELSE 'U' END::"char")
	RETURNING version;
$$;
COMMENT ON FUNCTION segar.log_change(text) IS 'logs a change of a key, or of all keys of a keyspace, by hand';
REVOKE EXECUTE ON FUNCTION segar.log_change(text) FROM PUBLIC;
