"""The pytest plugin, as tests of an app use it: in a pytest of its own, with two workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import httpx
import pytest

import ledger_client
from ledger_client.errors import NotFound
from ledger_engine.testing import Clock, LedgerServer
from ledger_engine.testing import server as testing_server
from tests.house.pages import blocks

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "testing.md"

TESTS = """
    import time
    from datetime import timedelta

    import pytest

    from ledger_client.errors import ApiError, InvalidRequest, NotConnected


    @pytest.mark.parametrize("number", range(4))
    def test_a_project_of_its_own(ledger, number):
        assert ledger.api.get("/v1/accounts").json()["data"] == []
        ledger.make("/v1/accounts", name="Till", currency="EUR")
        assert len(ledger.api.get("/v1/accounts").json()["data"]) == 1


    def test_a_server_for_each_worker(ledger_server, worker_id, tmp_path_factory):
        shared = tmp_path_factory.getbasetemp().parent / "servers"
        with shared.open("a") as file:
            file.write(f"{worker_id} {ledger_server.url}\\\\n")
        lines = {tuple(line.split()) for line in shared.read_text().splitlines()}
        assert len({worker for worker, _ in lines}) == len({url for _, url in lines})


    def test_a_new_project_takes_a_moment(ledger_server):
        def cost():
            began = time.perf_counter()
            ledger_server.new_project().close()
            return time.perf_counter() - began

        # One of many, as others use the machine too.
        assert any(cost() < 0.02 for _ in range(500))


    def test_an_inbox_waits_and_checks_signatures(ledger, ledger_inbox, ledger_faults, ledger_clock):
        paid = ledger.happen("invoice.paid")
        assert ledger_inbox.wait_for("invoice.paid")["id"] == paid["event"]["id"]
        ledger_faults.webhook("corrupt", type="user.created")
        user = ledger.happen("user.created")["event"]
        ledger_clock.advance(10)
        assert ledger_inbox.wait_for("user.created", lambda event: event["id"] == user["id"])
        assert len(ledger_inbox.rejected) == 1
        said = "order.shipped did not arrive within 0.01 s; received: .*invoice.paid.*, and 1 with a wrong"
        with pytest.raises(AssertionError, match=said):
            ledger_inbox.wait_for("order.shipped", timeout=0.01)


    def test_a_refusal_is_raised_with_its_message(ledger, ledger_inbox, ledger_clock, ledger_faults):
        with pytest.raises(InvalidRequest, match="ISO 4217"):
            ledger.make("/v1/accounts", name="Till", currency="EURO")
        with pytest.raises(InvalidRequest, match="must be one of account.created"):
            ledger.happen("invoice.payed")
        with pytest.raises(InvalidRequest):
            ledger_clock.move_to(ledger_clock.now - timedelta(days=1))
        with pytest.raises(InvalidRequest, match="cut"):
            ledger_faults.cut("later")
        with pytest.raises(AssertionError, match="did not arrive 2 times within 0.01 s; received: nothing"):
            ledger_inbox.wait_for("user.created", count=2, timeout=0.01)


    def test_an_inbox_that_fails_gets_it_again(ledger, ledger_inbox, ledger_clock):
        ledger_inbox.answer = 500
        ledger.happen("account.created")
        ledger_inbox.wait_for("account.created")
        ledger_inbox.answer = 200
        ledger_clock.advance(10)
        first, second = ledger_inbox.events
        assert first == second


    def test_clock_and_snapshots(ledger, ledger_clock, ledger_snapshots):
        now = ledger_clock.freeze()
        ledger_snapshots.take("now")
        assert ledger_clock.advance(timedelta(days=40)) == now + timedelta(days=40)
        assert ledger_clock.move_to(now + timedelta(days=41)) == now + timedelta(days=41)
        ledger.happen("account.created")
        ledger_snapshots.restore("now")
        assert ledger_clock.now == now
        assert ledger.api.get("/v1/accounts").json()["data"] == []
        with pytest.raises(ValueError, match="time zone"):
            ledger_clock.move_to(now.replace(tzinfo=None))


    def test_faults(ledger, ledger_faults):
        cut = ledger_faults.cut(path="/v1/accounts")
        with pytest.raises(NotConnected):
            ledger.make("/v1/accounts", name="Till", currency="EUR")
        assert len(ledger.api.get("/v1/accounts").json()["data"]) == 1
        assert cut.hits == 1
        ledger_faults.status(503, path="/v1/accounts")
        with pytest.raises(ApiError):
            ledger.make("/v1/accounts", name="Till", currency="EUR")
        slow = ledger_faults.delay(1, 1)
        ledger.reset()
        slow = ledger_faults.delay(1, 1)
        slow.delete()
        assert ledger.api.get("/v1/accounts").json()["data"] == []
"""


def pytest_in(
    folder: Path, tests: str, *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    (folder / "test_app.py").write_text(textwrap.dedent(tests))
    (folder / "pytest.ini").write_text("[pytest]\n")
    # Loaded by its name too, for an environment that was installed before there was an entry point.
    plugin = ["-p", "ledger_engine.testing.plugin"]
    for each in ("schemathesis", "anyio", "asyncio", "hypothesispytest", "syrupy"):
        plugin += ["-p", f"no:{each}"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, "-p", "no:cacheprovider", *options, str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **environment},
    )


@pytest.mark.process
def test_each_fixture_and_what_there_is_to_copy_do_what_they_say_in_two_workers(tmp_path: Path) -> None:
    fixture, copied, in_readme = [
        each.text
        for page in (PAGE, ROOT / "README.md")
        for each in blocks(page)
        if (each.run_by or "").endswith(Path(__file__).name)
    ]
    assert in_readme == copied
    (tmp_path / "conftest.py").write_text(f"import pytest\n\n\n{fixture}")
    uses = "def test_it_goes_back(as_before, ledger):\n    ledger.happen('account.created')\n"
    (tmp_path / "test_copied.py").write_text(f"{copied}\n\n{uses}")
    # What is set for a server of the developer's is not for these.
    ran = pytest_in(tmp_path, TESTS, "--numprocesses", "2", LEDGER_WORKERS="2")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "13 passed" in ran.stdout


@pytest.mark.process
def test_a_run_without_the_fixtures_loads_nothing_of_it_and_a_server_needs_a_key(tmp_path: Path) -> None:
    tests = """
        import sys


        def test_nothing_is_loaded():
            ours = {name for name in sys.modules if name.startswith("ledger_engine")}
            assert ours == {"ledger_engine", "ledger_engine.testing", "ledger_engine.testing.plugin"}
            assert "httpx" not in sys.modules


        def test_a_server_that_runs(ledger_server):
            pass
    """
    ran = pytest_in(tmp_path, tests, LEDGER_TEST_URL="http://127.0.0.1:9", LEDGER_API_KEY_TEST="")
    assert "1 passed, 1 error" in ran.stdout, ran.stdout + ran.stderr
    assert "--ledger-url needs --ledger-key" in ran.stdout


CALLER = '{"id": "key_1", "created": "2026-11-20T00:00:00Z", "livemode": %s, "role": "%s"}'


@pytest.mark.parametrize(
    ("url", "answer", "sentence"),
    [
        ("127.0.0.1:8700", None, "127.0.0.1:8700 must begin with http:// or https://"),
        ("http://ledger.test", None, "no ledger answers at http://ledger.test: cannot connect"),
        ("http://ledger.test", (200, "<p>a page"), "no ledger answers at http://ledger.test: "),
        (
            "http://ledger.test",
            (401, '{"error": {"message": "No such key."}}'),
            "http://ledger.test refuses the key: No such key.",
        ),
        (
            "http://ledger.test",
            (200, CALLER % ("true", "owner")),
            "must be a test key with the role",
        ),
        ("http://ledger.test", (200, CALLER % ("false", "admin")), "must be a test key with the"),
    ],
)
def test_a_server_that_cannot_be_used_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, url: str, answer: tuple[int, str] | None, sentence: str
) -> None:
    async def handle(_: object, request: httpx.Request) -> httpx.Response:
        if answer is None:
            raise httpx.ConnectError("refused")
        return httpx.Response(answer[0], text=answer[1], request=request)

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", handle)
    with pytest.raises((ValueError, ConnectionError), match=re.escape(sentence)):
        LedgerServer.connect(url, "sk_test_x")


def test_a_server_that_never_serves_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    waits = "import threading; print('Starting', flush=True); threading.Event().wait()"
    monkeypatch.setattr(testing_server, "_PROGRAM", [sys.executable, "-c", waits])
    monkeypatch.setattr(testing_server, "START_TIMEOUT_S", 0.1)
    with pytest.raises(RuntimeError, match=r"did not serve within 0\.1 s; it ended with -9"):
        LedgerServer.start(tmp_path / "ledger.db")


def test_a_server_without_the_helpers_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(_: object, request: httpx.Request) -> httpx.Response:
        error = {"code": "not_found", "message": "No such path: '/v1/test_helpers/clock'."}
        return httpx.Response(404, json={"error": error}, request=request)

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", handle)
    with (
        ledger_client.Ledger("http://ledger.test") as client,
        pytest.raises(NotFound, match=r"started with --test-helpers\?$"),
    ):
        _ = Clock(client).now
