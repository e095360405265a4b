"""Apps: what can be registered, and where they may send users back to (docs/decisions.md#oauth; RFC 8252)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ledger_engine.access import projects
from ledger_engine.access.oauth import apps
from ledger_engine.access.oauth.apps import App, NewApp
from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import Conflict, InvalidRequest, NotFound
from ledger_engine.core.tenant import Tenant
from ledger_engine.store.engine import Engine
from tests.ledger_engine.access.oauth.conftest import Browser
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.refusals import refusal

GOOD = [
    "https://app.example",
    "https://app.example/",
    "https://app.example/callback?tenant=1",
    "https://app.example:8443/callback",
    "https://xn--caf-dma.example/callback",
    "http://127.0.0.1/callback",
    "http://127.0.0.1:8080/callback",
    "http://[::1]/callback",
    "http://localhost:3000/callback",
    "com.example.app:/callback",
    "com.example.app://callback",
]
BAD = [
    "",
    "app.example/callback",
    "//app.example/callback",
    "/callback",
    "https://",
    "https:///callback",
    "https://app.example/callback#here",
    "https://ada@app.example/callback",
    "https://ada:pw@app.example/callback",
    "https://app.example:0/callback",
    "https://app.example:99999/callback",
    "https://app.example:x/callback",
    "https://app.example/*",
    "https://*.example/callback",
    "https://app.example/call back",
    "https://app.example/call\tback",
    "https://app.example/call\nback",
    "https://app.example\\@evil.example/",
    'https://app.example/"><script>',
    "https://café.example/callback",
    "https://[::1/callback",
    "http://app.example/callback",
    "http://127.0.0.2/callback",
    "http://127.0.0.1.evil.example/callback",
    "http://localhost.evil.example/callback",
    "javascript:alert(1)",
    "data:text/html,hello",
    "file:///etc/passwd",
    "myapp:/callback",
    "https://app.example/" + "a" * 2000,
]


@pytest.mark.parametrize("uri", GOOD)
async def test_an_address_of_ones_own_can_be_registered(write: Any, uri: str) -> None:
    app = await write(apps.create, NewApp("Planner", [uri]))
    assert app.redirect_uris == [uri]
    assert app.may_redirect_to(uri)


@pytest.mark.parametrize("uri", BAD)
async def test_any_other_is_refused(write: Any, uri: str) -> None:
    assert await refusal(write(apps.create, NewApp("Planner", ["https://app.example/callback", uri]))) == (
        "invalid_value",
        "redirect_uris",
    )


@pytest.mark.parametrize("uris", [[], [f"https://app.example/{number}" for number in range(21)]])
async def test_an_app_has_1_to_20_addresses(write: Any, uris: list[str]) -> None:
    with pytest.raises(InvalidRequest):
        await write(apps.create, NewApp("Planner", uris))


@pytest.mark.parametrize("name", ["", " ", "a" * 101, "Ledger\u202etset", "a\nb", "\x1b[31mred"])
async def test_a_name_is_printable(write: Any, name: str) -> None:
    with pytest.raises(InvalidRequest):
        await write(apps.create, NewApp(name, ["https://app.example/callback"]))


def app_with(*uris: str, native: bool = False) -> App:
    return App("app_1", "Planner", "prj_1", list(uris), native, apps.Moment(0), False, None)


@pytest.mark.parametrize(
    "uri",
    [
        "https://app.example/callback/",
        "https://app.example/Callback",
        "https://app.example/callbac",
        "https://app.example/callback?",
        "https://app.example/callback?x=1",
        "https://app.example/callback#x",
        "https://app.example/callback#",
        "https://app.example/%63allback",
        "https://app.example/./callback",
        "https://app.example/x/../callback",
        "https://app.example//callback",
        "https://APP.example/callback",
        "HTTPS://app.example/callback",
        "http://app.example/callback",
        "https://app.example:443/callback",
        "https://app.example:8443/callback",
        "https://www.app.example/callback",
        "https://app.example.evil.example/callback",
        "https://evil.example/callback",
        "https://evil.example/?https://app.example/callback",
        "https://ada@app.example/callback",
        "https://app.example@evil.example/callback",
        "https://app.example\\@evil.example/callback",
        "https://app.example/callback ",
        " https://app.example/callback",
        "https://app.example/callback\n",
        "//app.example/callback",
        "",
    ],
)
def test_an_address_must_be_the_registered_one_to_the_letter(uri: str) -> None:
    assert not app_with("https://app.example/callback").may_redirect_to(uri)


@pytest.mark.parametrize("port", ["", ":1", ":8080", ":65535"])
@pytest.mark.parametrize("own", ["http://127.0.0.1/callback", "http://127.0.0.1:9/callback"])
def test_the_port_of_a_native_apps_loopback_address_may_differ(own: str, port: str) -> None:
    assert app_with(own, native=True).may_redirect_to(f"http://127.0.0.1{port}/callback")
    app = app_with("http://[::1]/callback?a=b", native=True)
    assert app.may_redirect_to(f"http://[::1]{port}/callback?a=b")


async def test_any_other_apps_loopback_address_is_the_registered_one_to_the_letter(write: Any) -> None:
    own = "http://127.0.0.1:9/callback"
    app = await write(apps.create, NewApp("Planner", [own]))
    assert (app.native, app.may_redirect_to(own)) == (False, True)
    for port in ("", ":1", ":09", ":90"):
        assert not app.may_redirect_to(f"http://127.0.0.1{port}/callback")


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:8080/callback/",
        "http://127.0.0.1:8080/Callback",
        "http://127.0.0.1:8080/callback?x=1",
        "http://127.0.0.1:8080/callback#x",
        "http://127.0.0.1:8080",
        "http://127.0.0.1:/callback",
        "http://127.0.0.1:0/callback",
        "http://127.0.0.1:080/callback",
        "http://127.0.0.1:123456/callback",
        "http://127.0.0.1:65536/callback",
        "http://127.0.0.1:99999/callback",
        "http://127.0.0.1:80:80/callback",
        "http://127.0.0.1:8080@evil.example/callback",
        "http://ada@127.0.0.1:8080/callback",
        "http://127.0.0.1:8080\\@evil.example/callback",
        "http://127.0.0.1.evil.example/callback",
        "http://127.0.0.2:8080/callback",
        "http://127.1:8080/callback",
        "http://2130706433:8080/callback",
        "http://[::1]:8080/callback",
        "http://localhost:8080/callback",
        "https://127.0.0.1:8080/callback",
        "HTTP://127.0.0.1:8080/callback",
        "http://127.0.0.1:8080/callback\n",
    ],
)
def test_on_a_loopback_address_nothing_but_the_port_may_differ(uri: str) -> None:
    assert not app_with("http://127.0.0.1/callback", native=True).may_redirect_to(uri)


@pytest.mark.parametrize("own", ["http://localhost/callback", "https://127.0.0.1/callback"])
def test_elsewhere_the_port_belongs_to_the_address(own: str) -> None:
    assert not app_with(own, native=True).may_redirect_to(own.replace("/callback", ":8080/callback"))


async def test_an_app_belongs_to_a_project_and_mode(engine: Engine, tenant: Tenant) -> None:
    new = NewApp("Planner", ["https://app.example/callback"])
    live = Tenant(tenant.project, livemode=True)
    app = await engine.write(partial(apps.create, tenant=live, new=new))
    assert (app.id.startswith("app_"), app.project, app.livemode) == (True, tenant.project, True)
    assert await engine.read(partial(apps.find, client_id=app.id)) == app
    assert await engine.read(partial(apps.every, project=tenant.project)) == [app]


async def test_a_deleted_app_is_not_found_any_more(engine: Engine, tenant: Tenant, write: Any) -> None:
    app = await write(apps.create, NewApp("Planner", ["https://app.example/callback"]))
    deleted = await engine.write(partial(apps.delete, id=app.id))
    assert deleted.deleted_at is not None
    assert await engine.read(partial(apps.every, project=tenant.project)) == []
    for again in (partial(apps.find, client_id=app.id), partial(apps.delete, id=app.id)):
        with pytest.raises(NotFound):
            await engine.write(again)


async def test_an_app_of_an_archived_project_is_not_found(engine: Engine, tenant: Tenant, write: Any) -> None:
    app = await write(apps.create, NewApp("Planner", ["https://app.example/callback"]))
    await engine.write(partial(projects.archive, tenant=tenant, id=tenant.project))
    with pytest.raises(NotFound):
        await engine.read(partial(apps.find, client_id=app.id))


# Deleted apps can be restored for 30 days; what their users allowed them stays over


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
