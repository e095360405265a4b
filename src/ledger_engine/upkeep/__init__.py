"""Maintenance of a ledger: background tasks, retention, the heartbeat, metrics and backups."""
