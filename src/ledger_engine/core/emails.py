"""The form of e-mail addresses in which two of them are compared."""

from __future__ import annotations

import unicodedata


def fold(email: str) -> str:
    """Return the address in the form used for comparing: case and the encoding of accents do not matter."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", email).casefold())
