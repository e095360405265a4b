#!/bin/sh
# Writes a dump of the ledger's database into /var/backups/ledger, and keeps the newest fourteen daily dumps
# (docs/production-postgresql.md). An argument is the name of the dump's file. Without an argument the
# name is the time with .dump, and only such dumps count as daily.
# Without the extension amcheck, because only a superuser could restore it; postgres-role.sh installs it.
set -eu
umask 077
cd /var/backups/ledger
PGPASSFILE=/etc/ledger/pgpass pg_dump --format=custom --no-owner --no-privileges --exclude-extension=amcheck --file=new \
    --dbname=postgresql://ledger@127.0.0.1/ledger
mv new "${1:-$(date +%F-%H%M%S).dump}"
ls -1 ./*.dump | head -n -14 | xargs -r rm --
