"""The screen of webhook endpoints, which marks the endpoints whose deliveries fail."""

from __future__ import annotations

from collections.abc import Mapping

from ledger_client.errors import LedgerError
from ledger_tui.client.figures import ENDPOINTS_READ, PassedPages, read_health
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.base import Place
from ledger_tui.resources.endpoints import ENDPOINTS, FailingEndpoints, endpoints_resource
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.view import Context


class EndpointsView(ResourceView):
    """The list of endpoints. Each poll also reads the newest deliveries of the first endpoints."""

    def __init__(self, _place: Place, context: Context) -> None:
        self._failing = FailingEndpoints()
        super().__init__(endpoints_resource(self._failing), context)
        self._passed_pages: PassedPages = {}

    @property
    def failing_endpoint(self) -> str | None:
        """The id of the selected endpoint if it fails."""
        record = self.selected
        return (
            str(record["id"]) if record is not None and self._failing.error_of(record) is not None else None
        )

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
        errors = {str(each.endpoint.get("id")): each.last_error or "" for each in healths if each.fails}
        self.call_later(self._take_health, errors, moment)

    @while_running
    def _take_health(self, errors: Mapping[str, str], moment: int | None) -> None:
        if moment == self.context.session.moment_ms and self._failing.note(errors):
            self.table.redraw()
            self.table.repaint()
            self.changed()
