"""API keys: kept as a hash, never stronger than their maker, gone once revoked."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ledger_engine.access import api_keys, credentials, projects
from ledger_engine.access.api_keys import ApiKey, NewApiKey
from ledger_engine.access.projects import NewProject, Project
from ledger_engine.core.errors import AuthenticationError, Conflict, DuplicateIdempotencyKey, NotFound
from ledger_engine.core.tenant import SCOPES, Tenant
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.refusals import refusal


async def make(engine: Engine, tenant: Tenant, new: NewApiKey | None = None) -> tuple[ApiKey, str]:
    value = api_keys.new_value(tenant.livemode)
    made = await engine.write(partial(api_keys.create, tenant=tenant, new=new or NewApiKey(), value=value))
    return made, value


async def is_good(engine: Engine, value: str) -> bool:
    """Whether the value opens anything; False when its key was revoked."""
    try:
        await engine.read(partial(credentials.find, value=value))
    except AuthenticationError as error:
        return error.code != "revoked_credential"
    return True


@pytest.mark.parametrize(("livemode", "prefix"), [(False, "sk_test_"), (True, "sk_live_")])
def test_a_value_names_its_mode_and_has_32_random_characters(livemode: bool, prefix: str) -> None:
    values = {api_keys.new_value(livemode) for _ in range(100)}
    assert len(values) == 100
    assert all(re.fullmatch(prefix + "[A-Za-z0-9]{32}", value) for value in values)


@pytest.mark.sqlite
async def test_the_value_is_nowhere_in_the_files(engine: Engine, tenant: Tenant, tmp_path: Path) -> None:
    _, value = await make(engine, tenant, NewApiKey("Till"))
    await engine.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"Till" in stored
    assert value.encode() not in stored
    assert value.removeprefix("sk_test_").encode() not in stored


async def test_a_key_is_an_admins_without_restriction_unless_said_otherwise(
    engine: Engine, tenant: Tenant
) -> None:
    made, value = await make(engine, tenant)
    assert (made.role, made.scopes, made.name, made.livemode, made.revoked_at) == (
        "admin",
        None,
        None,
        False,
        None,
    )
    assert made.last4 == value[-4:]
    assert await engine.read(partial(api_keys.get, tenant=tenant, id=made.id)) == made


async def test_scopes_are_kept_once_each(engine: Engine, tenant: Tenant) -> None:
    new = NewApiKey(scopes=["write:projects", "read:users", "write:projects"])
    made, value = await make(engine, tenant, new)
    assert made.scopes == ["read:users", "write:projects"]
    found = await engine.read(partial(credentials.find, value=value))
    assert found.scopes == {"read:users", "write:projects"}


@pytest.mark.parametrize(
    ("new", "param"),
    [
        (NewApiKey(role="root"), "role"),
        (NewApiKey(name=""), "name"),
        (NewApiKey(name="x" * 256), "name"),
        (NewApiKey(scopes=[]), "scopes"),
        (NewApiKey(scopes=["read:users", "read:all"]), "scopes.1"),
    ],
)
async def test_a_key_that_breaks_a_rule_is_refused_by_name(
    engine: Engine, tenant: Tenant, new: NewApiKey, param: str
) -> None:
    assert await refusal(make(engine, tenant, new)) == ("invalid_value", param)


@pytest.mark.parametrize(
    ("role", "scopes", "new", "code"),
    [
        ("admin", None, NewApiKey(role="admin"), None),
        ("admin", None, NewApiKey(role="member"), None),
        ("admin", None, NewApiKey(role="owner"), "missing_role"),
        ("owner", None, NewApiKey(role="owner"), None),
        ("admin", None, NewApiKey(scopes=list(SCOPES)), None),
        ("admin", {"write:projects"}, NewApiKey(scopes=["write:projects"]), None),
        ("admin", {"write:projects"}, NewApiKey(), "missing_scope"),
        ("admin", {"write:projects"}, NewApiKey(scopes=["read:users"]), "missing_scope"),
        ("owner", set(SCOPES), NewApiKey(role="member"), "missing_scope"),
    ],
)
async def test_a_key_has_no_more_rights_than_its_maker(
    engine: Engine, tenant: Tenant, role: str, scopes: set[str] | None, new: NewApiKey, code: str | None
) -> None:
    maker = replace(tenant, role=role, scopes=None if scopes is None else frozenset(scopes))
    if code is None:
        made, _ = await make(engine, maker, new)
        assert made.role == new.role
        return
    assert (await refusal(make(engine, maker, new)))[0] == code
    assert await engine.read(partial(api_keys.every, project=tenant.project)) == []


@pytest.mark.parametrize(
    ("victim", "code"),
    [
        (NewApiKey(role="owner"), "missing_role"),
        (NewApiKey(role="member"), "missing_scope"),
        (NewApiKey(role="member", scopes=["read:users"]), "missing_scope"),
        (NewApiKey(role="admin", scopes=["read:projects", "write:projects"]), None),
    ],
)
async def test_a_key_of_more_rights_can_be_neither_revoked_nor_rolled(
    engine: Engine, tenant: Tenant, victim: NewApiKey, code: str | None
) -> None:
    made, value = await make(engine, tenant, victim)
    by = replace(tenant, role="admin", scopes=frozenset({"read:projects", "write:projects"}))
    new_value = api_keys.new_value(livemode=False)
    if code is None:
        await engine.write(partial(api_keys.roll, tenant=by, id=made.id, value=new_value))
        assert not await is_good(engine, value)
        return
    for change in (
        partial(api_keys.revoke, tenant=by, id=made.id),
        partial(api_keys.roll, tenant=by, id=made.id, value=new_value),
    ):
        assert (await refusal(engine.write(change)))[0] == code
    assert await is_good(engine, value)


async def test_a_revoked_key_is_refused_and_stays_in_the_list(
    engine: Engine, tenant: Tenant, clock: ManualClock
) -> None:
    made, value = await make(engine, tenant)
    announced: set[str] = set()
    engine.listen(announced.update)
    clock.advance(7)
    revoked = await engine.write(partial(api_keys.revoke, tenant=tenant, id=made.id))
    assert revoked == replace(made, revoked_at=revoked.revoked_at)
    assert revoked.revoked_at == made.created + 7
    assert api_keys.TOPIC in announced
    assert not await is_good(engine, value)
    page = await engine.read(partial(api_keys.page, tenant=tenant, request=PageRequest()))
    assert page.items == [revoked]


async def test_revoking_again_keeps_the_first_moment(
    engine: Engine, tenant: Tenant, clock: ManualClock
) -> None:
    made, _ = await make(engine, tenant)
    first = await engine.write(partial(api_keys.revoke, tenant=tenant, id=made.id))
    clock.advance(1000)
    assert await engine.write(partial(api_keys.revoke, tenant=tenant, id=made.id)) == first


async def test_a_roll_ends_the_old_value_and_makes_one_of_the_same_rights(
    engine: Engine, tenant: Tenant
) -> None:
    old, old_value = await make(engine, tenant, NewApiKey("Till", "member", ["read:users"]))
    value = api_keys.new_value(livemode=False)
    new = await engine.write(partial(api_keys.roll, tenant=tenant, id=old.id, value=value))
    assert new.id != old.id
    assert (new.name, new.role, new.scopes) == ("Till", "member", ["read:users"])
    assert new.last4 == value[-4:]
    assert await is_good(engine, value)
    assert not await is_good(engine, old_value)


async def test_a_rolled_key_of_a_session_ends_with_the_session(engine: Engine, tenant: Tenant) -> None:
    old, _ = await make(engine, tenant, NewApiKey("dashboard", "owner", session=True))
    value = api_keys.new_value(livemode=False)
    await engine.write(partial(api_keys.roll, tenant=tenant, id=old.id, value=value))
    assert await is_good(engine, value)
    await engine.write(api_keys.end_all)
    assert not await is_good(engine, value)


async def test_a_known_key_is_made_once(engine: Engine, tenant: Tenant) -> None:
    value = api_keys.new_value(livemode=False)
    for _ in range(2):
        await engine.write(partial(api_keys.ensure, tenant=tenant, value=value))
    [known] = await engine.read(partial(api_keys.every, project=tenant.project))
    assert (known.role, known.scopes, known.livemode) == ("owner", None, False)
    assert await is_good(engine, value)


async def test_a_known_key_that_is_another_key_already_is_refused(engine: Engine, tenant: Tenant) -> None:
    other = await engine.write(partial(projects.create, new=NewProject("Other")))
    _, elsewhere = await make(engine, replace(tenant, project=other.id), NewApiKey(None, "owner"))
    _, lower = await make(engine, tenant)
    _, restricted = await make(engine, tenant, NewApiKey(None, "owner", ["read:projects"]))
    revoked, gone = await make(engine, tenant, NewApiKey(None, "owner"))
    await engine.write(partial(api_keys.revoke, tenant=tenant, id=revoked.id))
    for value, words in [
        (elsewhere, "another project"),
        (lower, "not have all rights"),
        (restricted, "not have all rights"),
        (gone, "revoked"),
    ]:
        with pytest.raises(Conflict, match=words) as refused:
            await engine.write(partial(api_keys.ensure, tenant=tenant, value=value))
        assert value not in refused.value.message


async def test_a_roll_sent_twice_leaves_one_key(engine: Engine, tenant: Tenant) -> None:
    old, _ = await make(engine, tenant)

    async def roll(key: str | None) -> ApiKey:
        value = api_keys.new_value(livemode=False)
        return await engine.write(partial(api_keys.roll, tenant=tenant, id=old.id, value=value, key=key))

    new = await roll("once")
    with pytest.raises(DuplicateIdempotencyKey) as repeated:
        await roll("once")
    assert repeated.value.original == new.id
    assert (await refusal(roll(None)))[0] == "not_recoverable"
    every = await engine.read(partial(api_keys.every, project=tenant.project))
    assert [key.id for key in every if key.revoked_at is None] == [new.id]


async def test_a_key_of_the_other_mode_or_another_project_is_not_found(
    engine: Engine, tenant: Tenant, project: Project
) -> None:
    other = await engine.write(partial(projects.create, new=NewProject("Other")))
    for elsewhere in (replace(tenant, livemode=True), replace(tenant, project=other.id)):
        made, value = await make(engine, elsewhere)
        for change in (
            partial(api_keys.get, tenant=tenant, id=made.id),
            partial(api_keys.revoke, tenant=tenant, id=made.id),
            partial(api_keys.roll, tenant=tenant, id=made.id, value=api_keys.new_value(False)),
        ):
            with pytest.raises(NotFound):
                await engine.write(change)
        assert await is_good(engine, value)
    page = await engine.read(partial(api_keys.page, tenant=tenant, request=PageRequest()))
    assert page.items == []


async def test_the_administrator_finds_a_key_by_its_id_alone(engine: Engine, tenant: Tenant) -> None:
    live = replace(tenant, livemode=True)
    made, _ = await make(engine, live)
    assert await engine.read(partial(api_keys.tenant_of, id=made.id)) == live
    with pytest.raises(NotFound):
        await engine.read(partial(api_keys.tenant_of, id="key_none"))
