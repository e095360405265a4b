"""The live webhook log: it receives events, checks each signature, and shows the deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from textual.content import Content

from ledger_client.errors import InvalidRequest, LedgerError
from ledger_tui.client.errors import NotOffered
from ledger_tui.client.figures import ENDPOINTS_READ, PassedPages, health_of, last_errors, read_deliveries
from ledger_tui.client.records import Record
from ledger_tui.client.stream import EventLine, ReceivedEvent
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.base import Place
from ledger_tui.resources.webhooks import Listening, WebhookLog, events_resource
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.view import Context

# The waits before the dashboard opens a lost stream again. After each further failure, it takes the next
# wait.
_AGAIN_SECONDS = (0.5, 1.0, 2.0, 5.0)
_GATHER_SECONDS = 0.1  # events that arrive within this time are drawn together
_QUIET_SECONDS = 30.0  # the minimum time between two polls while the stream is open and no endpoint is known


class EventsView(ResourceView):
    """The screen of events. After it is first shown, it receives new events until the dashboard ends."""

    def __init__(self, _place: Place, context: Context) -> None:
        self.webhooks = WebhookLog()
        super().__init__(events_resource(self.webhooks), context)
        self._events: list[ReceivedEvent] = []
        self._passed_pages: PassedPages = {}

    def enter(self) -> None:
        super().enter()
        if self.webhooks.listening is Listening.OFF:
            self.webhooks.listening = Listening.CONNECTING
            self._listen()

    def forget(self) -> None:
        self.webhooks.forget()
        self._passed_pages.clear()
        super().forget()

    def moment_changed(self) -> None:
        self.context.failing.note({})
        super().moment_changed()

    # ------------------------------------------------------------------ listening

    @asks("listen", exclusive=False)
    async def _listen(self) -> None:
        line = EventLine(self.context.api)
        failures = 0
        while True:
            try:
                async for event in line.listen():
                    failures = 0
                    self._gather(event)
            except NotOffered:
                self.call_later(self._listening_changed, Listening.NOT_OFFERED)
                return
            except InvalidRequest:
                line.forget()
                self.call_later(self._listening_changed, Listening.LOST)
            except LedgerError:
                self.call_later(self._listening_changed, Listening.LOST)
            await asyncio.sleep(_AGAIN_SECONDS[min(failures, len(_AGAIN_SECONDS) - 1)])
            failures += 1

    def _gather(self, event: ReceivedEvent | None) -> None:
        """Collect an event, so that events in quick succession are drawn together.

        `event` is None to report that the stream is connected.
        """
        if event is None:
            self.call_later(self._listening_changed, Listening.ON)
            return
        self._events.append(event)
        if len(self._events) == 1:
            self.set_timer(_GATHER_SECONDS, self._take_received)

    @while_running
    def _take_received(self) -> None:
        events, self._events = self._events, []
        note = self.webhooks.note_signature
        new = [each.event for each in events if note(str(each.event["id"]), each.valid)]
        if self.context.session.moment_ms is not None:
            return  # the past is shown; the list reads these events when it shows the present again
        # The list may have read these events before. Redraw their rows with the marks of the signatures.
        self.table.redraw()
        self.model.push(new[::-1])
        self.record_list.show_rows()

    @while_running
    def _listening_changed(self, listening: Listening) -> None:
        self.webhooks.listening = listening
        self.changed()

    # ------------------------------------------------------------------ deliveries

    def poll(self) -> float:
        super().poll()
        self._read_deliveries()
        # While the stream is open and there are no endpoints with deliveries to read, a rare poll is enough.
        quiet = self.webhooks.listening is Listening.ON and not self.webhooks.endpoints
        return max(self._pause, _QUIET_SECONDS) if quiet else self._pause

    @property
    def _pause(self) -> float:
        """The seconds between two polls; each poll also reads the deliveries."""
        return self.context.session.pause_after(2 + min(ENDPOINTS_READ, len(self.webhooks.endpoints)))

    @asks("deliveries")
    async def _read_deliveries(self) -> None:
        session = self.context.session
        if "webhook_endpoints" in session.missing_parts:
            return
        try:
            endpoints, deliveries = await read_deliveries(self.context.api, passed=self._passed_pages)
        except LedgerError:  # the status bar already names the problem
            return
        self.call_later(self._take_deliveries, endpoints, deliveries)

    @while_running
    def _take_deliveries(self, endpoints: Sequence[Record], deliveries: Sequence[Record]) -> None:
        # `next_poll_at` was chosen when no endpoint was known, and may be too late now that endpoints are
        # known.
        if endpoints and not self.webhooks.endpoints:
            self.next_poll_at = min(self.next_poll_at, self.context.session.clock() + self._pause)
        self.webhooks.endpoints = {str(each.get("id")): each for each in endpoints}
        self.context.names.learn_endpoints(endpoints)
        self.webhooks.note_deliveries(deliveries)
        self.context.failing.note(last_errors(health_of(endpoints, deliveries)))
        self.model.arrange_again()
        self.table.repaint()
        self.table.redraw()
        self.changed()

    # ------------------------------------------------------------------ the caption

    def news(self) -> Content:
        log = self.webhooks
        if log.wrong:
            wrong = f"✗ {log.wrong} with a wrong signature   "
            return Content.styled(wrong, "bold $error")
        errors = map(self.context.failing.error_of, log.endpoints.values())
        if failing := sum(error is not None for error in errors):
            fail = "endpoint fails" if failing == 1 else "endpoints fail"
            these = "it" if failing == 1 else "them"
            return Content.styled(f"✕ {failing} {fail}: w lists {these}   ", "bold $error")
        match log.listening:
            case Listening.ON:
                count_text = f"{log.received:,} received   " if log.received else "listening   "
                return Content.assemble(("◉ ", "$plus"), (count_text, "$muted"))
            case Listening.LOST:
                return Content.styled("✕ not listening, trying again   ", "bold $error")
            case Listening.NOT_OFFERED:
                return Content.styled("no live stream on this server; the list is polled   ", "$muted")
            case _:
                return Content.styled("◌ connecting…   ", "$muted")
