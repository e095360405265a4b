"""The HTTP interface: parses requests and renders records; it contains none of the ledger's own rules."""
