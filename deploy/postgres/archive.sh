#!/bin/bash
# Copies to another machine, over ssh with the key of the user postgres (docs/postgresql.md#archive-continuously):
#   archive.sh wal PATH NAME    a file of PostgreSQL's log, as archive_command
#   archive.sh base             the whole cluster, each week by cron
#   archive.sh checkpoint       the ledger's checkpoint, each five minutes by cron as root
set -euo pipefail
PATH=$PATH:/usr/sbin                        # cron's PATH lacks runuser
other=(ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=10 ledger@other.example)
case $1 in
wal)
    # If the connection is lost, `cat` ends early, so the sizes are compared; PostgreSQL then repeats the command. If only
    # the answer was lost, the file is there. A file of this name with another content is another cluster's and stays.
    # pg_stat_archiver does not count ssh's 255.
    size=$(stat --format=%s "$2")
    "${other[@]}" "test ! -e wal/$3 && cat > wal/$3.new && test \$(stat --format=%s wal/$3.new) = $size &&
        sync wal/$3.new && mv wal/$3.new wal/$3" < "$2" || "${other[@]}" "cmp - wal/$3" < "$2" || exit 1
    ;;
base)
    pg_basebackup --checkpoint fast --wal-method none --format tar --pgdata - | "${other[@]}" "cat > base/new"
    # Each base needs the files of the log since its beginning. These deletions follow a new base, so one always remains.
    "${other[@]}" "sync base/new && mv base/new base/$(date +%F).tar &&
        find base -type f -mtime +20 -delete && find wal -type f -mtime +21 -delete"
    ;;
checkpoint)
    checkpoint=$(PGPASSFILE=/etc/ledger/pgpass /opt/ledger-current/bin/ledger-engine checkpoint --mode live \
        --database postgresql://ledger@127.0.0.1/ledger)
    runuser -u postgres -- "${other[@]}" "cat > checkpoint.new && mv checkpoint.new checkpoint" <<< "$checkpoint"
    ;;
esac
