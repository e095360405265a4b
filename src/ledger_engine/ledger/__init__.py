"""The ledger's resources: accounts, transactions, statements, invoices, users and orders, one module each."""
