"""The signatures of a delivery: the contract's, and that of Standard Webhooks beside it.

See docs/interface.md#auth-webhook-signature, docs/decisions.md#webhooks-standard and
https://www.standardwebhooks.com.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from functools import lru_cache


def sign(secret: str, body: bytes) -> str:
    """Return the value of `Ledger-Signature`: the HMAC-SHA-256 of the raw body in lowercase hex.

    The key is the secret's whole text in UTF-8, `whsec_` included (docs/interface.md#auth-webhook-signature).
    """
    keyed = _keyed(secret.encode()).copy()
    keyed.update(body)
    return keyed.hexdigest()


def sign_standard(secret: str, id: str, seconds: int, body: bytes) -> str:
    """Return one signature in `webhook-signature`; `seconds` is the Unix time in `webhook-timestamp`."""
    keyed = _keyed(_key(secret)).copy()
    keyed.update(b"%b.%d.%b" % (id.encode(), seconds, body))
    return "v1," + base64.b64encode(keyed.digest()).decode()


def signed_headers(
    secret: str, previous: str | None, id: str, seconds: int, body: bytes
) -> list[tuple[str, str]]:
    """Return the headers by which a receiver can check an attempt made at the Unix time `seconds`.

    `previous` is the secret before the last roll while it signs too. The contract's header has room for one
    signature, so the other has a header of its own.
    """
    standard = [sign_standard(each, id, seconds, body) for each in (secret, previous) if each is not None]
    return [
        ("Ledger-Signature", sign(secret, body)),
        *([] if previous is None else [("Ledger-Signature-Previous", sign(previous, body))]),
        ("webhook-id", id),
        ("webhook-timestamp", str(seconds)),
        ("webhook-signature", " ".join(standard)),
    ]


@lru_cache(maxsize=256)
def _key(secret: str) -> bytes:
    """Return the key of Standard Webhooks: the bytes that stand behind `whsec_` in base64.

    Our own secrets are always base64. Any other text, which a server that `listen` follows may have, is the
    key itself.
    """
    text = secret.removeprefix("whsec_")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return text.encode()


@lru_cache(maxsize=512)
def _keyed(key: bytes) -> hmac.HMAC:
    """Return an HMAC to copy, which takes three quarters of the time of a new one."""
    return hmac.new(key, digestmod="sha256")
