"""The ledger on SQLite: a file that only one process at a time serves."""
