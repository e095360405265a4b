"""Checks that a webhook came from the ledger, before anybody believes it."""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from collections.abc import Mapping


class NotSigned(Exception):
    """The body was not signed with the secret, or too long ago."""


def verify(body: bytes, headers: Mapping[str, str], secret: str, tolerance_s: float = 300) -> None:
    """Raise NotSigned unless the raw body was signed with the endpoint's secret.

    Where `webhook-signature` is there (Standard Webhooks), it must hold and be at most `tolerance_s` seconds
    old; otherwise `Ledger-Signature` must hold, which has no time. After a roll the secret before it signs
    too for a day, so either of the two may be given.
    """
    given = {name.lower(): value for name, value in headers.items()}
    if "webhook-signature" in given:
        _verify_standard(body, given, secret, tolerance_s)
        return
    signatures = [given.get(name, "") for name in ("ledger-signature", "ledger-signature-previous")]
    if not any(is_signed(body, each, secret) for each in signatures):
        raise NotSigned("The signature does not hold.")


def sign(body: bytes, secret: str) -> str:
    """Return the value of `Ledger-Signature` for a raw body: 64 lowercase hex digits."""
    return hmac.new(secret.encode(), body, "sha256").hexdigest()


def is_signed(body: bytes, signature: str, secret: str) -> bool:
    """Return whether the value of `Ledger-Signature` signs the raw body, in the same time for any."""
    return hmac.compare_digest(sign(body, secret).encode(), signature.encode("utf-8", "replace"))


def _verify_standard(body: bytes, given: Mapping[str, str], secret: str, tolerance_s: float) -> None:
    text = given.get("webhook-timestamp", "")
    seconds = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
    if abs(time.time() - seconds) > tolerance_s:
        raise NotSigned("The signature is too old, or from the future.")
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        key = secret.removeprefix("whsec_").encode()
    signed = b"%b.%d.%b" % (given.get("webhook-id", "").encode(), seconds, body)
    expected = "v1," + base64.b64encode(hmac.new(key, signed, "sha256").digest()).decode()
    signatures = given["webhook-signature"].split(" ")
    if not any(hmac.compare_digest(expected.encode(), each.encode()) for each in signatures):
        raise NotSigned("The signature does not hold.")
