"""The live webhook log, on a real server with a real receiver."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from textual.widgets import Static

from ledger_client.webhooks import is_signed
from ledger_tui.app.navigation import ScreenTabs
from ledger_tui.features import events
from ledger_tui.features.events import EventsView
from ledger_tui.lists import arrivals
from ledger_tui.resources.webhooks import Listening
from tests.ledger_tui.driving import Driver, until
from tests.receivers import receiving


class Receiver(BaseHTTPRequestHandler):
    """Answers as `status` says once `answers` is set, and keeps what came."""

    status: ClassVar[int] = 200
    answers: ClassVar[threading.Event] = threading.Event()
    came: ClassVar[list[tuple[bytes, str | None]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.came.append((body, self.headers["Ledger-Signature"]))
        self.answers.wait()
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(b'{"thanks": "for it"}')

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[str]:
    Receiver.status, Receiver.came = 200, []
    Receiver.answers.set()
    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/hook"
        Receiver.answers.set()
        server.shutdown()
        thread.join()


async def open_log(driver: Driver) -> EventsView:
    """Return the log, connected to the stream."""
    await driver.press("7")
    view = driver.app.dashboard.view
    assert isinstance(view, EventsView)
    await until(lambda: view.webhooks.listening is Listening.ON)
    return view


async def make_account(driver: Driver, name: str) -> None:
    body = {"name": name, "currency": "EUR"}
    await driver.app.api.write("POST", "/v1/accounts", body, f"k-{name!a}")


async def register(driver: Driver, url: str) -> str:
    """Register an endpoint in the form; return its secret after closing the dialog."""
    await driver.press("w", sees="No webhook endpoints. Press n to register one.")
    await driver.press("n", sees="New webhook endpoint")
    await driver.type(url, "ctrl+s", sees=("Shown once", "whsec_"))
    secret = next(word for word in driver.text().split() if word.startswith("whsec_"))
    await driver.press("escape", sees=(url, "● enabled"))
    return secret


async def test_an_event_is_received_as_it_happens_and_its_signature_checked(driver: Driver) -> None:
    view = await open_log(driver)
    await make_account(driver, "Live \u2028 one")
    await driver.sees("✓       account.created", "Live � one", "◉ 1 received")
    assert view.webhooks.wrong == 0
    await driver.press("enter", sees=("signature     ✓ valid", '"object": "account"', "→ The account"))


async def test_a_wrong_signature_is_shown_unmistakably(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await open_log(driver)
    monkeypatch.setattr(
        "ledger_client.webhooks.is_signed", lambda *given: is_signed(*given[:2], "whsec_other")
    )
    await make_account(driver, "Forged")
    await driver.sees("✗ BAD", "✗ 1 with a wrong signature", "Forged")


async def test_a_log_whose_cursor_left_the_newest_row_counts_new_events_until_it_follows_again(
    driver: Driver,
) -> None:
    await open_log(driver)
    for number in range(2):
        await make_account(driver, f"before {number}")
    await driver.sees("before 0", "before 1", "following")
    await driver.press("down")
    for number in range(3):
        await make_account(driver, f"waits {number}")
    await driver.sees("▲ 3 new", "f follow")
    assert "waits 1" not in driver.text()
    await driver.press("f", sees=("waits 0", "waits 2", "following"), gone="f follow")


async def test_a_delivery_is_shown_with_its_attempt_and_bodies(driver: Driver, receiver: str) -> None:
    await open_log(driver)
    secret = await register(driver, receiver)
    await make_account(driver, "Delivered")
    await until(lambda: Receiver.came)
    body, signature = Receiver.came[0]
    assert is_signed(body, signature, secret)
    await driver.press("escape", sees=("✓ 1/1", "Delivered"))
    await driver.press("home")
    await driver.press("enter")
    await driver.sees(f"sent to       {receiver}", "delivery      ✓ succeeded", "attempt 1", "✓ 200")
    facts = driver.view.query_one("#facts", Static)
    assert "Ledger-Signature" in str(facts.content)
    assert '"thanks": "for it"' in str(facts.content)


async def test_the_end_of_a_delivery_is_read_also_after_the_first_endpoint_was_registered(
    driver: Driver, receiver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_QUIET_SECONDS", 3600)  # while there is no endpoint
    view = await open_log(driver)
    await register(driver, receiver)
    Receiver.answers.clear()
    await make_account(driver, "Slow")
    await driver.press("escape")
    await until(lambda: view.webhooks.endpoints)  # with no delivery, as none has ended
    Receiver.answers.set()
    await driver.sees("✓ 1/1")


async def test_an_event_is_sent_again(driver: Driver, receiver: str) -> None:
    await open_log(driver)
    await register(driver, receiver)
    await make_account(driver, "Twice")
    await until(lambda: len(Receiver.came) == 1)
    await driver.press("escape", sees=("Twice", "✓ 1/1"))
    await driver.press("s", sees=("Resend account.created", f"Already delivered to {receiver}: it", "second"))
    await driver.press("n", gone="Resend account.created")
    await driver.press("s", "y", sees="Sending account.created again")
    await until(lambda: len(Receiver.came) == 2)
    assert Receiver.came[0][0] == Receiver.came[1][0]
    await driver.sees("✓ 1/1 ×2")


async def test_a_key_acts_on_no_row_that_has_just_come_under_the_cursor(
    driver: Driver, receiver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "_NEW_SECONDS", 3600)
    await open_log(driver)
    await register(driver, receiver)
    await driver.press("escape")
    await make_account(driver, "Read")
    await driver.sees("Read")
    await make_account(driver, "Arrived")
    await driver.sees("Arrived", "following")
    await driver.press("s", sees="A newer row came under the cursor. Press again to resend account.created.")
    await make_account(driver, "Later")
    await driver.sees("▲ 1 new")
    await until(lambda: len(Receiver.came) == 3)
    await driver.sees("✓ 1/1")
    await driver.press("s", "y", sees="Sending account.created again")
    await until(lambda: len(Receiver.came) == 4)
    assert b"Arrived" in Receiver.came[3][0]


async def test_a_key_that_opens_no_row_says_nothing_about_a_newer_row(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "_REACTION_SECONDS", 3600)
    await open_log(driver)
    for name in ("Read", "Arrived"):
        await make_account(driver, name)
        await driver.sees(name, "following")
    assert driver.view.model.row_being_read is not None
    await driver.press("w", sees="No webhook endpoints. Press n to register one.")
    assert "A newer row" not in driver.text()


async def test_the_log_counts_the_endpoints_that_fail_and_names_the_key_that_lists_them(
    driver: Driver, receiver: str
) -> None:
    Receiver.status = 500
    await open_log(driver)
    await register(driver, receiver)
    await make_account(driver, "Fails")
    await driver.press("escape", sees="✕ 1 endpoint fails: w lists it")
    await driver.press("w", sees="✕ failing")
    Receiver.status = 200
    await driver.press("h", "s", sees="✓ succeeded")
    await driver.press("7", sees="◉ ")
    await driver.sees_no_more("1 endpoint fails")


async def test_the_cursor_goes_to_the_endpoint_that_fails(driver: Driver, receiver: str) -> None:
    Receiver.status = 500
    api = driver.app.api
    async with receiving() as working:
        await open_log(driver)
        for url in (working.url, receiver, working.url.replace("hook", "other")):
            await api.write("POST", "/v1/webhook_endpoints", {"url": url, "events": ["*"]}, url)
        await make_account(driver, "Fails")
        await driver.sees("✕ 1 endpoint fails: w lists it")
        await driver.press("w", sees="✕ failing")
        assert (driver.view.selected or {})["url"] == receiver
        await driver.press("home")
        first = driver.view.selected
        assert (first or {})["url"] != receiver
        await until(lambda: driver.view.next_poll_at > driver.app.session.clock())
        driver.view.poll_soon()
        await driver.rests()
        assert driver.view.selected == first  # the user has chosen this row


async def test_a_failing_delivery_waits_for_its_next_attempt_and_is_resent_from_its_list(
    driver: Driver, receiver: str
) -> None:
    Receiver.status = 500
    await open_log(driver)
    await register(driver, receiver)
    await make_account(driver, "Fails")
    await driver.press("h", sees=("Deliveries", "◔ pending", "account.created"))
    await driver.press("enter", sees=("attempt 1", "✕ ", "next          2"))
    Receiver.status = 200
    await driver.press("escape", "s", sees=("Sending account.created again", "✓ succeeded"))


async def test_a_delivery_is_sent_again_to_its_own_endpoint_only(driver: Driver, receiver: str) -> None:
    async with receiving() as working:
        body = {"url": working.url, "events": ["account.created"]}
        await driver.app.api.write("POST", "/v1/webhook_endpoints", body, "w")
        Receiver.status = 500
        await driver.press("7", "w", sees=working.url)
        await driver.press("n", sees="New webhook endpoint")
        await driver.type(receiver, "ctrl+s", sees="Shown once")
        await driver.press("escape", sees=receiver)
        await make_account(driver, "Fails")
        await working.until_received(1)
        await driver.press("h", sees=("Deliveries", "◔ pending", "account.created"))
        Receiver.status = 200
        await driver.press("s", sees=("Sending account.created again", "✓ succeeded"))
        assert len(working.received) == 1


async def test_an_endpoint_that_fails_is_marked_in_its_list_until_a_delivery_arrives(
    driver: Driver, receiver: str
) -> None:
    Receiver.status = 500
    await open_log(driver)
    await register(driver, receiver)
    await make_account(driver, "Fails")
    await driver.sees("✕ failing")
    view = driver.view
    assert view.failing_endpoint == (view.selected or {}).get("id")
    await driver.press("enter", sees=("status        ● enabled", "last delivery ✕ "))
    await driver.press("escape", "h", sees="◔ pending")
    Receiver.status = 200
    await driver.press("s", sees="✓ succeeded")
    await driver.press("escape", sees="● enabled", gone="✕ failing")
    assert view.failing_endpoint is None


async def test_an_endpoint_is_disabled_enabled_rolled_and_deleted(driver: Driver, receiver: str) -> None:
    await open_log(driver)
    first = await register(driver, receiver)
    await driver.press("X", "y", sees=("Webhook endpoint ", " is disabled", "✕ disabled"))
    await driver.press("u", sees=(" is enabled", "● enabled"))
    await driver.press("L", "y", sees="Shown once")
    second = next(word for word in driver.text().split() if word.startswith("whsec_"))
    assert second != first
    await driver.press("escape", "D", "y", sees=(" is deleted", "No webhook endpoints."))


async def test_the_row_of_a_restored_endpoint_is_shown_at_once(driver: Driver, receiver: str) -> None:
    await open_log(driver)
    await register(driver, receiver)
    body = {"url": f"{receiver}/newer", "events": ["order.paid"]}
    await driver.app.api.write("POST", "/v1/webhook_endpoints", body, "newer")
    await driver.press("f", sees="/newer")
    await driver.press("D", "y", sees=f"Webhook endpoint {receiver}/newer is deleted")
    await until(lambda: len(driver.view.model.window) == 1)
    await driver.press("u", sees="Shown once")
    await driver.press("escape")
    await until(lambda: len(driver.view.model.window) == 2)
    assert driver.view.model.window.waiting == 0


async def test_the_tab_of_the_webhooks_stays_lit_on_its_endpoints(driver: Driver) -> None:
    await open_log(driver)
    await driver.press("w", sees="Webhook endpoints")
    assert driver.app.screen.query_one(ScreenTabs).shown == "events"
    await driver.press("escape")
    await until(lambda: driver.app.dashboard.view.id == "events")


async def test_older_events_were_not_received_and_are_not_shown_as_verified(driver: Driver) -> None:
    await open_log(driver)
    await driver.sees("–       account.created")


async def test_the_log_is_filtered_by_type_endpoint_and_failure(driver: Driver) -> None:
    api = driver.app.api
    endpoint = {"url": "http://127.0.0.1:9/hooks", "events": ["account.created"]}  # nobody listens there
    await api.write("POST", "/v1/webhook_endpoints", endpoint, "e")
    account = await api.write("POST", "/v1/accounts", {"name": "Safe", "currency": "EUR"}, "b")
    body = {"account": account.record["id"], "amount": 5, "type": "credit"}
    await api.write("POST", "/v1/transactions", body, "t")
    await driver.press("7", sees=("transaction.created", "account.created"))
    for line, kinds in (
        ("failed", ["account.created"]),
        ("type:transaction", ["transaction.created"]),
        ("type:account.created endpoint:127.0.0.1:9", ["account.created"]),
        ("failed:yes", ["account.created"]),
    ):
        await driver.press("slash", "ctrl+u")
        await driver.type(line, "enter")
        await until(
            lambda kinds=kinds: [r["type"] for _n, r in driver.view.model.window.at_hand()] == kinds, line
        )
