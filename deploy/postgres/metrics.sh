#!/bin/sh
# Writes three values for Prometheus's node exporter (docs/production-postgresql.md#alerts): whether the ledger
# answers through nginx and HAProxy, the time of the newest dump, and the end of the certificate that nginx shows.
# cron runs this script each minute.
set -u
umask 022
cd /var/lib/prometheus/node-exporter || exit 1
answers=0
curl -sSf --max-time 20 --output /dev/null --resolve ledger.example:443:127.0.0.1 https://ledger.example/api/health && answers=1
newest=$(ls -1t /var/backups/ledger/*.dump | head -n 1)
end=$(openssl s_client -connect 127.0.0.1:443 -servername ledger.example < /dev/null 2> /dev/null |
    openssl x509 -noout -enddate)
# If the script cannot measure a time, it leaves out that line, and LedgerMetricsMissing reports this.
cat > ledger.new << METRICS
ledger_proxies_up $answers
${newest:+ledger_dump_last_timestamp_seconds $(stat --format=%Y "$newest")}
${end:+ledger_certificate_end_timestamp_seconds $(date --date="${end#notAfter=}" +%s)}
METRICS
mv ledger.new ledger.prom
