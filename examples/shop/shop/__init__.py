"""A shop that keeps its invoices in a ledger."""
