"""The screen of the request log; on a server without one, the dashboard's own requests."""

from __future__ import annotations

from ledger_tui.resources.requests import as_exchange, own_request
from ledger_tui.state.traffic import Exchange
from ledger_tui.state.window import Record
from ledger_tui.widgets.resource_view import ResourceView


class RequestsView(ResourceView):
    """Copy-as-curl copies the logged request, not the one that read the log."""

    def stand_in_rows(self) -> list[Record]:
        traffic = self.context.traffic
        exchanges = [*traffic]
        first = traffic.count - len(exchanges)
        return [own_request(first + n, exchange) for n, exchange in enumerate(exchanges)][::-1]

    def shown_exchange(self) -> Exchange:
        record = self.selected
        if record is None:
            return super().shown_exchange()
        return as_exchange(record, self.context.session.url)
