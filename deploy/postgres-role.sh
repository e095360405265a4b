#!/bin/sh
# Makes the role and the database of the ledger's servers, and grants the role only the rights that the servers need.
# With LEDGER_NEW_DATABASE and without a password it makes only a database of this name for the role.
# PostgreSQL's container image runs this script once, when its volume is new. Elsewhere run the script as a superuser;
# set PGHOST and similar variables if psql needs them to connect.
set -eu
[ "${LEDGER_NEW_DATABASE:-}" ] || : "${LEDGER_DATABASE_PASSWORD:?}"
psql --no-psqlrc --set ON_ERROR_STOP=1 --set database="${LEDGER_NEW_DATABASE:-ledger}" \
    --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
-- Other users of the machine can read the arguments of psql, but not its environment.
\set password ''
\getenv password LEDGER_DATABASE_PASSWORD
SELECT :'password' <> '' AS has_password \gset
\if :has_password
CREATE ROLE ledger LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'password';
\endif
CREATE DATABASE :"database" TEMPLATE template0 ENCODING 'UTF8';
REVOKE ALL ON DATABASE :"database" FROM PUBLIC;
GRANT CONNECT ON DATABASE :"database" TO ledger;
\connect :"database"
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO ledger;
-- With this extension `ledger-engine verify` checks the indexes, too. Some packages of PostgreSQL lack the extension.
SELECT count(*) > 0 AS has_amcheck FROM pg_available_extensions WHERE name = 'amcheck' \gset
\if :has_amcheck
CREATE EXTENSION amcheck;
GRANT EXECUTE ON FUNCTION bt_index_check(regclass, boolean) TO ledger;
\endif
SQL
