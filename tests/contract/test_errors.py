"""docs/interface.md#errors; docs/decisions.md#conventions and #errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

import ledger_engine
from ledger_engine.core.errors import AuthenticationError, Conflict, InvalidRequest, PermissionDenied
from ledger_engine.http.errors import CODES, status_of
from tests.contract.clockwork import Clockwork
from tests.contract.conftest import code_of
from tests.contract.raw import Wire
from tests.contract.rules import holds

TILL = '"name": "Till", "currency": "EUR"'


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


@holds("errors-json", "errors-ledger-body", "error-param-null", "errors-404")
def test_the_ledgers_error_has_these_members(api: httpx.Client) -> None:
    for answer in (api.get("/v1/accounts/acc_none"), api.post("/v1/accounts", content="{")):
        assert answer.headers["Content-Type"] == "application/json"
        body = answer.json()
        assert list(body) == ["error"]
        assert list(body["error"]) == ["type", "code", "message", "param"]
        assert body["error"]["param"] is None
        assert body["error"]["message"].endswith(".")


@holds("conventions-strict", "errors-400", "error-codes")
@pytest.mark.parametrize(
    "body",
    [
        "",
        "null",
        "[]",
        "{",
        "{" + TILL + ', "name": "Other"}',
        "{" + TILL + ', "metadata": {"k": "a", "k": "b"}}',
        "{" + TILL + ', "metadata": NaN}',
        "{" + TILL + ', "metadata": ' + deep(32) + "}",
        deep(400_000),
        '{"name": "\\ud800", "currency": "EUR"}',
        '{"name": "Ti\\u0000ll", "currency": "EUR"}',
        "\ufeff{" + TILL + "}",
        "{" + TILL + "} // comment",
    ],
)
def test_a_body_is_one_strict_json_object(api: httpx.Client, body: str) -> None:
    answer = api.post("/v1/accounts", content=body.encode())
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")
    assert api.get("/v1/accounts").json()["data"] == []


@holds("conventions-strict")
@pytest.mark.parametrize(
    "body", [b'{"name": "\xff", "currency": "EUR"}', b'{"name": "\xed\xa0\x80"}', b"\xff\xfe{\x00}\x00"]
)
def test_a_body_is_utf_8(api: httpx.Client, body: bytes) -> None:
    assert api.post("/v1/accounts", content=body).json()["error"]["code"] == "invalid_json"


@holds("conventions-strict")
def test_a_body_may_be_nested_32_deep(api: httpx.Client) -> None:
    user = api.post("/api/users", json={"name": "Ada", "email": "ada@example.com"}).json()["id"]
    for levels, status in [(29, 201), (30, 400)]:
        body = '{"user_id": "' + user + '", "items": [{"x": ' + deep(levels) + "}]}"
        assert api.post("/api/orders", content=body).status_code == status


@holds("conventions-strict")
@pytest.mark.parametrize("text", ["\\ud83e\\uddc0", "🧀", "\u2028", "\x7f", "ﷺ", "\u202eabc"])
def test_any_other_text_comes_back_as_it_was_sent(api: httpx.Client, text: str) -> None:
    body = '{"name": "' + text + '", "currency": "EUR"}'
    answer = api.post("/v1/accounts", content=body.encode())
    assert answer.status_code == 201
    expected = "🧀" if text.startswith("\\") else text
    assert answer.json()["name"] == expected
    assert api.get(f"/v1/accounts/{answer.json()['id']}").json()["name"] == expected


@holds("conventions-content-type", "error-codes")
@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        (None, 201),
        ("application/json", 201),
        ("application/json; charset=utf-8", 201),
        ("Application/JSON ;charset=UTF-8", 201),
        ("text/plain", 400),
        ("application/x-www-form-urlencoded", 400),
        ("application/jsonp", 400),
        ("", 400),
        (";", 400),
    ],
)
def test_a_body_is_json_unless_its_type_says_otherwise(
    wire: Wire, content_type: str | None, status: int
) -> None:
    body = ("{" + TILL + "}").encode()
    lines = [] if content_type is None else [f"Content-Type: {content_type}"]
    answer = wire.ask(wire.head("POST", "/v1/accounts", f"Content-Length: {len(body)}", *lines) + body)
    assert answer.status == status
    if status == 400:
        assert answer.json()["error"]["code"] == "unsupported_content_type"


@holds("error-codes")
def test_every_code_in_the_sources_is_one_of_the_table() -> None:
    refusals = (InvalidRequest, AuthenticationError, PermissionDenied, Conflict)
    kinds = {each.__name__: each for each in refusals}
    raising = re.compile(rf'({"|".join(kinds)}|_malformed|super\(\)\.__init__)\(\s*"([a-z_]+)"')
    sources = Path(ledger_engine.__file__).parent.rglob("*.py")
    raised = {found for source in sources for found in raising.findall(source.read_text(encoding="utf-8"))}
    assert len(raised) > 20
    every = {code for _, codes in CODES.values() for code in codes} | {"rate_limited"}
    for kind, code in raised:
        of_status = CODES[status_of(kinds[kind](code, ""))][1] if kind in kinds else every
        assert code in of_status, (kind, code)


@holds("errors-500", "errors-json", "error-nothing-inside", "error-codes", "rates-headers")
@pytest.mark.parametrize(("is_known", "limit"), [(True, "6000"), (False, "60")])
def test_a_500_names_the_request_and_no_internals(
    clockwork: Clockwork, monkeypatch: pytest.MonkeyPatch, is_known: bool, limit: str
) -> None:
    """So it is for a credential that cannot be looked up, too."""
    api = clockwork.client(clockwork.key(clockwork.project()))
    if is_known:
        assert api.get("/v1/accounts").status_code == 200

    async def fail(_: Any) -> None:
        raise RuntimeError("secret of the inside")

    for name in ("read", "read_short"):
        monkeypatch.setattr(clockwork.engine, name, fail)
    for path in ("/v1/accounts", "/api/orders"):
        answer = api.get(path)
        assert code_of(answer) == (500, "internal_error")
        assert "secret" not in answer.text
        assert answer.headers["Request-Id"] in answer.text
        assert answer.headers["X-RateLimit-Limit"] == limit
