"""A clock that only goes forward, and goes back together with the ledger."""

from ledger_engine.sandbox.clock import ClockState, MovableClock
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
