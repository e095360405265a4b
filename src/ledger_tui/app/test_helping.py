"""What the main screen does for the server's test helpers: asking first, sending, and reading anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from textual.message import Message
from textual.screen import Screen

from ledger_tui.app.navigation import Navigation
from ledger_tui.client.errors import ClientError, NotOffered, Unreachable
from ledger_tui.client.records import Record
from ledger_tui.features.test_helpers import MISSING, PART, ROOT, HelperRequest, outcome_of
from ledger_tui.formats.text import literal
from ledger_tui.ui.dialogs import ConfirmScreen
from ledger_tui.ui.view import Context


@dataclass
class HelperDone(Message):
    """A test helper has done what was asked; `clock` is the ledger's after it."""

    request: HelperRequest
    answer: Record
    clock: Record


class TestHelping:
    """Sends requests to test helpers for the main screen, which hands it the answers."""

    __test__ = False  # its name begins as those of pytest's classes do

    def __init__(self, screen: Screen[Any], navigation: Navigation, context: Context) -> None:
        self._screen = screen
        self._navigation = navigation
        self._context = context

    def ask(self, request: HelperRequest) -> None:
        """Ask first where something is lost, then send."""
        if why := self._context.session.forbids_changes:
            self._screen.notify(why, markup=False)
            return
        if not request.question:
            self._start(request)
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._start(request)

        # Live keys have no test helpers, so nothing has to be typed.
        dialog = ConfirmScreen(request.question, None, self._context.session.mode)
        self._screen.app.push_screen(dialog, answered)

    def _start(self, request: HelperRequest) -> None:
        self._screen.run_worker(self._send(request), group="act", exit_on_error=False)

    async def _send(self, request: HelperRequest) -> None:
        api = self._context.api
        try:
            # Asked first, as a 404 of the request itself may mean that there is no such snapshot.
            await api.call("GET", f"{ROOT}/clock", part=PART)
            answer = await api.write(request.method, request.path, request.body, None)
            clock = await api.call("GET", f"{ROOT}/clock", part=PART)
        except NotOffered:
            self._fail(MISSING)
        except Unreachable as error:
            self._fail(f"No answer ({literal(error)}): it may have succeeded.")
        except ClientError as error:
            self._fail(literal(error))
        else:
            self._screen.post_message(HelperDone(request, answer.record, clock.record))

    def _fail(self, sentence: str) -> None:
        self._screen.notify(sentence, severity="error", markup=False)

    async def done(self, message: HelperDone) -> None:
        """Say what was done; after the ledger went back or was emptied, read everything anew."""
        self._context.session.saw_clock(message.clock.get("offset_ms"))
        if message.request.rewinds:
            await self._navigation.forget()
        self._screen.notify(outcome_of(message.request, message.answer), markup=False)
        self._navigation.view.poll_soon()
