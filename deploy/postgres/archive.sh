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
    # An idle minute's 16 MB compress to 30 kB. If the connection is lost, `cat` ends early, so the contents are compared;
    # PostgreSQL then repeats the command. If only the answer was lost, the file is there. A file of this name with
    # another content is another cluster's and stays. `sync wal` makes the file's name survive a power cut. pg_stat_archiver
    # does not count ssh's 255.
    sum=$(sha256sum < "$2")
    gzip -c "$2" | "${other[@]}" "test ! -e wal/$3.gz && cat > wal/$3.new &&
        test \"\$(gunzip -c < wal/$3.new | sha256sum)\" = '$sum' &&
        sync wal/$3.new && mv wal/$3.new wal/$3.gz && sync wal" ||
        "${other[@]}" "test \"\$(gunzip -c < wal/$3.gz | sha256sum)\" = '$sum' && sync wal" || exit 1
    ;;
base)
    pg_basebackup --checkpoint fast --wal-method none --format tar --pgdata - | gzip -c | "${other[@]}" "cat > base/new"
    # Each base needs the files of the log since its beginning. These deletions follow a new base, so one always remains.
    # A base restores the moments after its end, so its name is the time of its end (UTC).
    "${other[@]}" "gzip -t < base/new && sync base/new && mv base/new base/$(date -u +%F-%H%M%S).tar.gz && sync base &&
        find base -type f -mtime +20 -delete && find wal -type f -mtime +21 -delete"
    touch /var/lib/postgresql/ledger-base      # metrics.sh reads its time
    ;;
checkpoint)
    errors=$(mktemp)
    trap 'rm "$errors"' EXIT
    checkpoint=$(PGPASSFILE=/etc/ledger/pgpass /opt/ledger-current/bin/ledger-engine checkpoint --mode live \
        --database postgresql://ledger@127.0.0.1/ledger 2> "$errors") || {
        # Before the first live event there is no checkpoint, and nothing to copy.
        grep -q "The log has no checkpoint yet" "$errors" && exit 0
        cat "$errors" >&2
        exit 1
    }
    runuser -u postgres -- "${other[@]}" "cat > checkpoint.new && mv checkpoint.new checkpoint" <<< "$checkpoint"
    ;;
esac
