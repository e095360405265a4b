"""What a server does beside answering: it begins together, and ends promptly with nothing lost."""

from __future__ import annotations

from functools import partial

import pytest

from ledger_engine.core.clock import DAY
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox, request_log
from ledger_engine.events.following import Followers
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.ledger import accounts
from ledger_engine.ledger.accounts import NewAccount
from ledger_engine.store import kept_time
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.pages import PageRequest
from ledger_engine.upkeep.background import Background
from tests.ledger_engine.conftest import START, Run
from tests.ledger_engine.events.test_request_log import note
from tests.ledger_engine.events.webhooks.test_deliver import Delivering
from tests.ledger_engine.manual_clock import ManualClock
from tests.receivers import receiving


class Behind(ManualClock):
    """A ledger's clock, of a machine whose own is behind it."""

    behind_ms = 0

    def machine(self) -> int:
        return super().machine() - self.behind_ms


@pytest.mark.process
async def test_all_of_it_runs_and_what_was_begun_is_recorded(
    engine: Engine, tenant: Tenant, read: Run
) -> None:
    background = Background(engine, Seal(None), retries_s=(1,))
    await background.begin()
    background.start()
    async with receiving() as receiver:
        endpoint = await Delivering(engine, tenant).endpoint(receiver)
        await engine.write(partial(accounts.create, tenant=tenant, new=NewAccount("Till", "EUR", {})))
        await receiver.until_received(1)
        background.recorder.note(note(tenant))
        await background.stop()
        (delivery,) = await Delivering(engine, tenant).deliveries(endpoint.id)
        assert delivery.status == "succeeded"
        assert len((await read(request_log.page, PageRequest())).items) == 1
        await engine.write(partial(accounts.create, tenant=tenant, new=NewAccount("Box", "EUR", {})))
        assert len(receiver.received) == 1, "it has stopped"
    assert await engine.read(partial(outbox.resume, tenant=tenant, last=None)) != delivery.event


async def test_a_time_that_is_far_ahead_of_the_machines_clock_is_logged_at_the_start(
    location: Location, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Behind(START)
    engine = open_engine(location, clock=clock, serving=True)
    background = Background(engine, Seal(None))
    clock.behind_ms = DAY
    await background.begin()
    assert caplog.messages == []
    assert engine.notice is None
    clock.behind_ms += 1
    await background.begin()
    assert caplog.messages == [engine.notice]
    assert engine.notice == (
        "The ledger's time is 2026-09-21T14:13:20.000Z, although the machine's clock shows"
        " 2026-09-20T14:13:19.999Z. The ledger's time never goes back, so it continues from the later time."
    )
    await background.stop()
    assert (await engine.read(kept_time.get)).served == clock.machine()
    await engine.close()


async def test_a_follower_is_told_when_the_server_begins_to_stop(engine: Engine) -> None:
    background = Background(engine, Seal(None))
    followers = Followers.of(engine)
    change = followers.next_change()
    background.begin_stop()
    await followers.wait_for(change)
    assert followers.ended
    await background.stop()
