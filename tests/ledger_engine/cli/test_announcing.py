"""What `serve` prints once it serves."""

from __future__ import annotations

import pytest

from ledger_engine.cli.serve import _announce
from ledger_engine.server import Ready


@pytest.mark.parametrize(
    ("host", "here"), [("0.0.0.0", "127.0.0.1"), ("[::]", "[::1]"), ("10.0.0.7", "10.0.0.7")]
)
def test_the_request_to_try_goes_to_an_address_that_can_be_asked(
    capsys: pytest.CaptureFixture[str], host: str, here: str
) -> None:
    _announce(Ready(f"http://{host}:8700", "sk_test_1", None, None), None)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == f"Listening on http://{host}:8700"
    assert told[2] == f'Try it: curl http://{here}:8700/v1/accounts -H "Authorization: Bearer sk_test_1"'
