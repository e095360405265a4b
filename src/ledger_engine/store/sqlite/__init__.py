"""The ledger on SQLite: one file, which one process serves."""
