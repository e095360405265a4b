"""Signing in through the browser works on the real server, and other requests to the loopback address are
harmless.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from ledger_client.tokens import is_final
from ledger_tui.client.oauth import OAuthApp, SignIn, SignInFailed, code_challenge, exchange_grant
from tests.ledger_tui.signing_in import Ledger, decide

pytestmark = pytest.mark.process


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    running = Ledger(tmp_path)
    yield running
    running.server.stop()


@pytest.fixture
async def browser() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(follow_redirects=True) as client:
        yield client


async def test_a_user_signs_in_and_the_tokens_work_and_rotate(
    ledger: Ledger, browser: httpx.AsyncClient
) -> None:
    async with SignIn(ledger.app) as sign_in:
        waiting = asyncio.create_task(sign_in.answer())
        back = await decide(browser, ledger, sign_in.url, "allow")
        answer = await waiting
    assert "You are signed in." in back.text
    assert back.headers["Referrer-Policy"] == "no-referrer"
    headers = {"Authorization": f"Bearer {answer.access_token}"}
    assert (await browser.get(f"{ledger.url}/v1/accounts", headers=headers)).status_code == 200
    assert answer.refresh_token is not None
    second = await exchange_grant(ledger.app, refresh_token=answer.refresh_token)
    assert second.refresh_token not in (None, answer.refresh_token)
    with pytest.raises(SignInFailed) as refused:
        await exchange_grant(ledger.app, refresh_token=answer.refresh_token)
    assert is_final(refused.value)


async def test_a_user_who_refuses_is_reported(ledger: Ledger, browser: httpx.AsyncClient) -> None:
    async with SignIn(ledger.app) as sign_in:
        waiting = asyncio.create_task(sign_in.answer())
        await decide(browser, ledger, sign_in.url, "deny")
        with pytest.raises(SignInFailed, match="refused the sign-in"):
            await waiting


def test_the_challenge_is_that_of_rfc_7636() -> None:
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert code_challenge(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


APP = OAuthApp("http://127.0.0.1:9", "app_1", "read:projects")


def query_of(link: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(link).query).items()}


async def come_back(link: str, path: str = "", method: str = "GET", **query: str) -> httpx.Response:
    """Send what a browser, or any program on this machine, may send to the loopback address."""
    where = query_of(link)["redirect_uri"]
    async with httpx.AsyncClient() as client:
        return await client.request(
            method, where.removesuffix("/callback") + (path or "/callback"), params=query
        )


async def test_each_try_asks_with_a_state_and_a_challenge_of_its_own() -> None:
    async with SignIn(APP) as first, SignIn(APP) as second:
        ours, theirs = query_of(first.url), query_of(second.url)
    assert (ours["client_id"], ours["scope"]) == ("app_1", "read:projects")
    assert (ours["response_type"], ours["code_challenge_method"]) == ("code", "S256")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/callback", ours["redirect_uri"])
    for name in ("state", "code_challenge", "redirect_uri"):
        assert ours[name] != theirs[name]
    assert len(ours["state"]) >= 32


async def test_an_answer_without_our_state_changes_nothing() -> None:
    async with SignIn(APP) as sign_in:
        waiting = asyncio.create_task(sign_in.answer())
        state = query_of(sign_in.url)["state"]
        for answer, status in (
            (await come_back(sign_in.url, code="x"), 400),
            (await come_back(sign_in.url, code="x", state="guess"), 400),
            (await come_back(sign_in.url, error="access_denied", state=""), 400),
            (await come_back(sign_in.url, path="/", code="x", state=state), 404),
            (await come_back(sign_in.url, method="POST", code="x", state=state), 405),
        ):
            assert answer.status_code == status
        assert not waiting.done()
        waiting.cancel()


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"code": "x", "iss": "https://evil.example"}, "another server"),
        ({"error": "access_denied", "error_description": "The user said no."}, "The user said no."),
        ({"code": ""}, "no code"),
    ],
)
async def test_an_answer_that_is_not_good_ends_the_waiting(query: dict[str, str], sentence: str) -> None:
    async with SignIn(APP) as sign_in:
        waiting = asyncio.create_task(sign_in.answer())
        await come_back(sign_in.url, state=query_of(sign_in.url)["state"], **query)
        with pytest.raises(SignInFailed, match=sentence):
            await waiting


async def test_a_second_answer_is_not_taken() -> None:
    async with SignIn(APP) as sign_in:
        waiting = asyncio.create_task(sign_in.answer())
        state = query_of(sign_in.url)["state"]
        await come_back(sign_in.url, state=state, error="access_denied")
        assert (await come_back(sign_in.url, state=state, code="x")).status_code == 400
        with pytest.raises(SignInFailed):
            await waiting


async def test_a_flood_without_end_is_not_kept() -> None:
    async with SignIn(APP) as sign_in:
        parts = urlsplit(query_of(sign_in.url)["redirect_uri"])
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(b"GET /" + b"x" * 100_000)
        assert await reader.read() == b""
        writer.close()


def test_beyond_this_machine_it_takes_https() -> None:
    with pytest.raises(SignInFailed, match="https"):
        OAuthApp("http://ledger.example.com", "app_1", "")
    OAuthApp("https://ledger.example.com", "app_1", "")
