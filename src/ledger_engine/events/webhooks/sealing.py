"""Sealing of webhook secrets for the database: encrypted when a key is set, otherwise as they are.

A signature cannot be made with a hash of the secret, so the server must be able to read it. With the
environment variable LEDGER_SECRET_KEY set, a stolen database file or backup reveals no secret.
"""

from __future__ import annotations

import base64
import hashlib
import os
from functools import cache, cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

VARIABLE = "LEDGER_SECRET_KEY"
_MARK = "fernet:"


class WrongKey(Exception):
    """The secret was sealed with another key, or no key is set."""


class Seal:
    """Seals and opens secrets with `key`, which is any text; with None they stay readable."""

    def __init__(self, key: str | None) -> None:
        self._key = key or None

    @staticmethod
    def from_environment() -> Seal:
        """Return the seal with the key in LEDGER_SECRET_KEY."""
        return _seal_of(os.environ.get(VARIABLE))

    @property
    def has_key(self) -> bool:
        return self._key is not None

    def close(self, secret: str) -> str:
        """Return the form in which a secret is stored."""
        return secret if self._key is None else _MARK + self._fernet.encrypt(secret.encode()).decode()

    def open(self, stored: str) -> str:
        """Return the secret of a stored form. Raises WrongKey."""
        if not stored.startswith(_MARK):
            return stored
        if self._key is None:
            raise WrongKey(f"It is encrypted, and {VARIABLE} is not set.")
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.decrypt(stored.removeprefix(_MARK)).decode()
        except InvalidToken:
            raise WrongKey(f"It was encrypted with another {VARIABLE}.") from None

    @cached_property
    def _fernet(self) -> Fernet:
        # Imported here, so that a server without webhooks or without a key need not load it.
        from cryptography.fernet import Fernet

        assert self._key is not None
        # The key is stretched, as people use words. The salt may be constant, as no hashes are stored.
        stretched = hashlib.scrypt(
            self._key.encode(), salt=b"ledger webhook secrets", n=2**14, r=8, p=1, dklen=32
        )
        return Fernet(base64.urlsafe_b64encode(stretched))


@cache
def _seal_of(key: str | None) -> Seal:
    return Seal(key)


def is_sealed(stored: str) -> bool:
    """Return whether a stored secret is encrypted."""
    return stored.startswith(_MARK)
