"""The HTTP interface: wire models in, records out, none of the ledger's own rules."""
