"""The client of a ledger server: the only package that sends requests. It does not import Textual."""
