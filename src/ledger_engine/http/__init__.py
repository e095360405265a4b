"""The HTTP interface: wire models in, records out, no rule of the ledger's own."""
