"""The client of a ledger server: the only package that speaks HTTP. It does not import Textual."""
