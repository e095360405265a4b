"""Checks the signature of a webhook: act only on webhooks that your ledger signed."""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from collections.abc import Mapping


class NotSigned(Exception):
    """The body was not signed with the secret, or was signed too long ago."""


def verify(body: bytes, headers: Mapping[str, str], secret: str, tolerance_s: float = 300) -> None:
    """Raise NotSigned unless the raw body was signed with the endpoint's secret.

    If `headers` contain `webhook-signature` (Standard Webhooks), this signature must be valid, and its time
    must be at most `tolerance_s` seconds from now. Otherwise the signature in `Ledger-Signature` or in
    `Ledger-Signature-Previous` must be valid. These two headers contain no time, so `tolerance_s` has no
    effect. For a day after you roll a secret the ledger signs with the old and the new secret: pass one of
    these two secrets.
    """
    by_name = {name.lower(): value for name, value in headers.items()}
    if "webhook-signature" in by_name:
        _verify_standard(body, by_name, secret, tolerance_s)
        return
    signatures = [by_name.get(name, "") for name in ("ledger-signature", "ledger-signature-previous")]
    if not any(is_signed(body, signature, secret) for signature in signatures):
        raise NotSigned("The signature is not valid.")


def sign(body: bytes, secret: str) -> str:
    """Return the value of `Ledger-Signature` for a raw body: 64 lowercase hex digits."""
    return hmac.new(secret.encode(), body, "sha256").hexdigest()


def is_signed(body: bytes, signature: str, secret: str) -> bool:
    """Return whether this value of `Ledger-Signature` signs the raw body, compared in constant time."""
    return hmac.compare_digest(sign(body, secret).encode(), signature.encode("utf-8", "replace"))


def _verify_standard(body: bytes, by_name: Mapping[str, str], secret: str, tolerance_s: float) -> None:
    text = by_name.get("webhook-timestamp", "")
    seconds = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
    if abs(time.time() - seconds) > tolerance_s:
        raise NotSigned("The signature is too old, or from the future.")
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        key = secret.removeprefix("whsec_").encode()
    content = b"%b.%d.%b" % (by_name.get("webhook-id", "").encode(), seconds, body)
    own = "v1," + base64.b64encode(hmac.new(key, content, "sha256").digest()).decode()
    signatures = by_name["webhook-signature"].split(" ")
    if not any(hmac.compare_digest(own.encode(), signature.encode()) for signature in signatures):
        raise NotSigned("The signature is not valid.")
