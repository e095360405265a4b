"""The demo opens on the overview, shows how far it is loaded, and offers to repair its broken receiver."""

from collections.abc import AsyncIterator

import pytest

from ledger_tui.app.actions import ReconnectRequested, SaveProfileRequested
from ledger_tui.app.application import LedgerApp
from ledger_tui.features.overview.view import Overview
from ledger_tui.settings.config import Options
from ledger_tui.ui.dialogs import ConfirmScreen
from tests.ledger_tui.driving import Driver, until

pytestmark = [pytest.mark.dashboard, pytest.mark.process, pytest.mark.slow]


@pytest.fixture
async def demo(forked_servers: None, short_intervals: None) -> AsyncIterator[Driver]:
    app = LedgerApp(Options(demo=True))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        yield Driver(app, pilot)


async def test_it_loads_in_sight_and_its_broken_receiver_is_repaired(demo: Driver) -> None:
    overview = demo.app.dashboard.view
    assert isinstance(overview, Overview)
    await demo.sees("of the demo's data loaded")
    await demo.sees("12 accounts", "▲ +", "◐ open", "✓ 200", "/bookkeeping", "transaction.created")
    # The minutes before now are in the first frame.
    values = overview.rate.per_minute(demo.app.session.server_time, 60)
    assert sum(1 for value in values if value) > 40
    assert overview.requests.by_status()
    await demo.sees(" failing")  # wait until the failing receiver is known: then it is the first row
    while overview.tile.id != "tile-webhooks":
        await demo.press("tab")
    assert "/bookkeeping" in str((overview.selected or {}).get("url"))  # what fails comes first
    await demo.press("down")
    await demo.sees_no_more("R repair the receiver")  # this receiver works
    await demo.press("up", sees=("R repair the receiver", "answered 503"))
    await demo.press("R", sees="Repaired http://127.0.0.1")
    await demo.press("enter", sees="Deliveries")
    await until(lambda: [*demo.view.model.window.at_hand()])
    await demo.press("s")  # the newest delivery is sent again
    if isinstance(demo.app.screen, ConfirmScreen):  # a retry has delivered it already
        await demo.press("y")
    await demo.sees("✓ succeeded")
    await until(lambda: "succeeded" in {row["status"] for _at, row in demo.view.model.window.at_hand()})
    await demo.sees_no_more("R repair the receiver")  # the selected delivery arrived
    await demo.press("7", "w", sees=("Webhook endpoints", "h deliveries"))
    demo.app.post_message(ReconnectRequested(key="sk_test_another"))
    await demo.sees("The dashboard's own server needs no other key.")
    demo.app.post_message(SaveProfileRequested("shop"))
    await demo.sees("The dashboard's own server needs no profile.")
    assert demo.app.next_options is None
