import subprocess
import sys

import pytest

from ledger_tui.client.stream import sign, verify

pytestmark = pytest.mark.process

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
    assert sign(secret, body) == signature
    assert verify(secret, body, signature)


@pytest.mark.parametrize(
    ("secret", "body", "header"),
    [
        (SECRET, BODY, None),
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
def test_anything_else_is_no_signature_of_it(secret: str, body: bytes, header: str | None) -> None:
    assert not verify(secret, body, header)


def test_a_receiver_needs_neither_a_screen_nor_an_http_client_for_it() -> None:
    program = "import sys, ledger_tui.client.stream; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"textual", "httpx"} & {name.partition(".")[0] for name in loaded.stdout.split()}
