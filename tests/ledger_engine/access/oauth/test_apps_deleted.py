"""Deleted apps can be restored for 30 days; what their users allowed them stays over."""

from __future__ import annotations

from functools import partial

import pytest

from ledger_engine.access.oauth import apps
from ledger_engine.access.oauth.apps import App
from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import Conflict, NotFound
from ledger_engine.store.engine import Engine
from tests.ledger_engine.access.oauth.conftest import Browser
from tests.ledger_engine.manual_clock import ManualClock


async def test_a_restored_app_asks_its_users_again(browser: Browser, engine: Engine, planner: App) -> None:
    before = await browser.tokens()
    waiting = await browser.code()
    await engine.write(partial(apps.delete, id=planner.id))
    assert (await browser.authorize()).status_code == 400
    assert await engine.write(partial(apps.restore, id=planner.id)) == planner
    assert await engine.read(partial(apps.every, project=planner.project)) == [planner]
    assert (await browser.use(before["access_token"])).status_code == 401
    for old in ({"grant_type": "refresh_token", "refresh_token": before["refresh_token"]}, {"code": waiting}):
        answer = await browser.exchange(code_verifier="v" * 43, **old)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    assert (await browser.use((await browser.tokens())["access_token"])).status_code == 200


async def test_an_app_is_restored_for_30_days_and_no_longer(
    engine: Engine, planner: App, clock: ManualClock
) -> None:
    kept = partial(apps.deleted, project=planner.project)
    await engine.write(partial(apps.delete, id=planner.id))
    clock.advance(30 * DAY)
    assert [app.id for app in await engine.read(kept)] == [planner.id]
    await engine.write(partial(apps.restore, id=planner.id))
    with pytest.raises(Conflict, match="not deleted"):
        await engine.write(partial(apps.restore, id=planner.id))
    await engine.write(partial(apps.delete, id=planner.id))
    clock.advance(30 * DAY + 1)
    assert await engine.read(kept) == []
    with pytest.raises(NotFound):
        await engine.write(partial(apps.restore, id=planner.id))


async def test_a_purge_takes_a_deleted_app_with_its_grants_and_tokens(
    browser: Browser, engine: Engine, planner: App, clock: ManualClock
) -> None:
    for _ in range(3):
        await browser.tokens()
    await engine.write(partial(apps.delete, id=planner.id))
    purge = partial(apps.purge, before=clock.now() + 1, limit=2)
    assert await engine.write(partial(apps.purge, before=clock.now(), limit=2)) == 0
    assert [await engine.write(purge) for _ in range(3)] == [2, 1, 0]
    for table in ("apps", "grants", "oauth_tokens"):
        select = f"SELECT * FROM {table}"
        assert await engine.read(lambda unit, select=select: unit.execute(select)) == []
