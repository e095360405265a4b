"""Signing secrets in their stored form, and the signatures of a delivery."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.fernet import Fernet


# Signatures: the contract defines one, and Standard Webhooks another. See
# docs/interface.md#auth-webhook-signature, docs/decisions.md#webhooks-standard and
# https://www.standardwebhooks.com.


def sign(secret: str, body: bytes) -> str:
    """Return the value of `Ledger-Signature`: the HMAC-SHA-256 of the raw body in lowercase hex.

    The key is the secret's whole text in UTF-8, `whsec_` included (docs/interface.md#auth-webhook-signature).
    """
    mac = _keyed(secret.encode()).copy()
    mac.update(body)
    return mac.hexdigest()


def sign_standard(secret: str, id: str, seconds: int, body: bytes) -> str:
    """Return one signature in `webhook-signature`; `seconds` is the Unix time in `webhook-timestamp`."""
    mac = _keyed(_key(secret)).copy()
    mac.update(b"%b.%d.%b" % (id.encode(), seconds, body))
    return "v1," + base64.b64encode(mac.digest()).decode()


def signed_headers(
    secret: str, previous: str | None, id: str, seconds: int, body: bytes
) -> list[tuple[str, str]]:
    """Return the headers with which a receiver can check an attempt made at the Unix time `seconds`.

    `previous` is the secret before the last roll; None if it no longer signs. The contract's header takes
    only one signature, so the signature with the previous secret has a header of its own.
    """
    secrets = [secret] if previous is None else [secret, previous]
    standard = [sign_standard(key, id, seconds, body) for key in secrets]
    return [
        ("Ledger-Signature", sign(secret, body)),
        *([] if previous is None else [("Ledger-Signature-Previous", sign(previous, body))]),
        ("webhook-id", id),
        ("webhook-timestamp", str(seconds)),
        ("webhook-signature", " ".join(standard)),
    ]


@lru_cache(maxsize=256)
def _key(secret: str) -> bytes:
    """Return the key of Standard Webhooks: the bytes that follow `whsec_` in base64.

    Our own secrets are always base64. Another server, which `listen` follows, may use any other text; such a
    text is the key itself.
    """
    text = secret.removeprefix("whsec_")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return text.encode()


@lru_cache(maxsize=512)
def _keyed(key: bytes) -> hmac.HMAC:
    """Return an HMAC with this key. Copy it for each use: a copy takes three quarters of a new one's time."""
    return hmac.new(key, digestmod="sha256")


# Sealing: to sign, the server needs the secret itself, so the database cannot store only a hash of the
# secret. If the environment variable LEDGER_SECRET_KEY is set, secrets are encrypted in the database, so that
# a stolen file or backup reveals no secret; without a key they are stored in clear text. To change the key,
# set LEDGER_SECRET_KEY_PREVIOUS to the former key for one start: this start encrypts everything with the new
# key.


VARIABLE = "LEDGER_SECRET_KEY"
PREVIOUS = "LEDGER_SECRET_KEY_PREVIOUS"
_MARK = "fernet:"


class WrongKey(Exception):
    """The secret was sealed with another key, or no key is set."""


class Seal:
    """Seals and opens secrets with `key`, which may be any text; without a key secrets stay readable.

    A Seal also opens secrets that were sealed with the key `previous`.
    """

    def __init__(self, key: str | None, previous: str | None = None) -> None:
        self._key = key or None
        self._previous = previous or None

    @staticmethod
    def from_environment() -> Seal:
        """Return the seal with the keys in LEDGER_SECRET_KEY and LEDGER_SECRET_KEY_PREVIOUS."""
        return _seal_of(os.environ.get(VARIABLE), os.environ.get(PREVIOUS))

    def close(self, secret: str) -> str:
        """Return the stored form of a secret."""
        return secret if self._key is None else _MARK + _fernet(self._key).encrypt(secret.encode()).decode()

    def open(self, text: str) -> str:
        """Return the secret in a stored form. Raises WrongKey."""
        if not text.startswith(_MARK):
            return text
        if self._key is None:
            raise WrongKey(f"It is encrypted, and {VARIABLE} is not set.")
        secret = _decrypted(self._key, text)
        if secret is None and self._previous is not None:
            secret = _decrypted(self._previous, text)
        if secret is None:
            raise WrongKey(f"It was encrypted with another {VARIABLE}.")
        return secret

    def closed_again(self, text: str) -> str | None:
        """Return the new form of a stored secret, sealed with the key; None if the stored form should stay.

        It stays if the secret is already sealed with the key, if it cannot be opened, and if there is no key.
        """
        if self._key is None:
            return None
        if not text.startswith(_MARK):
            return self.close(text)
        if self._previous is None or (secret := _decrypted(self._previous, text)) is None:
            return None
        return self.close(secret)


@cache
def _seal_of(key: str | None, previous: str | None) -> Seal:
    return Seal(key, previous)


@cache
def _fernet(key: str) -> Fernet:
    # Imported here, so that a server without webhooks or without a key does not load it.
    from cryptography.fernet import Fernet

    # The key is stretched, because people choose words. The salt may be constant, because no hashes are
    # stored.
    key_bytes = hashlib.scrypt(key.encode(), salt=b"ledger webhook secrets", n=2**14, r=8, p=1, dklen=32)
    return Fernet(base64.urlsafe_b64encode(key_bytes))


def _decrypted(key: str, text: str) -> str | None:
    from cryptography.fernet import InvalidToken

    try:
        return _fernet(key).decrypt(text.removeprefix(_MARK)).decode()
    except InvalidToken:
        return None
