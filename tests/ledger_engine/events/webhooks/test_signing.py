"""Sealed secrets, and the signatures of a delivery against published examples."""

from __future__ import annotations

import pytest

from ledger_engine.events.webhooks.endpoints import new_secret
from ledger_engine.events.webhooks.signing import (
    PREVIOUS,
    VARIABLE,
    Seal,
    WrongKey,
    sign,
    sign_standard,
    signed_headers,
)

# Sealing


SECRET = "whsec_0123456789abcdef"


def test_without_a_key_a_secret_is_stored_as_it_is() -> None:
    stored = Seal(None).seal(SECRET)
    assert stored == SECRET
    assert Seal(None).open(stored) == SECRET


def test_with_a_key_nothing_of_it_can_be_read() -> None:
    seal = Seal("correct horse")
    stored = seal.seal(SECRET)
    assert SECRET not in stored
    assert stored != seal.seal(SECRET), "equal secrets do not look equal"
    assert Seal("correct horse").open(stored) == SECRET


def test_a_secret_from_before_there_was_a_key_is_still_read() -> None:
    assert Seal("correct horse").open(SECRET) == SECRET


@pytest.mark.parametrize("key", [None, "", "battery staple"])
def test_another_key_or_none_does_not_open_it(key: str | None) -> None:
    stored = Seal("correct horse").seal(SECRET)
    with pytest.raises(WrongKey, match=VARIABLE):
        Seal(key).open(stored)


def test_the_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "correct horse")
    stored = Seal.from_environment().seal(SECRET)
    assert Seal("correct horse").open(stored) == SECRET
    monkeypatch.setenv(VARIABLE, "battery staple")
    monkeypatch.setenv(PREVIOUS, "correct horse")
    assert Seal.from_environment().open(stored) == SECRET
    monkeypatch.delenv(VARIABLE)
    assert Seal.from_environment().seal(SECRET) == SECRET


def test_a_secret_sealed_with_another_key_or_none_is_sealed_again() -> None:
    before, now = Seal("correct horse"), Seal("battery staple", previous="correct horse")
    for old in (SECRET, before.seal(SECRET)):
        again = now.reseal(old)
        assert again is not None
        assert Seal("battery staple").open(again) == SECRET
        assert now.reseal(again) is None
    assert now.reseal(Seal("a third").seal(SECRET)) is None
    assert Seal(None).reseal(SECRET) is None


# Signatures


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
