"""Each failure is a state with a sentence, from which the dashboard recovers by itself."""

import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from quart import Response, jsonify, request

from ledger_tui.app.application import LedgerApp
from ledger_tui.client import api, session, transport
from ledger_tui.client.session import ConnectionState
from ledger_tui.settings.config import Options, parse_config
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until
from tests.ledger_tui.line import Line


async def test_a_lost_server_is_a_state_with_a_count_and_comes_back(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Before")
    async with dashboards.open() as driver:
        await driver.sees("Before")
        server.stop()
        await driver.sees("✕ connection refused · try 2 in")
        assert "Before" in driver.text()
        with ContractServer(port=server.port) as again:
            again.add_account("After")
            await driver.sees("After", "● online")


async def test_a_server_that_is_not_there_at_first_is_waited_for(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.stop()
    async with dashboards.start() as driver:
        await driver.sees("Accounts  ✕ connection refused · try")
        assert "loading" not in driver.text()
        with ContractServer(port=server.port) as again:
            again.add_account("There")
            await driver.sees("There", "● online")


async def test_a_key_that_is_not_accepted_is_said(server: ContractServer, dashboards: Dashboards) -> None:
    async with dashboards.start(key="sk_test_wrong") as driver:
        await driver.sees("✕ 401: this key is not accepted", "The key is not known.")
        server.key = "sk_test_wrong"
        await driver.sees("● online")


async def test_a_rate_limit_is_waited_out_visibly(server: ContractServer, with_till: Driver) -> None:
    limited = {"error": "rate_limited", "message": "Wait 1 seconds"}
    with server.refusing(429, limited, {"Retry-After": "1", "X-RateLimit-Remaining": "0"}):
        await with_till.press("r", sees="◔ rate limit: waiting")
    await with_till.sees("Till", "● online")


async def test_a_failing_server_is_said_and_asked_again(server: ContractServer, with_till: Driver) -> None:
    body = {
        "error": {
            "type": "api_error",
            "code": "storage_unavailable",
            "message": "Disk full.",
            "param": None,
        }
    }
    with server.refusing(503, body):
        await with_till.press("r", sees=("✕ Disk full.", "✕ the server reports an internal error"))
    await with_till.sees("Till", "● online")
    assert with_till.app.session.state is ConnectionState.ONLINE


@pytest.mark.parametrize("status", [429, 500, 502])
async def test_a_list_that_is_read_again_in_vain_stays_as_it_was(
    server: ContractServer, with_till: Driver, status: int
) -> None:
    body = {"error": {"type": "api_error", "code": "some_error", "message": "Not now.", "param": None}}
    with server.refusing(status, body, {"Retry-After": "1"}):
        await with_till.press("r", sees="◔ rate limit" if status == 429 else "✕ Not now.")
        assert "Till" in with_till.text()
    await with_till.sees("Till", "● online")


async def test_another_program_at_the_address_is_said(server: ContractServer, dashboards: Dashboards) -> None:
    with server.refusing(200, {"hello": "world"}):
        async with dashboards.start() as driver:
            await driver.sees("✕ This is not a ledger's answer. Is the address right?")
            server.misfortune = None
            await until(lambda: driver.view.model.window.loaded)


async def test_a_scarce_rate_limit_slows_the_looking(server: ContractServer, dashboards: Dashboards) -> None:
    server.limit = 60
    async with dashboards.open() as driver:
        assert driver.app.session.poll_seconds == 4.0


def waited_seconds(driver: Driver) -> int:
    """The seconds on the screen since the server was asked; 0 if it does not stand there."""
    found = re.search(r"◌ waiting for an answer, (\d+) s", driver.text())
    return int(found[1]) if found else 0


async def test_a_server_that_hangs_is_said_to_and_nothing_is_said_to_be_followed(
    server: ContractServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "PATIENT_SECONDS", 0.5)
    server.add_account("Till")
    async with Line(server.port) as line:
        app = LedgerApp(Options(url=line.url, key=server.key))
        async with app.run_test(size=(80, 24)) as pilot:
            driver = Driver(app, pilot)
            await driver.sees("Till", "● online", "● following")
            line.hold.clear()
            await driver.sees("◌ waiting for an answer")
            first = waited_seconds(driver)
            await until(lambda: waited_seconds(driver) > first)
            assert "online" not in driver.text()
            assert "following" not in driver.text()
            line.hold.set()
            await driver.sees("● online", "● following")


async def test_while_a_try_runs_it_says_so_and_counts_nothing(
    server: ContractServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(api, "_BACKOFF_SECONDS", (0.5,))
    server.add_account("Till")
    async with Line(server.port) as line:
        app = LedgerApp(Options(url=line.url, key=server.key))
        async with app.run_test(size=(80, 24)) as pilot:
            driver = Driver(app, pilot)
            await driver.sees("Till", "● online")
            line.hold.clear()
            # Both come again with each try, so a busy machine may miss one of them.
            await driver.sees("✕ no answer in time · try ", "✕ no answer in time · trying now…")
            line.hold.set()
            await driver.sees("● online")


async def test_the_address_stays_on_the_top_line_while_the_server_is_away(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open((80, 24)) as driver:
        server.stop()
        await driver.sees("✕ connection refused · try")
        assert f"127.0.0.1:{server.port}" in driver.text().splitlines()[0]


@pytest.fixture
def no_ledger(tmp_path: Path) -> Iterator[str]:
    """Run a web server without any page; yield its address."""
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    SimpleHTTPRequestHandler.log_message = lambda *_arguments: None  # type: ignore[method-assign]
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


async def test_a_web_server_that_is_no_ledger_is_never_called_online(no_ledger: str) -> None:
    app = LedgerApp(Options(url=no_ledger, key="sk_test_any"))
    async with app.run_test(size=(80, 24)) as pilot:
        driver = Driver(app, pilot)
        await driver.sees("✕ no ledger server at this address")
        await driver.sees("✕ This is not a ledger's answer. Is the address right?")
        assert "online" not in driver.text()
        for key in ("2", "3", "7", "8"):
            await driver.press(key)
            await driver.rests()
            assert app.session.state is ConnectionState.FOREIGN


async def test_a_program_that_answers_200_to_everything_is_no_ledger_until_one_is_there(
    server: ContractServer, dashboards: Dashboards
) -> None:
    with server.refusing(200, {"hello": "world"}):
        async with dashboards.start() as driver:
            await driver.sees("✕ no ledger server at this address")
            server.misfortune = None
            await driver.sees("● online")


FORBIDDEN = {
    "error": {
        "type": "authorization_error",
        "code": "insufficient_scope",
        "message": "This needs the scope read:projects, which this credential lacks: ask for another one.",
        "param": None,
    }
}


async def test_a_long_sentence_wraps_under_the_caption(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open((80, 24)) as driver:
        whole = "✕ This needs the scope read:projects, which this credential lacks: ask for another one."
        with server.refusing(403, FORBIDDEN):
            await driver.press("2")
            await until(lambda: whole in " ".join(driver.text().split()))
        await driver.press("r", gone="✕ This needs")


async def test_a_refused_list_is_asked_for_less_often_until_r_or_another_credential(
    server: ContractServer, with_till: Driver
) -> None:
    app, view = with_till.app, with_till.view

    async def is_refused() -> None:
        server.refuse(403, FORBIDDEN)
        view.poll_soon()
        await until(lambda: view.model.problem)
        await until(lambda: view.next_poll_at - app.session.clock() > 2 * app.session.poll_seconds)
        view.next_poll_at = float("inf")

    await is_refused()
    await with_till.press("r")
    await until(lambda: not view.model.problem and view.model.window.loaded)
    await until(view.may_poll)
    await is_refused()
    app.api.use(server.key)
    await until(lambda: not view.model.problem)


class RoundServer(ContractServer):
    """Its lists have no end: after the first page come two that name each other as the next."""

    def _page(
        self, records: list[dict[str, Any]], params: set[str], matches: Callable[[dict[str, Any]], bool]
    ) -> Response:
        after = request.args.get("starting_after", "first")
        rows = [{"id": f"acc_{after}_{number}", "name": "Till", "currency": "EUR"} for number in range(3)]
        return jsonify({"data": rows, "has_more": True, "next_cursor": "b" if after == "a" else "a"})


async def test_a_list_that_goes_round_in_a_circle_is_said_and_not_read_without_end() -> None:
    with RoundServer() as server:
        app = LedgerApp(Options(url=server.url, key=server.key))
        async with app.run_test(size=(80, 24)) as pilot:
            driver = Driver(app, pilot)
            await driver.sees("✕ The pages of this list repeat.")
            requested = [
                params.get("starting_after") for _, path, params in server.requests if path == "/v1/accounts"
            ]
            assert requested.count("a") < 10
            assert len(driver.view.model.window) == 6


async def test_the_servers_notice_is_shown_at_the_start(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.health["notice"] = "The last backup failed, and there is none: the disk is full."
    async with dashboards.open(size=(120, 30)) as driver:
        await driver.sees("The last backup failed, and there is none")


async def test_entries_of_an_older_config_file_are_named_at_the_start_beside_the_notice_of_the_server(
    server: ContractServer,
) -> None:
    server.health["notice"] = "The disk is full."
    config = parse_config('[notify]\non = ["invoice.*"]\n', "c")
    app = LedgerApp(Options(url=server.url, key=server.key, config=config))
    async with app.run_test(size=(120, 30), notifications=True) as pilot:
        await Driver(app, pilot).sees(
            "No effect in the config file: notify. Use `ledger-engine tail` instead. The disk is full."
        )
