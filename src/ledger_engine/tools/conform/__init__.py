"""Whether any deployment keeps the contract, rule by rule (`ledger-engine conform`, docs/conform.md)."""
