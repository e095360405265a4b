"""A profile leads to a server with a stored key, a variable or a sign-in; the dashboard's own server may
die.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import keyring
import pytest
from keyring.backends.fail import Keyring as NoKeyring

import ledger_tui.server.connection
from ledger_tui.app.application import LedgerApp
from ledger_tui.client.session import ConnectionState
from ledger_tui.features.token import SignInScreen
from ledger_tui.settings.config import Options, Profile
from ledger_tui.settings.secret_store import Secrets, secret_store
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until
from tests.ledger_tui.signing_in import Ledger, decide

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def own_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("LEDGER_TUI_CONFIG", str(tmp_path / "config.toml"))
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    before = keyring.get_keyring()
    keyring.set_keyring(NoKeyring())
    yield
    keyring.set_keyring(before)


async def test_a_profile_shows_its_kept_key_its_name_and_is_read_only(server: ContractServer) -> None:
    server.add_account("Till")
    secret_store().put("shop", Secrets(api_key=server.key))
    profile = Profile("shop", server.url, read_only=True, mode_color="#c03028")
    app = LedgerApp(Options(profile=profile))
    async with app.run_test(size=(100, 24)) as pilot:
        await Driver(app, pilot).sees("● online", "read-only", "shop 127.0.0.1", "Till")
        assert app.theme_variables["mode-test"] == "#c03028"
        assert server.key not in Driver(app, pilot).text()


async def test_a_key_may_come_from_a_variable(
    server: ContractServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", server.key)
    app = LedgerApp(Options(profile=Profile("shop", server.url, key="env:SHOP_KEY")))
    async with app.run_test() as pilot:
        await Driver(app, pilot).sees("● online")


@pytest.mark.parametrize(
    ("key", "kept", "sentence"),
    [
        ("env:NOT_SET", None, "NOT_SET, which is not set"),
        ("env:SHOP_KEY", None, "The key in SHOP_KEY contains an invalid character."),
        ("stored", None, "No key"),
        ("stored", "sk_tést", "The key of profile shop contains an invalid character"),
    ],
)
async def test_a_profile_without_a_usable_key_ends_with_a_sentence(
    server: ContractServer, key: str, kept: str | None, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "sk_tést")
    if kept is not None:
        secret_store().put("shop", Secrets(api_key=kept))
    app = LedgerApp(Options(profile=Profile("shop", server.url, key=key)))
    async with app.run_test():
        await until(lambda: app.failure)
    assert sentence in app.failure
    assert app.return_code == 1


@pytest.mark.parametrize(
    ("variable", "value"), [("HTTP_PROXY", "nonsense://h"), ("SSL_CERT_FILE", "/nowhere/ca.pem")]
)
async def test_an_environment_that_no_client_can_be_made_in_ends_with_a_sentence(
    server: ContractServer, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    app = LedgerApp(Options(url=server.url, key=server.key))
    async with app.run_test():
        await until(lambda: app.failure)
    assert "Cannot connect" in app.failure


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    running = Ledger(tmp_path)
    yield running
    running.server.stop()


async def test_a_sign_in_through_the_browser_is_saved_for_the_next_start_and_rotates(ledger: Ledger) -> None:
    profile = Profile("shop", ledger.url, client_id=ledger.app.client_id, scope=ledger.app.scope)
    app = LedgerApp(Options(profile=profile))
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        driver = Driver(app, pilot)
        await driver.sees("Sign in", "Waiting for you")
        await driver.press("escape", sees="○ not signed in · S signs in")
        await driver.press("S", sees="Waiting for you")
        screen = app.screen
        assert isinstance(screen, SignInScreen)
        async with httpx.AsyncClient(follow_redirects=True) as browser:
            await decide(browser, ledger, screen.link, "allow")
        await driver.sees("● online", "No accounts yet.")
        kept = secret_store().get("shop")
        assert kept is not None
        assert kept.refresh_token is not None
        for key in "1234567890":
            await driver.press(key)
            await driver.pilot.pause()
            for secret in (kept.access_token, kept.refresh_token):
                assert secret is not None
                assert secret not in driver.text()
        await app.tokens.refresh()
        rotated = secret_store().get("shop")
        assert rotated is not None
        assert rotated.refresh_token != kept.refresh_token

    again = LedgerApp(Options(profile=profile))
    async with again.run_test() as pilot:
        await Driver(again, pilot).sees("● online")


async def test_a_refusal_in_the_browser_is_said_and_can_be_tried_again(ledger: Ledger) -> None:
    profile = Profile("shop", ledger.url, client_id=ledger.app.client_id, scope=ledger.app.scope)
    app = LedgerApp(Options(profile=profile))
    async with app.run_test(size=(100, 30)) as pilot:
        driver = Driver(app, pilot)
        await driver.sees("Waiting for you")
        screen = app.screen
        assert isinstance(screen, SignInScreen)
        first = screen.link
        async with httpx.AsyncClient(follow_redirects=True) as browser:
            await decide(browser, ledger, first, "deny")
        await driver.sees("✕ The server refused the sign-in", "try again")
        await driver.press("r")
        await until(lambda: screen.link != first)
        await driver.press("escape", "S", sees="Waiting for you")


def kill(app: LedgerApp) -> None:
    assert app.connection.server is not None
    pid = app.connection.server.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


@pytest.mark.usefixtures("forked_servers", "short_intervals")
async def test_an_own_server_that_dies_is_a_state_and_one_key_starts_it_again(tmp_path: Path) -> None:
    app = LedgerApp(Options(database=str(tmp_path / "ledger.db")))
    async with app.run_test(size=(100, 24), notifications=True) as pilot:
        driver = Driver(app, pilot)
        await driver.sees("● online", "No accounts yet.")
        kill(app)
        await driver.sees("✕ the server ended and printed nothing · R restarts it")
        await driver.press("R", sees="● online")
        await app.api.write("POST", "/v1/accounts", {"name": "After", "currency": "EUR"}, "k")
        await driver.sees("After")


@pytest.mark.usefixtures("forked_servers")
async def test_one_that_had_lived_is_started_again_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_tui.server.connection, "RESTART_AFTER_SECONDS", 0.0)
    app = LedgerApp(Options(database=str(tmp_path / "ledger.db")))
    async with app.run_test(size=(100, 24), notifications=True) as pilot:
        driver = Driver(app, pilot)
        await driver.sees("● online", "No accounts yet.")
        before = app.session.url
        kill(app)
        await driver.sees("is being restarted")
        await until(lambda: app.session.state is ConnectionState.ONLINE and app.session.url != before)
