"""The dashboard's terminal driver differs from Textual's in these ways."""

from __future__ import annotations

import asyncio

import pytest
from textual import events

from ledger_tui.app.terminal import KeyParser, TerminalDriver


class Resumed(TerminalDriver):
    """A driver without a terminal that counts how often it was resumed."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._auto_restart = True
        self.resumed = 0

    def resume_application_mode(self) -> None:
        self.resumed += 1


async def test_a_signal_takes_no_lock_of_what_it_interrupts_but_is_handled_in_the_next_turn() -> None:
    driver = Resumed()
    driver._sigcont_application()
    assert driver.resumed == 0
    await asyncio.sleep(0)
    assert driver.resumed == 1


@pytest.mark.parametrize(
    ("reads", "keys"),
    [
        (["\x1bj"], "escape j"),
        (["\x1bf\x1bb"], "escape f escape b"),
        (["\x1b2\x1b", "q"], "escape 2 escape q"),
        (["\x1b\x1bj"], "escape escape j"),
        (["\x1b\r"], "escape enter"),
        (["\x1b" + "j" * 40], "escape" + " j" * 40),
        (["a\x1b[A\x1bOPb"], "a up f1 b"),
        (["\x1b", "[A"], "up"),
        (["\x1b", "\x1b[B"], "escape down"),
        (["\x1b[200~ab\x1b[201~\x1bc"], "paste escape c"),
        (["\x1b[200~a", "b", "\x1b[201~\x1bc"], "paste escape c"),
    ],
)
def test_esc_and_a_key_right_after_it_are_two_keys(reads: list[str], keys: str) -> None:
    parser = KeyParser()
    parsed = [event for data in reads for event in parser.feed(data)]
    names = [event.key if isinstance(event, events.Key) else "paste" for event in parsed]
    assert " ".join(names) == keys


@pytest.mark.parametrize(
    ("reads", "texts"),
    [
        (["\x1b[200~a\x1b[31mred\x1b[0m\x1b[201~"], ["a\x1b[31mred\x1b[0m"]),
        (["\x1b[200~a\x1bb\x00\x1b[201~c"], ["a\x1bb\x00"]),
        (["\x1b[200~a\x1b", "[31mb\x1b[20", "1~\x1b[200~d\x1b[201~"], ["a\x1b[31mb", "d"]),
        (["x\x1b[20", "0~a\x1b[31mb\x1b[201~"], ["a\x1b[31mb"]),
        (["\x1b", "\x1b[200~a\x1b[201~"], ["a"]),
    ],
)
def test_a_pasted_text_is_one_text_whatever_it_contains(reads: list[str], texts: list[str]) -> None:
    parser = KeyParser()
    parsed = [event for data in reads for event in parser.feed(data)]
    assert [event.text for event in parsed if isinstance(event, events.Paste)] == texts


def test_a_function_key_whose_beginning_ends_a_read_stays_a_key() -> None:
    parser = KeyParser()
    parsed = [event for data in ("\x1b[20", "~", "\x1b[2", "~") for event in parser.feed(data)]
    assert [event.key for event in parsed if isinstance(event, events.Key)] == ["f9", "insert"]
