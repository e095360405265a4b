"""The signatures of a delivery, against published examples."""

from __future__ import annotations

from ledger_engine.events.webhooks.endpoints import new_secret
from ledger_engine.events.webhooks.signatures import sign, sign_standard, signed_headers


def test_the_signature_is_that_of_the_published_example_of_standard_webhooks() -> None:
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
    signature = sign_standard(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_delivery_is_signed_by_both_schemes_and_once_for_each_secret() -> None:
    secret, previous = new_secret(), new_secret()
    headers = dict(signed_headers(secret, previous, "evt_1", 17, b"{}"))
    assert headers == {
        "Ledger-Signature": sign(secret, b"{}"),
        "Ledger-Signature-Previous": sign(previous, b"{}"),
        "webhook-id": "evt_1",
        "webhook-timestamp": "17",
        "webhook-signature": " ".join(sign_standard(each, "evt_1", 17, b"{}") for each in (secret, previous)),
    }


def test_a_secret_that_is_not_base64_signs_as_it_stands() -> None:
    assert sign_standard("whsec_x", "evt_1", 1, b"") != sign_standard("whsec_y", "evt_1", 1, b"")
