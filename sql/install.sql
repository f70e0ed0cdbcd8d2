-- Installs segar's SQL side, or brings it up to date: psql -f install.sql DATABASE
-- See README.md for who may run it and what it needs. All or nothing: one transaction.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
BEGIN;
\ir 01_schema.sql
\ir 02_version.sql
\ir 03_template.sql
\ir 04_track.sql
COMMIT;
