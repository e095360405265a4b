"""Clients generated from /openapi.json, each tried against a server: `python -m tools.clients`."""
