#!/bin/sh
# Writes the time of the newest dump, and the end of the certificate that nginx shows, for Prometheus's node exporter
# (docs/production-postgresql.md#alerts). If it fails, the file stays as it is, so the alerts still see both grow old.
set -eu
umask 022
cd /var/lib/prometheus/node-exporter
newest=$(ls -1t /var/backups/ledger/*.dump | head -n 1)
end=$(openssl s_client -connect 127.0.0.1:443 -servername ledger.example < /dev/null 2> /dev/null |
    openssl x509 -noout -enddate)
cat > ledger.new << METRICS
ledger_dump_last_timestamp_seconds $(stat --format=%Y "$newest")
ledger_certificate_end_timestamp_seconds $(date --date="${end#notAfter=}" +%s)
METRICS
mv ledger.new ledger.prom
