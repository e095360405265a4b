"""Sealing of webhook secrets for the database: encrypted when a key is set, otherwise as they are.

A signature cannot be made with a hash of the secret, so the server must be able to read it. With the
environment variable LEDGER_SECRET_KEY set, a stolen database file or backup reveals no secret. To change that
key, LEDGER_SECRET_KEY_PREVIOUS has the one before for one start, which encrypts everything with the new one.
"""

from __future__ import annotations

import base64
import hashlib
import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

VARIABLE = "LEDGER_SECRET_KEY"
PREVIOUS = "LEDGER_SECRET_KEY_PREVIOUS"
_MARK = "fernet:"


class WrongKey(Exception):
    """The secret was sealed with another key, or no key is set."""


class Seal:
    """Seals and opens secrets with `key`, which is any text; with None they stay readable.

    It also opens what was sealed with `previous`.
    """

    def __init__(self, key: str | None, previous: str | None = None) -> None:
        self._key = key or None
        self._previous = previous or None

    @staticmethod
    def from_environment() -> Seal:
        """Return the seal with the keys in LEDGER_SECRET_KEY and LEDGER_SECRET_KEY_PREVIOUS."""
        return _seal_of(os.environ.get(VARIABLE), os.environ.get(PREVIOUS))

    def close(self, secret: str) -> str:
        """Return the form in which a secret is stored."""
        return secret if self._key is None else _MARK + _fernet(self._key).encrypt(secret.encode()).decode()

    def open(self, stored: str) -> str:
        """Return the secret of a stored form. Raises WrongKey."""
        if not stored.startswith(_MARK):
            return stored
        if self._key is None:
            raise WrongKey(f"It is encrypted, and {VARIABLE} is not set.")
        opened = _decrypted(self._key, stored)
        if opened is None and self._previous is not None:
            opened = _decrypted(self._previous, stored)
        if opened is None:
            raise WrongKey(f"It was encrypted with another {VARIABLE}.")
        return opened

    def closed_again(self, stored: str) -> str | None:
        """Return the form to store in place of this one, None for one that is sealed with the key already.

        Also None for one that cannot be opened, and for every one if there is no key.
        """
        if self._key is None:
            return None
        if not stored.startswith(_MARK):
            return self.close(stored)
        if self._previous is None or (opened := _decrypted(self._previous, stored)) is None:
            return None
        return self.close(opened)


@cache
def _seal_of(key: str | None, previous: str | None) -> Seal:
    return Seal(key, previous)


@cache
def _fernet(key: str) -> Fernet:
    # Imported here, so that a server without webhooks or without a key need not load it.
    from cryptography.fernet import Fernet

    # The key is stretched, as people use words. The salt may be constant, as no hashes are stored.
    stretched = hashlib.scrypt(key.encode(), salt=b"ledger webhook secrets", n=2**14, r=8, p=1, dklen=32)
    return Fernet(base64.urlsafe_b64encode(stretched))


def _decrypted(key: str, stored: str) -> str | None:
    from cryptography.fernet import InvalidToken

    try:
        return _fernet(key).decrypt(stored.removeprefix(_MARK)).decode()
    except InvalidToken:
        return None
