#!/bin/sh
# Makes the role and the database of the ledger's servers, and grants the role only the rights that the servers need.
# PostgreSQL's container image runs this script once, when its volume is new. Elsewhere run the script as a superuser;
# set PGHOST and similar variables if psql needs them to connect.
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
