"""The ledger's resources (accounts, transactions, invoices and so on), and their states in the past."""
