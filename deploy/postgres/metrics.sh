#!/bin/sh
# Writes values for Prometheus's node exporter (docs/production-postgresql.md#alerts): whether the ledger answers
# through nginx and HAProxy, how long PostgreSQL's archive is behind, the times of the newest base and dump, and the end
# of the certificate that nginx shows. cron runs this script each minute.
set -u
PATH=$PATH:/usr/sbin                        # cron's PATH lacks runuser
umask 022
cd /var/lib/prometheus/node-exporter || exit 1
answers=0
curl -sSf --max-time 20 --output /dev/null --resolve ledger.example:443:127.0.0.1 https://ledger.example/api/health && answers=1
# The age of the oldest finished file of the log that archive_command has not copied. A failed command is not enough: it
# may also hang. If archiving is set up, but off or not measurable, the age is infinite, so that LedgerArchiveStops
# reports this.
archive=$(timeout 20 runuser -u postgres -- psql -XAtc "SELECT coalesce(extract(epoch FROM now() - min(modification)), 0)
    FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready' HAVING current_setting('archive_mode') <> 'off'")
base=
if [ -e /etc/ledger/archive.sh ]; then
    archive=${archive:-+Inf}
    # 0 if nobody has made a base, or if cron's job is missing, so that LedgerBaseOld reports this.
    base=$(grep -q 'archive.sh base' /etc/cron.d/ledger-archive && stat --format=%Y /var/lib/postgresql/ledger-base || echo 0)
fi
newest=$(ls -1t /var/backups/ledger/*.dump | head -n 1)
end=$(openssl s_client -connect 127.0.0.1:443 -servername ledger.example < /dev/null 2> /dev/null |
    openssl x509 -noout -enddate)
# If the script cannot measure the dump's or the certificate's time, it leaves out that line, and LedgerMetricsMissing
# reports this.
cat > ledger.new << METRICS
ledger_proxies_up $answers
${archive:+ledger_archive_wait_seconds $archive}
${base:+ledger_base_last_timestamp_seconds $base}
${newest:+ledger_dump_last_timestamp_seconds $(stat --format=%Y "$newest")}
${end:+ledger_certificate_end_timestamp_seconds $(date --date="${end#notAfter=}" +%s)}
METRICS
mv ledger.new ledger.prom
