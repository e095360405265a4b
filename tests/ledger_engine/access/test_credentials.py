"""Credentials: whose a bearer value is."""

from __future__ import annotations

from functools import partial

import pytest

from ledger_engine.access import api_keys, credentials, projects
from ledger_engine.access.api_keys import NewApiKey
from ledger_engine.access.projects import Changes, NewProject
from ledger_engine.core.errors import AuthenticationError
from ledger_engine.core.tenant import Tenant
from ledger_engine.store.engine import Engine
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
    changes = Changes(plan="enterprise", rate_limit=7, burst=3)
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
