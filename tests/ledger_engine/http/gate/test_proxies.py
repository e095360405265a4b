"""Whose address counts when proxies stand in front."""

from __future__ import annotations

from typing import Any

import pytest

from ledger_engine.http.gate.proxies import BehindProxies, parse_address

PEER = ("10.0.0.9", 4711)


async def seen(hops: int, *headers: tuple[str, str]) -> dict[str, Any]:
    """Return the scope that reaches the application."""
    found: list[dict[str, Any]] = []

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        found.append(scope)

    scope = {
        "type": "http",
        "client": PEER,
        "scheme": "http",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
    }
    await BehindProxies(app, hops)(scope, None, None)
    return found[0]


@pytest.mark.parametrize(
    ("hops", "forwarded", "address"),
    [
        (1, ["198.51.100.7"], "198.51.100.7"),
        (1, ["203.0.113.1, 198.51.100.7"], "198.51.100.7"),
        (1, ["203.0.113.1", "198.51.100.7"], "198.51.100.7"),
        (2, ["203.0.113.1, 198.51.100.7, 10.0.0.1"], "198.51.100.7"),
        (2, ["198.51.100.7, 10.0.0.1"], "198.51.100.7"),
        (2, ["10.0.0.1"], "10.0.0.9"),
        (1, [], "10.0.0.9"),
        (1, ["unknown"], "10.0.0.9"),
        (1, [""], "10.0.0.9"),
        (1, ["198.51.100.7, evil\x85"], "10.0.0.9"),
    ],
)
async def test_the_address_is_the_one_so_many_proxies_from_the_right(
    hops: int, forwarded: list[str], address: str
) -> None:
    scope = await seen(hops, *[("X-Forwarded-For", value) for value in forwarded])
    assert scope["client"][0] == address


@pytest.mark.parametrize(
    ("hops", "told", "scheme"),
    [
        (1, "https", "https"),
        (1, "http, https", "https"),
        (1, "gopher", "http"),
        (1, "", "http"),
        (2, "https", "https"),  # one is enough for all the proxies
        (2, "http, https, http", "https"),
    ],
)
async def test_the_scheme_is_the_one_the_proxy_was_called_with(hops: int, told: str, scheme: str) -> None:
    assert (await seen(hops, ("X-Forwarded-Proto", told)))["scheme"] == scheme


async def test_a_scope_that_is_no_request_is_passed_on_unchanged() -> None:
    passed: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope)

    lifespan = {"type": "lifespan"}
    await BehindProxies(app, 1)(lifespan, None, None)
    assert passed[0] is lifespan


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1:80", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]:80", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("192.0.2.256", None),
        ("_hidden", None),
        ("", None),
    ],
)
def test_an_address_is_read_in_its_usual_forms(text: str, address: str | None) -> None:
    assert parse_address(text) == address
