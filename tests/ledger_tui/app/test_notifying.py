"""The terminal notifies the user of what the config file asks for, once, and of nothing that is past."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest

from ledger_tui.app import notifying
from ledger_tui.app.application import LedgerApp
from ledger_tui.app.notifying import Happened, News, Notifier, deliveries_of, sentence
from ledger_tui.server.embedded import Address
from ledger_tui.settings.config import BadConfig, Config, Notify, Options, parse_config
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until


def test_the_config_file_says_what_and_how() -> None:
    assert parse_config("", "c").notify == Notify((), ("bell", "osc9"))
    text = '[notify]\non = ["delivery.failed", "invoice.*"]\nby = ["bell"]'
    assert parse_config(text, "c").notify == Notify(("delivery.failed", "invoice.*"), ("bell",))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("notify = 1", "c: notify: must be a table."),
        ("[notify]\nwhen = []", "c: notify.when: is unknown; use on or by."),
        ('[notify]\non = "x"', "c: notify.on: must be a list of texts in quotes."),
        ('[notify]\non = ["invoices"]', "c: notify.on: must contain types of events, like"),
        ('[notify]\nby = ["mail"]', "c: notify.by: may contain only bell and osc9."),
    ],
)
def test_a_mistake_in_it_is_named(text: str, reason: str) -> None:
    with pytest.raises(BadConfig) as raised:
        parse_config(text, "c")
    assert str(raised.value).startswith(reason)


def delivery(status: str, error: str | None) -> dict[str, Any]:
    return {"id": "del_1", "endpoint": "whe_1", "status": status, "attempts": [{"error": error}]}


def test_a_delivery_is_named_when_an_attempt_failed_and_again_when_it_failed_for_good() -> None:
    urls = {"whe_1": "http://h/shop"}
    news = News(["delivery.*"])
    assert news.since("deliveries", deliveries_of([delivery("pending", None)], urls)) == []
    retrying = deliveries_of([delivery("pending", "timeout")], urls)
    assert [each.kind for each in news.since("deliveries", retrying)] == ["delivery.retrying"]
    assert news.since("deliveries", retrying) == []
    failed = deliveries_of([delivery("failed", "timeout")], urls)
    assert [(each.kind, each.name) for each in news.since("deliveries", failed)] == [
        ("delivery.failed", "http://h/shop")
    ]
    assert deliveries_of([delivery("succeeded", None)], urls) == []


def test_what_was_there_at_the_first_look_or_was_not_asked_for_is_no_news() -> None:
    news = News(["invoice.paid"])
    paid, voided = Happened("invoice.paid", "evt_1", "a"), Happened("invoice.voided", "evt_2", "b")
    assert news.since("events", [paid]) == []
    assert news.since("events", [paid, voided]) == []
    assert news.since("events", [Happened("invoice.paid", "evt_3", "c")]) != []


def test_of_what_was_seen_only_the_newest_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifying, "_KNOWN_KEPT", 2)
    news = News(["order.paid"])
    first, *others = (Happened("order.paid", f"evt_{n}", "a") for n in range(3))
    assert news.since("events", [first]) == []
    assert news.since("events", others) == others
    assert news.since("events", others) == []
    assert news.since("events", [first]) == [first]  # it was forgotten


def test_a_line_names_three_and_counts_the_others_and_has_nothing_a_terminal_obeys() -> None:
    many = [Happened("order.paid", f"evt_{n}", f"n{n}\x07") for n in range(5)]
    assert sentence(many) == "order.paid n0␇, order.paid n1␇, order.paid n2␇ and 2 more"


@pytest.mark.dashboard
async def test_the_terminal_gets_a_bell_and_a_line_for_an_event_that_was_asked_for(
    own_project: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifying, "_LOOK_SECONDS", 0.05)
    app = LedgerApp(
        Options(url=own_project.url, key=own_project.key, config=Config(notify=Notify(("account.created",))))
    )
    bells: list[int] = []
    written: list[str] = []
    monkeypatch.setattr(app, "bell", lambda: bells.append(1))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        assert app._driver is not None
        monkeypatch.setattr(app._driver, "write", written.append)
        driver = Driver(app, pilot)
        await driver.sees("● online")
        await until(lambda: any(worker.group == "notify" for worker in app.workers), "the first look")
        looks = app.session.remaining
        await until(lambda: app.session.remaining != looks, "another look")
        await app.api.write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
        await driver.sees("account.created evt_")
        await until(
            lambda: bells == [1] and any("\x1b]9;ledger-tui: account.created evt_" in w for w in written)
        )


@pytest.mark.dashboard
async def test_the_terminal_is_told_only_in_the_ways_that_were_chosen(
    server: ContractServer, dashboards: Dashboards, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    async with dashboards.open() as driver:
        app = driver.app
        assert app._driver is not None
        monkeypatch.setattr(app, "bell", lambda: told.append("bell"))
        monkeypatch.setattr(app._driver, "write", told.append)
        ways: list[tuple[tuple[str, ...], list[str]]] = [
            (("bell",), ["bell"]),
            (("osc9",), ["\x1b]9;ledger-tui: a till\x07"]),
            ((), []),
        ]
        for by, expected in ways:
            told.clear()
            Notifier(app, app.api, app.session, Notify((), by)).notify("a till")
            assert told == expected


@pytest.mark.dashboard
async def test_only_what_the_config_file_asks_for_is_asked_of_the_server(driver: Driver) -> None:
    app = driver.app
    both = ("/v1/events", "/v1/webhook_endpoints")

    def sent() -> list[str]:
        paths = (urlsplit(each.url).path for each in app.traffic)
        return [path for path in paths if path in both]

    asked: list[tuple[tuple[str, ...], list[str]]] = [
        ((), []),
        (("invoice.*",), ["/v1/events"]),
        (("delivery.failed",), ["/v1/webhook_endpoints"]),
        (("delivery.failed", "invoice.paid"), [*both]),
    ]
    for on, paths in asked:
        before = sent()
        assert await Notifier(app, app.api, app.session, Notify(on, ("bell",))).look() == len(paths)
        assert sent() == before + paths
