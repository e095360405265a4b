"""Checks rule by rule whether a deployment keeps the contract (`ledger-engine conform`, docs/conform.md)."""
