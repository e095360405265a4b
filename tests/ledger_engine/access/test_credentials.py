"""Credentials: whose a bearer value is."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from pathlib import Path

import pytest

from ledger_engine.access import api_keys, credentials, projects
from ledger_engine.access.api_keys import ApiKey, NewApiKey
from ledger_engine.access.credentials import TokenPair
from ledger_engine.access.projects import NewProject, ProjectChanges
from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import AuthenticationError
from ledger_engine.core.tenant import Tenant
from ledger_engine.store.engine import Engine
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.refusals import refusal


async def make(engine: Engine, new: NewProject, livemode: bool = False) -> tuple[Tenant, str]:
    """Return the administrator's tenant of a project with a key, and the key's value."""
    project = await engine.write(partial(projects.create, new=new))
    tenant = Tenant(project.id, livemode)
    value = api_keys.new_value(livemode)
    await engine.write(partial(api_keys.create, tenant=tenant, new=NewApiKey(), value=value))
    return tenant, value


@pytest.mark.parametrize("livemode", [False, True])
async def test_a_key_opens_its_own_project_and_mode(engine: Engine, livemode: bool) -> None:
    owner, value = await make(engine, NewProject("Café"), livemode)
    await make(engine, NewProject("Other"), not livemode)
    found = await engine.read(partial(credentials.find, value=value))
    tenant = found.tenant("req_1")
    assert (tenant.project, tenant.livemode, tenant.request) == (owner.project, livemode, "req_1")
    assert (tenant.role, tenant.scopes, tenant.credential) == ("admin", None, found.id)
    assert (found.kind, found.expires_at) == ("api_key", None)


@pytest.mark.parametrize(
    ("new", "quota", "may_overdraw"),
    [
        (NewProject("Café"), 10_000, True),
        (NewProject("Café", "pro", overdraft="refuse"), 500_000, False),
        (NewProject("Café", "enterprise"), None, True),
    ],
)
async def test_the_scope_carries_the_projects_quota_and_overdraft_rule(
    engine: Engine, new: NewProject, quota: int | None, may_overdraw: bool
) -> None:
    _, value = await make(engine, new)
    tenant = (await engine.read(partial(credentials.find, value=value))).tenant("req_1")
    assert (tenant.quota, tenant.may_overdraw) == (quota, may_overdraw)


async def test_a_change_of_the_project_is_seen_with_the_next_look(engine: Engine) -> None:
    owner, value = await make(engine, NewProject("Café"))
    changes = ProjectChanges(plan="enterprise", rate_limit=7, burst=3)
    await engine.write(partial(projects.update, id=owner.project, changes=changes))
    found = await engine.read(partial(credentials.find, value=value))
    assert (found.plan, found.limits.requests_per_minute, found.limits.burst) == ("enterprise", 7, 3)


@pytest.mark.parametrize(
    "value", ["", "sk_test_", "at_", "sk_test_" + "A" * 32, "at_" + "A" * 32, "ключ", "\ud800"]
)
async def test_a_value_that_is_not_known_is_invalid(engine: Engine, value: str) -> None:
    await make(engine, NewProject("Café"))
    assert (await refusal(engine.read(partial(credentials.find, value=value))))[0] == "invalid_credential"


async def test_the_hash_of_a_key_is_not_a_key(engine: Engine) -> None:
    _, value = await make(engine, NewProject("Café"))
    with pytest.raises(AuthenticationError):
        await engine.read(partial(credentials.find, value=api_keys.hash_secret(value)))


# Tokens: an access token for an hour, a refresh token for one use


HOUR = 3_600_000
VALUE = api_keys.new_value(livemode=False)


@pytest.fixture
async def key(engine: Engine, tenant: Tenant) -> ApiKey:
    """Return the key with the value VALUE."""
    new = NewApiKey("Till", "member", ["read:projects", "read:users"])
    return await engine.write(partial(api_keys.create, tenant=tenant, new=new, value=VALUE))


async def exchange(engine: Engine, value: str = VALUE) -> TokenPair:
    return await engine.write(partial(credentials.exchange, api_key=value, pair=credentials.new_pair()))


async def refresh(engine: Engine, refresh_token: str) -> TokenPair:
    return await engine.write(
        partial(credentials.refresh, refresh_token=refresh_token, pair=credentials.new_pair())
    )


async def code_of_use(engine: Engine, access_token: str) -> str:
    """Return the code that a bearer token is refused with, or `good`."""
    try:
        await engine.read(partial(credentials.find, value=access_token))
    except AuthenticationError as error:
        return error.code
    return "good"


async def code_of_refresh(engine: Engine, refresh_token: str) -> str:
    """Return the code that a refresh token is refused with, or `good`."""
    try:
        await refresh(engine, refresh_token)
    except AuthenticationError as error:
        return error.code
    return "good"


def test_the_values_say_what_they_are() -> None:
    pair = credentials.new_pair()
    assert re.fullmatch("at_[A-Za-z0-9]{32}", pair.access_token)
    assert re.fullmatch("rt_[A-Za-z0-9]{32}", pair.refresh_token)
    assert (pair.token_type, pair.expires_in) == ("Bearer", 3600)


async def test_a_token_has_its_keys_project_mode_role_and_scopes(
    engine: Engine, key: ApiKey, tenant: Tenant
) -> None:
    pair = await exchange(engine)
    found = await engine.read(partial(credentials.find, value=pair.access_token))
    assert (found.kind, found.id, found.project, found.livemode) == (
        "access_token",
        key.id,
        tenant.project,
        False,
    )
    assert (found.role, found.scopes) == ("member", {"read:projects", "read:users"})
    assert found.expires_at == key.created + HOUR


async def test_an_access_token_is_good_for_3600_seconds_and_no_longer(
    engine: Engine, key: ApiKey, clock: ManualClock
) -> None:
    pair = await exchange(engine)
    clock.advance(HOUR - 1)
    assert await code_of_use(engine, pair.access_token) == "good"
    clock.advance(1)
    assert await code_of_use(engine, pair.access_token) == "expired_credential"


async def test_a_refresh_gives_a_new_pair_and_the_old_refresh_token_stops_working(
    engine: Engine, key: ApiKey
) -> None:
    first = await exchange(engine)
    second = await refresh(engine, first.refresh_token)
    assert len({first.access_token, first.refresh_token, second.access_token, second.refresh_token}) == 4
    assert await code_of_use(engine, second.access_token) == "good"
    assert await code_of_use(engine, second.refresh_token) == "invalid_credential"
    assert await code_of_refresh(engine, first.refresh_token) == "invalid_credential"
    assert await code_of_refresh(engine, second.refresh_token) == "good"


async def test_of_20_uses_of_one_refresh_token_at_once_one_succeeds(engine: Engine, key: ApiKey) -> None:
    first = await exchange(engine)
    codes = await asyncio.gather(*(code_of_refresh(engine, first.refresh_token) for _ in range(20)))
    assert sorted(codes) == ["good"] + ["invalid_credential"] * 19


async def test_a_refresh_token_is_good_for_30_days(engine: Engine, key: ApiKey, clock: ManualClock) -> None:
    early, late = await exchange(engine), await exchange(engine)
    clock.advance(30 * DAY - 1)
    assert await code_of_refresh(engine, early.refresh_token) == "good"
    clock.advance(1)
    assert await code_of_refresh(engine, late.refresh_token) == "expired_credential"


async def test_revoking_the_key_kills_its_tokens_at_once(engine: Engine, key: ApiKey, tenant: Tenant) -> None:
    pair = await exchange(engine)
    await engine.write(partial(api_keys.revoke, tenant=tenant, id=key.id))
    assert await code_of_use(engine, pair.access_token) == "revoked_credential"
    assert await code_of_refresh(engine, pair.refresh_token) == "revoked_credential"
    assert await refusal(exchange(engine)) == ("revoked_credential", "api_key")


async def test_archiving_the_project_kills_the_tokens_at_once(
    engine: Engine, key: ApiKey, tenant: Tenant
) -> None:
    pair = await exchange(engine)
    await engine.write(partial(projects.archive, tenant=tenant, id=tenant.project))
    assert await code_of_use(engine, pair.access_token) == "revoked_credential"
    assert await code_of_refresh(engine, pair.refresh_token) == "revoked_credential"


async def test_nothing_but_a_key_is_exchanged(engine: Engine, key: ApiKey) -> None:
    pair = await exchange(engine)
    for value in ("", "sk_test_", VALUE[:-1], VALUE.swapcase(), pair.access_token, pair.refresh_token):
        assert await refusal(exchange(engine, value)) == ("invalid_credential", "api_key")


async def test_nothing_but_a_refresh_token_is_refreshed(engine: Engine, key: ApiKey) -> None:
    pair = await exchange(engine)
    for value in ("", "rt_", pair.access_token, VALUE):
        assert await code_of_refresh(engine, value) == "invalid_credential"


async def test_a_token_is_nowhere_in_the_files(engine: Engine, key: ApiKey, tmp_path: Path) -> None:
    pair = await exchange(engine)
    await engine.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for value in (pair.access_token, pair.refresh_token):
        assert value[3:].encode() not in stored


async def test_tokens_that_expired_long_ago_are_cleared_away(
    engine: Engine, key: ApiKey, clock: ManualClock
) -> None:
    async def stored() -> int:
        rows = await engine.read(lambda unit: unit.execute("SELECT count(*) FROM tokens"))
        return int(rows[0][0])

    old = await exchange(engine)
    clock.advance(8 * DAY)
    await exchange(engine)
    assert await stored() == 3  # the first access token is gone, its refresh token is not
    assert await code_of_refresh(engine, old.refresh_token) == "good"
    clock.advance(40 * DAY)
    await exchange(engine)
    assert await stored() == 2


async def test_one_pair_clears_only_so_many_of_them_away(
    engine: Engine, key: ApiKey, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a long pause there may be many, and everybody who writes would wait for that commit."""
    monkeypatch.setattr(credentials, "FORGOTTEN_AT_ONCE", 3)
    for _ in range(4):
        await exchange(engine)
    clock.advance(40 * DAY)
    left = []
    for _ in range(4):
        await exchange(engine)
        rows = await engine.read(
            lambda unit: unit.execute("SELECT count(*) FROM tokens WHERE expires < :now", {"now": unit.now})
        )
        left.append(int(rows[0][0]))
    assert left == [5, 2, 0, 0]
