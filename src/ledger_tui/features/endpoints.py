"""The screen of webhook endpoints, which marks the endpoints whose deliveries fail."""

from __future__ import annotations

from collections.abc import Mapping

from ledger_client.errors import LedgerError
from ledger_tui.client.figures import ENDPOINTS_READ, PassedPages, last_errors, read_health
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.base import Place
from ledger_tui.resources.endpoints import ENDPOINTS, endpoints_resource
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.view import Context


class EndpointsView(ResourceView):
    """The list of endpoints. Each poll also reads the newest deliveries of the first endpoints."""

    def __init__(self, _place: Place, context: Context) -> None:
        self._failing = context.failing
        super().__init__(endpoints_resource(self._failing), context)
        self._passed_pages: PassedPages = {}
        # whether the cursor goes to the first failing endpoint once the dashboard knows this endpoint
        self._seeks_failing = False

    @property
    def failing_endpoint(self) -> str | None:
        """The id of the selected endpoint if it fails."""
        record = self.selected
        return (
            str(record["id"]) if record is not None and self._failing.error_of(record) is not None else None
        )

    def enter(self) -> None:
        super().enter()
        self._seeks_failing = True
        self.table.redraw()  # another screen may have read which endpoints fail
        self.changed()

    def changed(self) -> None:
        self._go_to_failing()
        super().changed()

    def _go_to_failing(self) -> None:
        """Put the cursor on the first endpoint that fails, unless the user has chosen a row."""
        window = self.model.window
        if not self._seeks_failing or self.opened or self.model.pinned or not window.following:
            return
        rows = (row for row, endpoint in window.at_hand() if self._failing.error_of(endpoint) is not None)
        if (row := next(rows, None)) is not None:
            self._seeks_failing = False
            self.table.go_to(row)

    def forget(self) -> None:
        self._failing.note({})
        self._passed_pages.clear()
        super().forget()

    def moment_changed(self) -> None:
        self._failing.note({})
        super().moment_changed()

    def poll(self) -> float:
        pause = super().poll()
        self._read_health()
        return max(pause, self.context.session.pause_after(2 + ENDPOINTS_READ))

    @asks("deliveries")
    async def _read_health(self) -> None:
        session = self.context.session
        if ENDPOINTS.part in session.missing_parts:
            return
        moment = session.moment_ms
        try:
            healths = await read_health(self.context.api, self._passed_pages)
        except LedgerError:  # the list or the status bar already shows the problem
            return
        self.call_later(self._take_health, last_errors(healths), moment)

    @while_running
    def _take_health(self, errors: Mapping[str, str], moment: int | None) -> None:
        if moment != self.context.session.moment_ms:
            return
        if self._failing.note(errors):
            self.table.redraw()
            self.table.repaint()
            self.changed()
        self._seeks_failing = self._seeks_failing and not self.model.window.loaded
