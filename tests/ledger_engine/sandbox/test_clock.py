"""A clock that only goes forward, and goes back together with the ledger."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.sandbox.clock import ClockState, MovableClock, clock_of, store_clock
from tests.helped_server import ROOT, HelpedServer, Owned
from tests.ledger_engine.manual_clock import ManualClock

START = 1_790_000_000_000


class Machine(ManualClock):
    def monotonic(self) -> float:
        return self.now() / 1000


def test_it_runs_with_the_machines_clock_until_it_is_moved() -> None:
    machine = Machine(START)
    clock = MovableClock(machine)
    machine.advance(5)
    assert (clock.now(), clock.offset_ms()) == (START + 5, 0)


def test_moved_it_runs_on_ahead() -> None:
    machine = Machine(START)
    clock = MovableClock(machine)
    clock.move_to(START + 1000)
    machine.advance(7)
    assert (clock.now(), clock.offset_ms()) == (START + 1007, 1000)
    clock.move_to(START)
    assert clock.now() == START + 1007, "it only goes forward"


def test_frozen_it_stands_still_and_then_goes_on_from_there() -> None:
    machine = Machine(START)
    clock = MovableClock(machine)
    clock.freeze()
    machine.advance(500)
    assert clock.state() == ClockState(START, True)
    clock.move_to(START + 100)
    assert clock.now() == START + 100
    clock.unfreeze()
    machine.advance(1)
    assert (clock.now(), clock.offset_ms()) == (START + 101, -400)


def test_frozen_or_not_it_goes_past_a_moment_that_was_reached() -> None:
    clock = MovableClock(Machine(START))
    clock.advance_past(START + 10)
    assert clock.now() == START + 11
    clock.freeze()
    clock.advance_past(START + 20)
    assert clock.now() == START + 21


def test_the_time_by_which_waits_are_measured_passes_with_it() -> None:
    machine = Machine(START)
    clock = MovableClock(machine)
    began = clock.monotonic()
    clock.move_to(START + 3_600_000)
    assert clock.monotonic() - began == 3600


def test_it_goes_back_to_where_the_ledger_was() -> None:
    machine = Machine(START)
    clock = MovableClock(machine)
    running = clock.state()
    clock.freeze()
    clock.move_to(START + 1000)
    frozen = clock.state()
    clock.go_back(running)
    machine.advance(3)
    assert clock.state() == ClockState(START + 3, False)
    clock.go_back(frozen)
    machine.advance(3)
    assert clock.state() == ClockState(START + 1000, True)


# Where it stands is known to the next server


DAY_S = 86_400


def clock_after_a_restart(database: Path, key: str) -> dict[str, Any]:
    with HelpedServer(database) as server:
        clock: dict[str, Any] = server.client(key).get(f"{ROOT}/clock").json()
        return clock


def ms(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() * 1000


@pytest.mark.slow
def test_a_clock_goes_on_after_a_restart_as_it_was_left(tmp_path: Path) -> None:
    database = tmp_path / "ledger.db"
    with HelpedServer(database) as server:
        own = server.owned()
        own.helper("clock", advance=30 * DAY_S)
        moved = own.api.get(f"{ROOT}/clock").json()
        own.api.post(f"{ROOT}/snapshots", json={"name": "running"}).raise_for_status()
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in tmp_path.rglob("*") if file.is_file()}
    assert {name.rpartition(".")[2] for name in modes} >= {"db", "clock", "json"}
    assert set(modes.values()) == {"0o600"}, modes
    again = clock_after_a_restart(database, own.key)
    assert again["offset_ms"] - moved["offset_ms"] in range(10), "it runs on, and is ahead by as much"
    with HelpedServer(database) as server:
        same = Owned(own.tenant, own.key, server.client(own.key))
        frozen = same.helper("clock", frozen=True)
    again = clock_after_a_restart(database, own.key)
    assert again["frozen"] is True
    assert 0 <= ms(again["now"]) - ms(frozen["now"]) < 10
    with HelpedServer(database) as server:
        server.client(own.key).post(f"{ROOT}/snapshots/running/restore").raise_for_status()
    assert clock_after_a_restart(database, own.key)["frozen"] is False


def test_a_new_ledger_has_the_real_time_wherever_the_one_before_was(tmp_path: Path) -> None:
    database = tmp_path / "ledger.db"
    database.touch()
    store_clock(database, MovableClock(frozen_at=5))
    assert clock_of(database).now() == 5
    database.unlink()
    assert clock_of(database).state().frozen is False
    database.touch()
    assert clock_of(database).state().frozen is False, "not later either"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"offset_ms": null, "frozen_at": null}'])
def test_a_file_that_says_nothing_is_named(tmp_path: Path, content: str) -> None:
    database = tmp_path / "ledger.db"
    database.touch()
    (tmp_path / "ledger.db.clock").write_text(content)
    with pytest.raises(StorageUnavailable, match=r"ledger\.db\.clock has no valid state of the test clock"):
        clock_of(database)


def test_a_step_that_is_refused_takes_no_key(own: Owned) -> None:
    once = {"Idempotency-Key": "step-1"}
    for _ in range(2):
        refused = own.api.post(f"{ROOT}/clock", json={"now": "2020-01-01"}, headers=once)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_value")
    assert own.api.post(f"{ROOT}/clock", json={"advance": 1}, headers=once).status_code == 200
