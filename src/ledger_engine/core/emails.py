"""Compares e-mail addresses."""

from __future__ import annotations

import unicodedata


def fold(email: str) -> str:
    """Return the address for a comparison: in lower case, with each accent encoded in the same way."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", email).casefold())
