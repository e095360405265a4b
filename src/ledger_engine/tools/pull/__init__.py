"""Copies of what another server shows, over HTTP alone (`ledger-engine pull`, docs/pull.md)."""
