"""The form of an e-mail address that is used for comparing."""

from __future__ import annotations

import unicodedata


def fold(email: str) -> str:
    """Return the address in the form for comparing, without regard to case and the encoding of accents."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", email).casefold())
