"""The signature of a webhook, beside one that another program made."""

import hashlib
import hmac
import time

import pytest

from ledger_client import webhooks
from ledger_client.webhooks import is_signed, sign
from ledger_engine.events.webhooks import signing

SECRET = "whsec_0123456789abcdefghijABCDEFGHIJ01"
BODY = '{"id":"evt_1","object":"event","data":{"object":{"name":"Kaffeerösterei"}}}'.encode()
SIGNATURE = "6a02d9b7a867e2964265de2fcc0e34dbd1fe3a32ff00dfb66818031fe1a08c75"

# Made with `openssl dgst -sha256 -hmac SECRET`; docs/webhooks.md shows the same.
VECTORS = [
    ("whsec_test", b"{}", "46bdc2a2e83964bd2695acc6a1f97162d8bafc135a071aa5cd5c99aae5481440"),
    ("whsec_x", b"", "505df42dde47725c47e7246259168c36d0747ba8b80efd74931b6457cb67ceaa"),
    (SECRET, BODY, SIGNATURE),
]


@pytest.mark.parametrize(("secret", "body", "signature"), VECTORS)
def test_the_signature_is_the_hex_hmac_sha256_of_the_raw_body(
    secret: str, body: bytes, signature: str
) -> None:
    assert sign(body, secret) == signature
    assert is_signed(body, signature, secret)


@pytest.mark.parametrize(
    ("secret", "body", "header"),
    [
        (SECRET, BODY, ""),
        (SECRET, BODY, SIGNATURE[:-1]),
        (SECRET, BODY, SIGNATURE[:-1] + "6"),
        (SECRET, BODY, SIGNATURE.upper()),
        (SECRET, BODY, SIGNATURE + " "),
        (SECRET, BODY, "ä" * 64),
        (SECRET, BODY, "\udc80"),
        (SECRET, BODY + b" ", SIGNATURE),
        (SECRET.removeprefix("whsec_"), BODY, SIGNATURE),
    ],
)
def test_anything_else_is_no_signature_of_it(secret: str, body: bytes, header: str) -> None:
    assert not is_signed(body, header, secret)


def test_a_signed_webhook_is_verified_and_any_other_refused() -> None:
    secret, body = "whsec_dGVzdHRlc3R0ZXN0", b'{"id":"evt_1"}'
    headers = dict(signing.signed_headers(secret, None, "evt_1", int(time.time()), body))
    webhooks.verify(body, headers, secret)
    plain = {"ledger-signature": hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}
    webhooks.verify(body, plain, secret)
    old = dict(signing.signed_headers(secret, None, "evt_1", int(time.time()) - 301, body))
    for wrong_body, given in ((b"{}", headers), (b"{}", plain), (body, {}), (body, old)):
        with pytest.raises(webhooks.NotSigned):
            webhooks.verify(wrong_body, given, secret)
    rolled = dict(signing.signed_headers("whsec_bmV3", secret, "evt_1", int(time.time()), body))
    webhooks.verify(body, rolled, secret)
