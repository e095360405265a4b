"""Every client against every hostile server: one sentence says what is wrong, and what is read is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from click import ClickException

from bench.terminal import Terminal
from ledger_client import AsyncLedger, Ledger, LedgerError, event_stream
from ledger_client import ledger as client
from ledger_client.answers import BoundedClient
from ledger_client.errors import Unreadable
from ledger_engine.cli import asking, listening
from ledger_engine.cli.listening import StreamRefusal, WebhookListener
from ledger_engine.testing import server as testing
from ledger_engine.testing.server import LedgerServer
from ledger_engine.tools.conform import examination
from ledger_engine.tools.conform.examiner import Unreachable
from ledger_engine.tools.seed.deeds import Past
from ledger_engine.tools.seed.traffic import DemoTraffic
from ledger_tui.client import oauth, transport
from ledger_tui.client.api import Api
from ledger_tui.client.figures import read_deliveries
from ledger_tui.client.lists import fetch_page, learn_account
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Want
from ledger_tui.client.session import Session
from ledger_tui.client.stream import EventLine
from ledger_tui.client.traffic import Traffic as Exchanges
from tests.ledger_client.hostile_server import BROKEN, SLOW, Hostile, Parts, hostile

KEY = "sk_test_0123456789abcdef0123456789abcdef"
BYTES_MAX = 1_000_000
# What the system holds of a connection that nobody reads, for each of the few that a client opens.
HELD_BYTES = 12_000_000
Use = Callable[[str, float], Awaitable[None]]


async def no_wait(_seconds: float) -> None:
    await asyncio.sleep(0)


async def conforms(url: str, seconds: float) -> None:
    with contextlib.suppress(Unreachable):
        async with BoundedClient(
            bytes_max=BYTES_MAX, seconds_max=seconds, base_url=url, trust_env=False, timeout=60
        ) as client:
            verdicts = await examination.examine(client, KEY, "run", read_only=False, sleep=no_wait)
        assert any(verdict.result == "failed" for verdict in verdicts)
        assert examination.junit(verdicts, url)


class Told(Exception):
    """The listener has said something; it would try again without end."""


async def listens(url: str, _seconds: float) -> None:
    def tell(line: str) -> None:
        if line.startswith("Not connected"):
            raise Told

    with contextlib.suppress(StreamRefusal, Told):
        await WebhookListener(url, KEY, url, "whsec_dGVzdA==", tell).run()


async def asks(url: str, _seconds: float) -> None:
    target = asking.ServerTarget(url, KEY, livemode=False, project=None, database=Path("none.db"))
    with contextlib.suppress(ClickException):
        async with target.connected("api") as ledger:
            await ledger.request("GET", "/v1/accounts")


async def shows(url: str, _seconds: float) -> None:
    """Ask as the dashboard does: each kind of list, an object, the stream and tokens."""
    api = Api(Session(), Exchanges())
    await api.open(url, KEY)
    want = Want(0, "page", 0, None)
    uses: list[Callable[[], Awaitable[object]]] = [
        lambda: api.call("POST", "/v1/accounts", body={}),
        lambda: api.call("GET", "/v1/accounts/acc_1/statement"),
        lambda: _first(EventLine(api)),
        lambda: oauth.exchange_grant(oauth.OAuthApp(url, "app_1", "read:users"), refresh_token="rt_1"),
    ]
    if await _answers(api):
        uses += [
            lambda: fetch_page(api, "/v1/accounts", {}, want),
            lambda: fetch_page(api, "/api/users", {}, want),
            lambda: fetch_page(api, "/v1/accounts/acc_1/statement", {}, want),
            lambda: learn_account(api, AccountNames(), "acc_1"),
            lambda: read_deliveries(api),
        ]
    try:
        for use in uses:
            with contextlib.suppress(LedgerError):
                await use()
    finally:
        await api.close()


async def _answers(api: Api) -> bool:
    """Return whether a read would end, which goes on until there is an answer."""
    try:
        return (await api.call("GET", "/v1/accounts")).status < 400
    except LedgerError:
        return False


async def _first(line: EventLine) -> None:
    async for _ in line.listen():
        pass


async def sends(url: str, seconds: float) -> None:
    """Send as the demo's clients do."""
    traffic = DemoTraffic(url, {"tills": KEY}, Past([], [], []), 1)
    async with AsyncLedger(url, attempts=1, seconds_max=seconds) as traffic._ledger:
        with contextlib.suppress(LedgerError):
            await traffic.send("tills", "GET", "/v1/accounts")


async def connects(url: str, _seconds: float) -> None:
    """Connect as the pytest plugin does."""
    with pytest.raises((ConnectionError, ValueError)):
        await asyncio.to_thread(LedgerServer.connect, url, KEY)


async def calls(url: str, _seconds: float) -> None:
    """Call as an app does, with both clients."""
    async with AsyncLedger(url, KEY, attempts=1) as ledger:
        for use in (
            lambda: ledger.accounts.create("Till", "EUR"),
            lambda: ledger.accounts.get("acc_1"),
            lambda: ledger.transactions.batch([]),
            lambda: anext(ledger.accounts.list()),
            lambda: anext(ledger.users.list()),
            lambda: ledger.log.checkpoint(),
            lambda: anext(ledger.listen()),
        ):
            with contextlib.suppress(LedgerError, StopAsyncIteration):
                await use()
    await asyncio.to_thread(_calls, url)


def _calls(url: str) -> None:
    with Ledger(url, KEY, attempts=1) as ledger:
        for use in (
            lambda: ledger.accounts.get("acc_1"),
            lambda: next(ledger.accounts.list()),
        ):
            with contextlib.suppress(LedgerError, StopIteration):
                use()


CLIENTS: list[Use] = [conforms, listens, asks, shows, sends, connects, calls]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client wait for no other attempt."""
    monkeypatch.setattr(client, "sleep", no_wait)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits of what is read, so that reaching them is cheap."""
    monkeypatch.setattr(transport, "ANSWER_BYTES_MAX", BYTES_MAX)
    monkeypatch.setattr(testing, "LIST_BYTES_MAX", BYTES_MAX)
    monkeypatch.setattr(event_stream, "EVENT_BYTES_MAX", BYTES_MAX)
    monkeypatch.setattr("ledger_client.parsing.VALUES_MAX", 100_000)
    monkeypatch.setattr("ledger_client.answers.LIST_BYTES_MAX", BYTES_MAX)
    monkeypatch.setattr(Session, "waiting_seconds", 0)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("use", CLIENTS, ids=lambda use: use.__name__)
@pytest.mark.parametrize("behaviour", BROKEN)
async def test_a_broken_answer_is_an_error_of_the_client_and_read_within_limits(
    behaviour: str, use: Use
) -> None:
    async with hostile(BROKEN[behaviour]) as server:
        await use(server.url, 60)
    assert server.sent < 12 * (BYTES_MAX + HELD_BYTES)


@pytest.mark.usefixtures("small")
async def test_the_dashboard_does_not_ask_again_for_an_answer_that_is_too_large() -> None:
    api = Api(Session(), Exchanges())
    async with hostile(BROKEN["endless chunks"]) as server:
        await api.open(server.url, KEY)
        with pytest.raises(Unreadable, match=r"^the answer is larger than 1 MB$"):
            await api.read("/v1/accounts")
        await api.close()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("parts", [SLOW["a body that does not end"], BROKEN["endless chunks"]])
async def test_the_dashboard_quits_while_an_answer_does_not_end(parts: Parts, tmp_path: Path) -> None:
    async with hostile(parts, hangs=True) as server:
        assert await asyncio.to_thread(_quit, server, tmp_path) == 0


def _quit(server: Hostile, folder: Path) -> int | None:
    """Press q in a dashboard whose first answers are on their way; return its exit status."""
    command = [sys.executable, "-m", "ledger_tui", "--url", server.url]
    environment = {"LEDGER_TUI_CONFIG": str(folder / "config.toml"), "LEDGER_API_KEY": KEY}
    with Terminal(command, 80, 24, environment) as terminal:
        terminal.until("keys")
        while not server.sent:
            terminal.read(0.05)
        terminal.press("q")
        while terminal.process.poll() is None:
            terminal.read(0.05)
        return terminal.process.returncode


@pytest.mark.parametrize("use", CLIENTS, ids=lambda use: use.__name__)
@pytest.mark.parametrize("behaviour", SLOW)
async def test_an_answer_that_does_not_end_is_waited_for_within_a_time(
    behaviour: str, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in (
        (transport, "ANSWER_SECONDS_MAX"),
        *((listening, "SILENCE_TIMEOUT_S"), (testing, "_TIMEOUT_S"), (asking, "ANSWER_SECONDS_MAX")),
        (client, "SECONDS_MAX"),
    ):
        monkeypatch.setattr(module, name, 0.05)
    async with asyncio.timeout(120), hostile(SLOW[behaviour], hangs=True) as server:
        await use(server.url, 0.05)
