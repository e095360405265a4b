"""What keeps a ledger sound: the audit, backups, retention and the background tasks."""
