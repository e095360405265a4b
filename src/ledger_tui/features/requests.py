"""The screen of the request log; on a server without one, the dashboard's own requests."""

from __future__ import annotations

from ledger_tui.client.records import Record
from ledger_tui.client.traffic import Exchange
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.base import Place
from ledger_tui.resources.requests import as_exchange, fits, own_request, requests_resource
from ledger_tui.ui.view import Context


class RequestsView(ResourceView):
    """Copy-as-curl copies the logged request, not the one that read the log."""

    def __init__(self, _place: Place, context: Context) -> None:
        super().__init__(requests_resource(context.traffic.is_own), context)

    def stand_in_rows(self) -> list[Record]:
        traffic = self.context.traffic
        exchanges = [*traffic]
        first = traffic.count - len(exchanges)
        rows = [own_request(first + n, exchange) for n, exchange in enumerate(exchanges)][::-1]
        return [row for row in rows if fits(row, self.record_list.filters)]

    def shown_exchange(self) -> Exchange:
        record = self.selected
        if record is None:
            return super().shown_exchange()
        return as_exchange(record, self.context.session.url)
