"""What a server does beside answering: it begins together, and ends promptly with nothing lost."""

from __future__ import annotations

from functools import partial

import pytest

from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox, request_log
from ledger_engine.events.following import Followers
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.ledger import accounts
from ledger_engine.ledger.accounts import NewAccount
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest
from ledger_engine.upkeep.background import Background
from ledger_engine.upkeep.timekeeping import Timekeeper
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.events.test_request_log import note
from tests.ledger_engine.events.webhooks.test_deliver import Delivering
from tests.receivers import receiving


@pytest.mark.process
async def test_all_of_it_runs_and_what_was_begun_is_recorded(
    engine: Engine, tenant: Tenant, read: Run
) -> None:
    timekeeper = Timekeeper(engine)
    await timekeeper.begin()
    background = Background(engine, Seal(None), timekeeper, retries_s=(1,))
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


async def test_who_follows_is_told_when_the_server_begins_to_stop(engine: Engine) -> None:
    background = Background(engine, Seal(None), Timekeeper(engine))
    followers = Followers.of(engine)
    change = followers.next_change()
    background.begin_stop()
    await followers.wait_for(change)
    assert followers.ended
    await background.stop()
