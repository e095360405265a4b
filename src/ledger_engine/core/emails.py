"""Compares e-mail addresses."""

from __future__ import annotations

import unicodedata


def fold(email: str) -> str:
    """Return the form of an address that equal addresses share: lower case, accents in one encoding (NFC)."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", email).casefold())
