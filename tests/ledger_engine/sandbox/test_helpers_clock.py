"""Moving the clock: what lives by time happens as if the time had passed."""

from __future__ import annotations

import asyncio
import itertools
import time
from datetime import datetime

import httpx
import pytest

from ledger_engine.sandbox import helpers
from ledger_engine.sandbox.routes import LATEST
from ledger_engine.store import Unit
from tests.helped_server import ROOT, HelpedServer, Owned
from tests.receivers import answering, receiving

DAY_S = 86_400


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_the_clock_says_what_it_shows(own: Owned) -> None:
    before = own.api.get(f"{ROOT}/clock").json()
    after = own.helper("clock", advance=90)
    assert before.keys() == {"now", "offset_ms", "frozen"}
    assert after["offset_ms"] - before["offset_ms"] == 90_000
    assert 90 <= at(after["now"]) - at(before["now"]) < 120
    account = own.made("/v1/accounts", name="Till", currency="EUR")
    assert account["created"] >= after["now"]


def test_frozen_two_answers_are_the_same_and_order_is_kept(own: Owned) -> None:
    frozen = own.helper("clock", frozen=True)
    try:
        accounts = [own.made("/v1/accounts", name=f"Till {n}", currency="EUR") for n in range(3)]
        assert own.api.get(f"{ROOT}/clock").json()["now"] == frozen["now"]
        assert len({account["created"] for account in accounts}) == 1
        listed = own.api.get("/v1/accounts").json()["data"]
        assert [each["id"] for each in listed] == [each["id"] for each in reversed(accounts)]
    finally:
        assert own.helper("clock", frozen=False)["frozen"] is False


def test_it_moves_to_a_time_and_refuses_one_that_is_past(own: Owned) -> None:
    now = at(own.api.get(f"{ROOT}/clock").json()["now"])
    there = datetime.fromtimestamp(int(now) + 3600).astimezone().isoformat()
    assert at(own.helper("clock", now=there)["now"]) >= int(now) + 3600
    refused = own.api.post(f"{ROOT}/clock", json={"now": "2020-01-01"})
    assert refused.status_code == 400
    assert (refused.json()["error"]["code"], refused.json()["error"]["param"]) == ("invalid_value", "now")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"advance": -1}, "advance"),
        ({"advance": 1e300}, "advance"),
        ({"advance": 1, "frozen": True}, "advance"),
        ({}, "advance"),
        ({"now": "tomorrow"}, "now"),
        ({"now": "9999-01-01T00:00:00Z"}, "now"),
        ({"advance": LATEST / 1000}, "advance"),
    ],
)
def test_a_step_that_is_not_forward_is_refused(own: Owned, body: dict[str, object], param: str) -> None:
    refused = own.api.post(f"{ROOT}/clock", json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


def test_a_token_expires(server: HelpedServer, own: Owned) -> None:
    body = {"grant_type": "api_key", "api_key": own.key}
    token = own.api.post("/v1/auth/token", json=body).json()["access_token"]
    with_token = server.client(token)
    own.helper("clock", advance=3500)
    assert with_token.get("/v1/accounts").status_code == 200
    own.helper("clock", advance=101)
    refused = with_token.get("/v1/accounts")
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "expired_credential")


def test_a_user_is_erased_when_the_time_to_restore_is_over(own: Owned) -> None:
    users = [own.made("/api/users", name=f"Ada {n}", email=f"ada{n}@example.com") for n in range(2)]
    for user in users:
        own.api.delete(f"/api/users/{user['id']}")
    own.helper("clock", advance=29 * DAY_S)
    assert own.api.post(f"/api/users/{users[0]['id']}/restore").status_code == 200
    own.helper("clock", advance=2 * DAY_S)
    assert own.api.post(f"/api/users/{users[1]['id']}/restore").status_code == 409
    assert own.api.get(f"/api/users/{users[1]['id']}").json()["name"] is None


def test_rate_limit_windows_stay_on_the_wall_clock(server: HelpedServer) -> None:
    free = server.owned("free")
    left = int(free.api.get(f"{ROOT}/clock").headers["X-RateLimit-Remaining"])
    reset = int(free.api.get(f"{ROOT}/clock").headers["X-RateLimit-Reset"])
    moved = free.api.post(f"{ROOT}/clock", json={"advance": 3600})
    if int(moved.headers["X-RateLimit-Reset"]) == reset:  # the minute was not over
        assert int(moved.headers["X-RateLimit-Remaining"]) == left - 2


async def test_each_retry_is_sent_at_its_time_in_order_and_none_is_skipped(own: Owned) -> None:
    async with receiving(answering(500)) as receiver:
        endpoint = await asyncio.to_thread(
            own.made, "/v1/webhook_endpoints", url=receiver.url, events=["account.created"]
        )
        for number in range(2):
            await asyncio.to_thread(own.made, "/v1/accounts", name=f"Till {number}", currency="EUR")
        await asyncio.to_thread(own.helper, "clock", advance=DAY_S)
        assert len(receiver.received) == 2 * 4, "the first attempt and three retries of each event"
        listed = await asyncio.to_thread(own.api.get, f"/v1/webhook_endpoints/{endpoint['id']}/deliveries")
    for delivery in listed.json()["data"]:
        times = [at(attempt["attempted_at"]) for attempt in delivery["attempts"]]
        waits = [later - earlier for earlier, later in itertools.pairwise(times)]
        for wait, meant in zip(waits, (5, 300, 1800), strict=True):
            # A jitter of a tenth, and the time that sending takes.
            assert meant <= wait + 0.5, (waits, meant)
            assert wait <= meant * 1.1 + 5, (waits, meant)
        assert delivery["status"] == "failed"
    attempts = [(at(each["attempted_at"]), each) for d in listed.json()["data"] for each in d["attempts"]]
    assert len(attempts) == 8
    assert [received.attempt for received in receiver.received] == [1, 1, 2, 2, 3, 3, 4, 4]


async def test_a_retry_that_falls_due_while_the_clock_is_moved_is_not_taken_for_one_that_fails(
    server: HelpedServer, own: Owned, monkeypatch: pytest.MonkeyPatch
) -> None:
    next_due = helpers._next_due

    def slowly(unit: Unit) -> int | None:
        due = next_due(unit)
        if due is not None:
            server.clock.move_to(due + 1)
        return due

    monkeypatch.setattr(helpers, "_next_due", slowly)
    async with receiving(answering(500)) as receiver:
        await asyncio.to_thread(
            own.made, "/v1/webhook_endpoints", url=receiver.url, events=["account.created"]
        )
        await asyncio.to_thread(own.made, "/v1/accounts", name="Till", currency="EUR")
        await asyncio.to_thread(own.helper, "clock", advance=DAY_S)
        assert [received.attempt for received in receiver.received] == [1, 2, 3, 4]


def test_without_a_credential_it_is_refused_as_any_unknown_path(server: HelpedServer) -> None:
    anyone = server.client()
    ours, unknown = (anyone.get(path) for path in (f"{ROOT}/clock", "/v1/nothing"))
    assert (ours.status_code, ours.json()) == (unknown.status_code, unknown.json())


@pytest.mark.parametrize(("role", "livemode"), [("admin", False), ("member", False), ("owner", True)])
def test_only_owners_of_test_keys_find_the_helpers(
    server: HelpedServer, own: Owned, role: str, livemode: bool
) -> None:
    other = server.client(server.key(own.tenant.project, role, livemode=livemode))

    def told(answer: httpx.Response) -> tuple[int, str]:
        return answer.status_code, answer.text

    for path in ("/clock", "/faults", ""):
        unknown = other.post(f"/v1/nothing{path}", content=b"{")
        ours = other.post(f"{ROOT}{path}", content=b"{")
        assert told(ours) == (404, unknown.text.replace("/v1/nothing", ROOT))


@pytest.mark.slow
def test_a_move_takes_no_longer_for_the_projects_of_other_tests(server: HelpedServer, own: Owned) -> None:
    for number in range(100):
        own.made("/v1/projects", name=f"Other {number}")
    # The pauses that retention makes beside the requests of a server would add up to 4 seconds.
    assert min(took(own) for _ in range(3)) < 4


def took(own: Owned) -> float:
    began = time.monotonic()
    own.helper("clock", advance=1)
    return time.monotonic() - began
