"""The terminal of the dashboard, where it does otherwise than Textual."""

from __future__ import annotations

import asyncio

from ledger_tui.app.terminal import TerminalDriver


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
