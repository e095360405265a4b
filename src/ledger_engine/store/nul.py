"""NUL in texts: JSON and SQLite have it, PostgreSQL's text does not, so there two characters stand for it."""

from __future__ import annotations

SUBSTITUTE = "\ufdd0"  # one of the characters that Unicode leaves to programs


def substituted(text: str) -> str:
    """Return a text as PostgreSQL stores it."""
    if "\0" in text or SUBSTITUTE in text:
        return text.replace(SUBSTITUTE, SUBSTITUTE + "1").replace("\0", SUBSTITUTE + "0")
    return text


def restored(text: str) -> str:
    """Return a text that PostgreSQL stored as it was given."""
    if SUBSTITUTE in text:
        return text.replace(SUBSTITUTE + "0", "\0").replace(SUBSTITUTE + "1", SUBSTITUTE)
    return text
