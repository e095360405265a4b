"""Seal webhook secrets for the database: encrypted when a key is given, else as they are.

A receiver's signature cannot be made from a hash, so these secrets must be readable to the server.
With the environment variable LEDGER_SECRET_KEY set, a stolen database file or backup tells none.
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
    """The secret was sealed with another key, or none is given."""


class Seal:
    """Seals and opens with `key`, any text; None leaves secrets readable."""

    def __init__(self, key: str | None) -> None:
        self._key = key or None

    @staticmethod
    def from_environment() -> Seal:
        """The seal whose key is in LEDGER_SECRET_KEY."""
        return _seal_of(os.environ.get(VARIABLE))

    @property
    def has_key(self) -> bool:
        return self._key is not None

    def close(self, secret: str) -> str:
        """What is stored of a secret."""
        return secret if self._key is None else _MARK + self._fernet.encrypt(secret.encode()).decode()

    def open(self, stored: str) -> str:
        """The secret again; raises WrongKey."""
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
        # Imported when it is needed: a server without webhooks, or without a key, starts without it.
        from cryptography.fernet import Fernet

        assert self._key is not None
        # A stretched key, because people give words. The salt need not differ: no list of hashes is kept.
        stretched = hashlib.scrypt(
            self._key.encode(), salt=b"ledger webhook secrets", n=2**14, r=8, p=1, dklen=32
        )
        return Fernet(base64.urlsafe_b64encode(stretched))


@cache
def _seal_of(key: str | None) -> Seal:
    return Seal(key)


def is_sealed(stored: str) -> bool:
    """Whether what is stored of a secret is encrypted."""
    return stored.startswith(_MARK)
