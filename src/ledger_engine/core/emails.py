"""Compares e-mail addresses."""

from __future__ import annotations

import unicodedata


def fold(email: str) -> str:
    """Return the address in the form in which addresses are compared: lower case, accents in NFC.

    Two texts with the same form are the same address.
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", email).casefold())
