#!/bin/sh
# The role and the database of the ledger's servers, with the grants they need and no more. PostgreSQL's image runs it
# once, when its volume is new; elsewhere run it as a superuser, with PGHOST and the like set.
set -eu
psql --no-psqlrc --set ON_ERROR_STOP=1 --set password="${LEDGER_DATABASE_PASSWORD:?}" \
    --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
CREATE ROLE ledger LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'password';
CREATE DATABASE ledger TEMPLATE template0 ENCODING 'UTF8';
REVOKE ALL ON DATABASE ledger FROM PUBLIC;
GRANT CONNECT ON DATABASE ledger TO ledger;
\connect ledger
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO ledger;
SQL
