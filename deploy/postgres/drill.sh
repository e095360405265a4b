#!/bin/bash
# Restores the newest base and the log of the archive into a second cluster, while the servers go on, lets `verify` check
# it, and removes the cluster (docs/postgresql.md#archive-continuously). The argument is the archive's user and machine.
# The cluster has the settings of the first one, which an archive's base lacks, but archives nothing.
set -euo pipefail
other=$1
drill=/var/lib/postgresql/18/drill
pg_ctl() { runuser -u postgres -- /usr/lib/postgresql/18/bin/pg_ctl -D "$drill" "$@"; }
base=$(runuser -u postgres -- ssh "$other" "ls base/20*" | tail -1)
mkdir -m 0700 "$drill"
trap 'pg_ctl stop -m immediate || true; rm -r "$drill"' EXIT
chown postgres "$drill"
runuser -u postgres -- ssh "$other" cat "$base" | runuser -u postgres -- tar -xz -C "$drill"
runuser -u postgres -- touch "$drill/recovery.signal"
settings="--config_file=/etc/postgresql/18/main/postgresql.conf --data_directory=$drill --external_pid_file=$drill/pid"
pg_ctl start -t 86400 -l "$drill/drill.log" -o "$settings --port=5433 --archive_mode=off \
    --restore_command='ssh $other gunzip -c wal/%f.gz > %p'" || { tail "$drill/drill.log"; exit 1; }
PGPASSWORD=$(sed -n 's/^PGPASSWORD=//p' /etc/ledger/secrets.env | tail -1)
export PGPASSWORD
while recovers=$(psql -XAtc "SELECT pg_is_in_recovery()" postgresql://ledger@127.0.0.1:5433/ledger) && [ "$recovers" = t ]; do
    sleep 1
done
[ "$recovers" ] || { tail "$drill/drill.log"; exit 1; }
/opt/ledger-current/bin/ledger-engine verify --database postgresql://ledger@127.0.0.1:5433/ledger
