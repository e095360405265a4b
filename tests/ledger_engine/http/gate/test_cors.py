"""What pages of other origins may read (docs/deploy.md#let-web-pages-use-the-server)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from ledger_engine.core.settings import BadSettings, ServeSettings
from ledger_engine.http.app import create_app
from ledger_engine.store.engine import Engine
from tests.contract.rules import holds
from tests.ledger_engine.conftest import MakeKey
from tests.ledger_engine.in_process import client_of

SHOP = "https://shop.example"
ASKS = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}


@pytest_asyncio.fixture
async def page(engine: Engine, make_key: MakeKey) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of a server that lets pages of SHOP in, which sends no credential by itself."""
    async with client_of(create_app(engine, cors_origins=(SHOP, "http://localhost:3000"))) as client:
        yield client


def cors(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


@holds("conventions-cors")
async def test_a_page_of_a_named_origin_may_read_answers_and_their_rate_headers(
    page: httpx.AsyncClient, make_key: MakeKey
) -> None:
    key = {"Authorization": f"Bearer {await make_key()}"}
    for answer in (
        await page.get("/v1/accounts", headers={"Origin": SHOP, **key}),
        await page.get("/v1/accounts", headers={"Origin": SHOP}),
        await page.get("/v1/nothing", headers={"Origin": SHOP, **key}),
    ):
        told = cors(answer)
        assert told.pop("access-control-allow-origin") == SHOP
        readable = {name.strip().lower() for name in told.pop("access-control-expose-headers").split(",")}
        assert {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"} <= readable
        assert {"retry-after", "request-id", "idempotency-original"} <= readable
        assert told == {}
        assert answer.headers["Vary"] == "Origin"


@holds("conventions-cors")
async def test_a_preflight_is_answered_with_what_may_be_sent_and_is_not_counted(
    page: httpx.AsyncClient,
) -> None:
    answers = [await page.options("/v1/accounts", headers={"Origin": SHOP, **ASKS}) for _ in range(100)]
    assert {answer.status_code for answer in answers} == {200}
    told = cors(answers[-1])
    assert told["access-control-allow-origin"] == SHOP
    assert "POST" in told["access-control-allow-methods"]
    allowed = {name.strip() for name in told["access-control-allow-headers"].split(",")}
    assert {"Authorization", "Idempotency-Key", "Traceparent"} <= allowed
    assert "access-control-allow-credentials" not in told
    remaining = {answer.headers["X-RateLimit-Remaining"] for answer in answers}
    assert len(remaining) == 1
    assert answers[-1].headers["Request-Id"].startswith("req_")


@holds("conventions-cors")
@pytest.mark.parametrize(
    "origin", ["https://shop.example.evil", "http://shop.example", "https://SHOP.example", "null", "*", ""]
)
async def test_a_page_of_another_origin_is_told_nothing(page: httpx.AsyncClient, origin: str) -> None:
    answer = await page.get("/v1/accounts", headers={"Origin": origin})
    assert (answer.status_code, cors(answer), answer.headers["Vary"]) == (401, {}, "Origin")
    preflight = await page.options("/v1/accounts", headers={"Origin": origin, **ASKS})
    assert (preflight.status_code, cors(preflight)) == (401, {})


async def test_options_that_are_no_preflight_are_a_wrong_method(
    page: httpx.AsyncClient, make_key: MakeKey
) -> None:
    headers = {"Origin": SHOP, "Authorization": f"Bearer {await make_key()}"}
    assert (await page.options("/v1/accounts", headers=headers)).status_code == 405


@holds("conventions-cors")
async def test_without_the_option_no_answer_has_such_headers(anyone: httpx.AsyncClient) -> None:
    answer = await anyone.get("/api/health", headers={"Origin": SHOP})
    assert (cors(answer), "Vary" in answer.headers) == ({}, False)
    assert (await anyone.options("/v1/accounts", headers={"Origin": SHOP, **ASKS})).status_code == 401


@pytest.mark.parametrize(
    "origin",
    [
        "*",
        "null",
        "shop.example",
        "https://shop.example/",
        "https://*.shop.example",
        "https://Shop.example",
        "https://shop.example:443",
        "http://localhost:80",
        "http://localhost:0",
        "http://localhost:70000",
        "https://ada@shop.example",
        "https://shop.example\n",
        "ftp://shop.example",
    ],
)
def test_an_origin_that_no_browser_sends_is_refused(origin: str) -> None:
    with pytest.raises(BadSettings, match="--cors-origin"):
        ServeSettings(None, cors_origins=(origin,)).check()
    ServeSettings(None, cors_origins=(SHOP, "http://localhost:3000", "http://[::1]:5173")).check()
