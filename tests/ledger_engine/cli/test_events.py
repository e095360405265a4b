"""`ledger-engine webhooks` and `events`, as they are typed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks import endpoints
from ledger_engine.ledger import accounts
from ledger_engine.ledger.accounts import NewAccount
from ledger_engine.store import Unit
from ledger_engine.store.engine import open_engine
from tests.ledger_engine.cli.conftest import Command, RunJson, only_line
from tests.ledger_engine.events.webhooks.test_attempts import Sending

URL = "http://127.0.0.1:4242/hook"


def work(database: Location, run: Callable[[Any], Any]) -> Any:
    """Do something with the engine, beside the command line."""

    async def use() -> Any:
        engine = open_engine(database)
        try:
            return await run(engine)
        finally:
            await engine.close()

    return asyncio.run(use())


def happen(database: Location, project: str, count: int = 1) -> None:
    """So many accounts are created."""
    create = partial(
        accounts.create, tenant=Tenant(project, livemode=False), new=NewAccount("Till", "EUR", {})
    )

    async def run(engine: Any) -> None:
        for _ in range(count):
            await engine.write(create)

    work(database, run)


def fail_first(database: Location, endpoint: str) -> str:
    """Make the endpoint's next event fail for good; return its id."""

    async def run(engine: Any) -> str:
        (subscription,) = await engine.read(endpoints.subscriptions)
        assert subscription.endpoint == endpoint
        tenant = Tenant(subscription.project, livemode=False)
        sending = Sending(engine, engine.clock, tenant, subscription)
        event = (await sending.feed(subscription.cursor)).messages[0].id
        await sending.record(sending.failure(event, retry_in_ms=None))
        await engine.write(lambda unit: endpoints.advance(unit, endpoint, event))
        return event

    found: str = work(database, run)
    return found


@pytest.fixture
def project(run_json: RunJson) -> str:
    return str(run_json("projects", "create", "Roastery", "--plan", "pro")["id"])


def test_an_endpoint_is_made_and_its_secret_printed(
    command: Command, run_json: RunJson, project: str
) -> None:
    made = run_json("webhooks", "create", URL, "--event", "invoice.paid", "--event", "account.created")
    assert made["id"].startswith("whe_")
    assert made["secret"].startswith("whsec_")
    assert (made["events"], made["livemode"]) == (["invoice.paid", "account.created"], False)
    done = command("webhooks", "create", URL)
    assert only_line(done.stdout).startswith("whsec_")
    assert "whe_" in done.stderr
    assert done.stdout.strip() not in done.stderr


def test_in_an_empty_database_the_first_project_is_made(run_json: RunJson) -> None:
    assert run_json("webhooks", "create", URL)["events"] == ["*"]
    assert len(run_json("projects", "list")) == 1


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("http://10.0.0.1/",), 1),
        (("http://2130706433/",), 1),
        ((URL, "--mode", "live"), 1),
        ((URL, "--event", "invoice.eaten"), 2),
        ((URL, "--project", "prj_none"), 1),
        ((), 2),
    ],
)
def test_a_bad_endpoint_is_reported_in_one_line(
    command: Command, run_json: RunJson, project: str, words: tuple[str, ...], status: int
) -> None:
    done = command("webhooks", "create", *words, status=status)
    assert only_line(done.stderr).startswith("ledger-engine: ")
    assert run_json("webhooks", "list") == []


def test_with_a_key_the_secret_is_sealed(run_json: RunJson, database: Location, project: str) -> None:
    made = run_json("webhooks", "create", URL, LEDGER_SECRET_KEY="correct horse")
    ((id, stored),) = work(database, lambda engine: engine.read(endpoints.sealed_secrets))
    assert id == made["id"]
    assert made["secret"] not in stored


def test_endpoints_are_listed_without_their_secrets(
    command: Command, run_json: RunJson, project: str
) -> None:
    one = run_json("webhooks", "create", URL)
    two = run_json("webhooks", "create", "https://hooks.example/", "--mode", "live")
    assert [each["id"] for each in run_json("webhooks", "list")] == [one["id"], two["id"]]
    done = command("webhooks", "list")
    heads, *rows = done.stdout.splitlines()
    assert heads.split() == ["ID", "MODE", "STATUS", "EVENTS", "URL"]
    assert [row.split() for row in rows] == [
        [one["id"], "test", "enabled", "*", URL],
        [two["id"], "live", "enabled", "*", "https://hooks.example/"],
    ]
    assert one["secret"] not in done.output


@pytest.mark.slow
def test_an_endpoint_is_rolled_disabled_enabled_deleted_and_restored(
    command: Command, run_json: RunJson, project: str
) -> None:
    made = run_json("webhooks", "create", URL)
    assert run_json("webhooks", "roll", made["id"])["secret"] not in (None, made["secret"])
    assert only_line(command("webhooks", "roll", made["id"]).stdout).startswith("whsec_")
    assert command("webhooks", "disable", made["id"]).stdout == f"{made['id']} is disabled.\n"
    assert "disabled (asked)" in command("webhooks", "list").stdout
    assert run_json("webhooks", "enable", made["id"])["status"] == "enabled"
    assert command("webhooks", "delete", made["id"]).stdout == f"{made['id']} is deleted.\n"
    assert run_json("webhooks", "list") == []
    assert [each["id"] for each in run_json("webhooks", "list", "--deleted")] == [made["id"]]
    assert only_line(command("webhooks", "restore", made["id"]).stdout).startswith("whsec_")
    assert [each["id"] for each in run_json("webhooks", "list")] == [made["id"]]
    assert "not deleted" in only_line(command("webhooks", "restore", made["id"], status=1).stderr)
    for verb in ("delete", "restore", "enable", "disable", "roll", "deliveries"):
        assert "whe_none" in only_line(command("webhooks", verb, "whe_none", status=1).stderr)


def test_deliveries_are_listed_with_their_attempts(
    command: Command, run_json: RunJson, database: Location, project: str
) -> None:
    endpoint = run_json("webhooks", "create", URL)["id"]
    assert run_json("webhooks", "deliveries", endpoint) == []
    happen(database, project)
    event = fail_first(database, endpoint)
    (delivery,) = run_json("webhooks", "deliveries", endpoint)
    assert (delivery["event"], delivery["status"], len(delivery["attempts"])) == (event, "failed", 1)
    row = command("webhooks", "deliveries", endpoint).stdout.splitlines()[1]
    assert event in row
    assert "answered 500" in row


# Events


def test_events_are_listed_newest_first(
    command: Command, run_json: RunJson, database: Location, project: str
) -> None:
    happen(database, project, 3)
    found = run_json("events", "list", "--limit", "2")
    assert len(found) == 2
    assert found[0]["id"] > found[1]["id"]
    assert [event["type"] for event in found] == ["account.created"] * 2
    assert found[0]["data"]["object"]["id"] in command("events", "list").stdout
    assert run_json("events", "list", "--mode", "live") == []


def test_an_event_is_sent_again(
    command: Command, run_json: RunJson, database: Location, project: str
) -> None:
    endpoint = run_json("webhooks", "create", URL)["id"]
    happen(database, project)
    event = fail_first(database, endpoint)
    assert run_json("events", "resend", event) == {"deliveries": 1, "skipped": []}
    (delivery,) = run_json("webhooks", "deliveries", endpoint)
    assert (delivery["status"], delivery["next_attempt_at"] is not None) == ("pending", True)
    assert command("events", "resend", event, "--endpoint", endpoint).stdout == "1 delivery is sent again.\n"
    run_json("webhooks", "disable", endpoint)
    skipped = [{"endpoint": endpoint, "reason": "disabled"}]
    assert run_json("events", "resend", event) == {"deliveries": 0, "skipped": skipped}
    assert command("events", "resend", event).stdout == (
        f"0 deliveries are sent again.\nNothing is sent to {endpoint}: it is disabled.\n"
    )


def test_all_that_failed_is_sent_again(
    command: Command, run_json: RunJson, database: Location, project: str
) -> None:
    endpoint = run_json("webhooks", "create", URL)["id"]
    happen(database, project)
    fail_first(database, endpoint)
    assert run_json("events", "resend", "--failed-since", "2100-01-01") == {"deliveries": 0, "skipped": []}
    nothing = command("events", "resend", "--failed-since", "2100-01-01").stdout
    assert nothing == "Nothing failed since 2100-01-01T00:00:00.000Z.\n"
    assert run_json("events", "resend", "--failed-since", "2026-01-01") == {"deliveries": 1, "skipped": []}


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ((), 2),
        (("evt_1", "--failed-since", "2026-01-01"), 2),
        (("--failed-since", "yesterday"), 2),
        (("evt_none",), 1),
        (("--failed-since", "2026-01-01", "--endpoint", "whe_none"), 1),
    ],
)
def test_a_bad_call_is_reported_in_one_line(
    command: Command, project: str, words: tuple[str, ...], status: int
) -> None:
    assert only_line(command("events", "resend", *words, status=status).stderr).startswith("ledger-engine: ")


def test_a_registered_endpoint_is_there_for_the_sender(
    run_json: RunJson, database: Location, project: str
) -> None:
    endpoint = run_json("webhooks", "create", URL)["id"]

    def find(unit: Unit) -> list[str]:
        return [each.endpoint for each in endpoints.subscriptions(unit)]

    assert work(database, lambda engine: engine.read(find)) == [endpoint]


@pytest.mark.parametrize("waits", ["soon", "", "5,", "-1", "5,nan", "inf", "1" + ",1" * 50])
def test_invalid_waits_are_reported_in_one_line(command: Command, waits: str) -> None:
    done = command("serve", "--webhook-retries", waits, status=2)
    assert only_line(done.stderr).startswith("ledger-engine: ")
