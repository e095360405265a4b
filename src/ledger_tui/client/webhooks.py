"""Verify a webhook: for a receiver of the ledger's events.

A delivery carries `Ledger-Signature`, the lowercase hex HMAC-SHA-256 of the raw request body, keyed
with the endpoint's signing secret: all of its text, `whsec_` included, as UTF-8.
"""

from __future__ import annotations

import hmac

HEADER = "Ledger-Signature"


def sign(secret: str, body: bytes) -> str:
    """The signature of a raw body: 64 lowercase hex digits."""
    return hmac.digest(secret.encode(), body, "sha256").hex()


def verify(secret: str, body: bytes, header: str | None) -> bool:
    """Whether `header`, the value of `Ledger-Signature` or None where it is missing, signs this body.

    Give the bytes as they came: JSON that was read and written again is another body. It takes the same
    time however much of the signature is right.
    """
    given = (header or "").encode("utf-8", "surrogatepass")
    return hmac.compare_digest(sign(secret, body).encode(), given)
