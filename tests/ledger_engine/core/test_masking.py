"""Secrets in other texts: found wherever and however they stand there, and cut to their kind."""

from __future__ import annotations

import json

import pytest

from ledger_engine.core.masking import MASK, holds_secret, masked

VALUES = [
    "sk_test_" + "a" * 28 + "WXYZ",
    "sk_live_" + "b" * 32,
    "at_" + "c" * 32,
    "rt_" + "d" * 32,
    "ac_" + "f" * 32,
    "si_" + "g" * 32,
    "whsec_" + "e" * 32,
]
SECRETS = [*VALUES, "open sesame", 'quo\\"ted']


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "member",
    [
        "password",
        "secret",
        "client_secret",
        "code_verifier",
        "access_token",
        "refresh_token",
        "api_key",
        "token",
    ],
)
def test_no_secret_is_shown_in_a_member_that_holds_one(secret: str, member: str) -> None:
    text = f'{{"a": 1, "{member}" : "{secret}", "b": "kept"}}'
    shown = masked(text)
    assert secret not in shown
    assert secret[-6:] not in shown
    assert '"b": "kept"' in shown
    assert json.loads(shown)[member].endswith(MASK)
    assert secret not in masked(text[: text.index(secret) + len(secret) - 1]), "cut off in the middle"


@pytest.mark.parametrize("secret", VALUES)
@pytest.mark.parametrize(
    "around",
    [
        '{"name":"?"}',
        "api_key=?&b=c",
        "id: 1\ndata: ?\n",
        r'{"name":"the key is\n?"}',
        r'{"name":"the key is\t?, or\r\n? again"}',
        "note=%0A?",
        "/v1/accounts/x_?",
        "KEY_?_END",
        "key?",
    ],
)
def test_no_key_or_token_is_shown_anywhere(secret: str, around: str) -> None:
    text = around.replace("?", secret)
    shown = masked(text)
    assert secret[-20:] not in shown
    assert MASK in shown
    assert secret[-20:] not in masked(text[: text.index(secret) + len(secret) - 1]), "cut off in the middle"


@pytest.mark.parametrize("secret", VALUES)
def test_an_escape_hides_nothing(secret: str) -> None:
    for escaped in (
        secret.replace("_", "%5F"),
        secret.replace("_", "%5f"),
        "".join(f"%{ord(letter):02X}" for letter in secret),
        rf"\u{ord(secret[0]):04x}{secret[1:]}",
        "".join(rf"\u{ord(letter):04X}" for letter in secret),
    ):
        assert masked(f"note={escaped}&b=c") == f"note={secret.rpartition('_')[0]}_{MASK}&b=c"
    assert masked(r'{"pass\u0077ord":"open sesame"}') == f'{{"password":"{MASK}"}}'


@pytest.mark.parametrize("secret", [value for value in VALUES if value[:3] not in ("ac_", "si_")])
def test_a_whole_secret_is_found(secret: str) -> None:
    assert holds_secret(secret)
    assert holds_secret(f"again {secret}")
    assert not holds_secret(secret[:-1])


def test_a_word_with_the_end_of_a_kind_is_no_secret() -> None:
    assert not holds_secret("chat_" + "0" * 32)
    assert masked("format_plain") == "format_plain"


@pytest.mark.parametrize(
    "text",
    [
        '{"id":"acc_01kafzq8yrew4r2h6sfvcm0x5t","created_at":1,"error":{"code":"missing_field"}}',
        '{"last4":"WXYZ","name":"at_home"}',
        "q=100%25&name=caf%C3%A9",
        r'{"name":"caf\u00e9 \u0041"}',
    ],
)
def test_a_value_that_is_no_secret_is_shown(text: str) -> None:
    assert masked(text) == text
