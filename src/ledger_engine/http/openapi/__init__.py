"""The OpenAPI document and the page that shows it."""

from __future__ import annotations

from importlib.resources import files


def asset(name: str) -> bytes:
    """Return the content of a file in `assets`."""
    return files("ledger_engine.http.openapi").joinpath("assets", name).read_bytes()
