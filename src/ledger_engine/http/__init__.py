"""The HTTP interface: it parses requests, renders records and contains none of the ledger's own rules."""
