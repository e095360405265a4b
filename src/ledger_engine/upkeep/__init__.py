"""Maintenance of a ledger: the audit, backups, retention and the background tasks."""
