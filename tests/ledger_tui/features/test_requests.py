"""The request that is copied from the request log: the selected one, and without any that of the list."""

from __future__ import annotations

from ledger_tui.features.requests import RequestsView
from ledger_tui.resources.requests import REQUESTS
from tests.ledger_tui.alone import Alone, unconnected


async def test_without_a_selected_request_the_one_that_reads_the_list_is_copied() -> None:
    app = Alone(view := RequestsView(REQUESTS, context := unconnected()))
    context.session.url = "http://h"
    async with app.run_test():
        shown = view.shown_exchange()
        assert (shown.method, shown.url) == ("GET", "http://h/v1/requests")
        view.open_record({"id": "req_2", "method": "POST", "path": "/v1/accounts", "status": 201})
        shown = view.shown_exchange()
        assert (shown.method, shown.url) == ("POST", "http://h/v1/accounts")
