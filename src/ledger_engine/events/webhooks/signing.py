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


# Each delivery has two kinds of signatures: the contract defines the first kind, and Standard Webhooks the
# second kind. See docs/interface.md#auth-webhook-signature, docs/decisions.md#webhooks-standard and
# https://www.standardwebhooks.com.


def sign(secret: str, body: bytes) -> str:
    """Return the value of `Ledger-Signature`: the HMAC-SHA-256 of the raw body in lowercase hex.

    The key is the secret's whole text in UTF-8, `whsec_` included (docs/interface.md#auth-webhook-signature).
    """
    mac = _hmac_of(secret.encode()).copy()
    mac.update(body)
    return mac.hexdigest()


def sign_standard(secret: str, id: str, seconds: int, body: bytes) -> str:
    """Return one signature for the header `webhook-signature`.

    `seconds` is the Unix time in the header `webhook-timestamp`.
    """
    mac = _hmac_of(_standard_key(secret)).copy()
    mac.update(b"%b.%d.%b" % (id.encode(), seconds, body))
    return "v1," + base64.b64encode(mac.digest()).decode()


def signed_headers(
    secret: str, previous: str | None, id: str, seconds: int, body: bytes
) -> list[tuple[str, str]]:
    """Return the headers with which a receiver can check an attempt made at the Unix time `seconds`.

    `previous` is the secret before the last roll, or None if that secret no longer signs. The contract's
    header `Ledger-Signature` takes only one signature, so the signature with the previous secret has a header
    of its own.
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
def _standard_key(secret: str) -> bytes:
    """Return the key of Standard Webhooks: the text after `whsec_`, decoded from base64.

    This server's secrets are always base64. The `listen` command also works with other servers, whose secret
    may be any text; such a text is used as the key, without decoding.
    """
    text = secret.removeprefix("whsec_")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return text.encode()


@lru_cache(maxsize=512)
def _hmac_of(key: bytes) -> hmac.HMAC:
    """Return an HMAC object with this key.

    Copy the object for each use: a copy takes three quarters of the time of a new object.
    """
    return hmac.new(key, digestmod="sha256")


# Sealing: to sign, the server needs the secret itself, so the database cannot store only a hash of the
# secret. If the environment variable LEDGER_SECRET_KEY is set, secrets are encrypted in the database, so that
# a stolen file or backup reveals no secret. Without this variable, secrets are stored in clear text. To
# change the key, set LEDGER_SECRET_KEY to the new key and LEDGER_SECRET_KEY_PREVIOUS to the former key, and
# start the server. It then encrypts all secrets with the new key. Later starts need only LEDGER_SECRET_KEY.


VARIABLE = "LEDGER_SECRET_KEY"
PREVIOUS = "LEDGER_SECRET_KEY_PREVIOUS"
_MARK = "fernet:"


class WrongKey(Exception):
    """A stored secret cannot be opened: it was sealed with another key, or no key is set."""


class Seal:
    """Seals (encrypts) secrets for storage with `key`, and opens sealed secrets. The key can be any text.

    Without a key, secrets are stored in clear text. A Seal also opens secrets that were sealed with the key
    `previous`.
    """

    def __init__(self, key: str | None, previous: str | None = None) -> None:
        self._key = key or None
        self._previous = previous or None

    @staticmethod
    def from_environment() -> Seal:
        """Return the seal with the keys in LEDGER_SECRET_KEY and LEDGER_SECRET_KEY_PREVIOUS."""
        return _seal_of(os.environ.get(VARIABLE), os.environ.get(PREVIOUS))

    def seal(self, secret: str) -> str:
        """Return the form in which a secret is stored: sealed, or in clear text if there is no key."""
        return secret if self._key is None else _MARK + _fernet(self._key).encrypt(secret.encode()).decode()

    def open(self, text: str) -> str:
        """Return the secret whose stored form is `text`. Raises WrongKey."""
        if not text.startswith(_MARK):
            return text
        if self._key is None:
            raise WrongKey(f"It is encrypted, and {VARIABLE} is not set.")
        secret = _decrypt(self._key, text)
        if secret is None and self._previous is not None:
            secret = _decrypt(self._previous, text)
        if secret is None:
            raise WrongKey(f"It was encrypted with another {VARIABLE}.")
        return secret

    def reseal(self, text: str) -> str | None:
        """Seal a stored secret with the present key, and return the new form; None to keep the stored form.

        The stored form is kept if the secret is already sealed with the present key, if the secret cannot be
        opened, or if there is no key.
        """
        if self._key is None:
            return None
        if not text.startswith(_MARK):
            return self.seal(text)
        if self._previous is None or (secret := _decrypt(self._previous, text)) is None:
            return None
        return self.seal(secret)


@cache
def _seal_of(key: str | None, previous: str | None) -> Seal:
    return Seal(key, previous)


@cache
def _fernet(key: str) -> Fernet:
    # Imported here, so that a server without webhooks or without a key does not load this library.
    from cryptography.fernet import Fernet

    # The key is stretched with scrypt, because people choose words that can be guessed. Different salts are
    # useful only for hashes that are stored. No hash of the key is stored, so the salt is constant.
    key_bytes = hashlib.scrypt(key.encode(), salt=b"ledger webhook secrets", n=2**14, r=8, p=1, dklen=32)
    return Fernet(base64.urlsafe_b64encode(key_bytes))


def _decrypt(key: str, text: str) -> str | None:
    from cryptography.fernet import InvalidToken

    try:
        return _fernet(key).decrypt(text.removeprefix(_MARK)).decode()
    except InvalidToken:
        return None
