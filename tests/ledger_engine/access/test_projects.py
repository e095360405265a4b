"""Projects: who sees which, what a plan's change takes along, and what archiving ends."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from ledger_engine.access import api_keys, credentials, projects
from ledger_engine.access.api_keys import ApiKey, NewApiKey
from ledger_engine.access.projects import NewChild, NewProject, Project, ProjectChanges
from ledger_engine.core.errors import InvalidRequest, NotFound, PermissionDenied
from ledger_engine.core.tenant import Tenant
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import Page, PageRequest
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.refusals import read_through, refusal

START = 1_790_000_000_000


@pytest.fixture
async def cafe(engine: Engine) -> Project:
    """Return a project of the free plan."""
    return await engine.write(partial(projects.create, new=NewProject("Café")))


@pytest.fixture
def barista(cafe: Project) -> Tenant:
    """Return an unrestricted admin's key of the café, in test mode."""
    return Tenant(cafe.id, livemode=False, role="admin", credential="key_barista")


async def child_of(
    engine: Engine, tenant: Tenant, name: str = "Kiosk", **fields: Any
) -> tuple[Project, ApiKey]:
    value = api_keys.new_value(tenant.livemode)
    return await engine.write(
        partial(projects.create_child_with_key, tenant=tenant, new=NewChild(name, **fields), value=value)
    )


# What the administrator makes


async def test_a_project_starts_on_the_free_plan_and_allows_overdraft(cafe: Project, engine: Engine) -> None:
    assert (cafe.plan, cafe.rate_limit, cafe.burst, cafe.overdraft) == ("free", None, None, "allow")
    assert (cafe.parent, cafe.archived_at, cafe.created) == (None, None, START)
    assert cafe.id.startswith("prj_")
    assert await engine.read(partial(projects.get, id=cafe.id)) == cafe


@pytest.mark.parametrize(
    ("new", "param"),
    [
        (NewProject(""), "name"),
        (NewProject("x" * 256), "name"),
        (NewProject("Café", plan="gold"), "plan"),
        (NewProject("Café", overdraft="maybe"), "overdraft"),
        (NewProject("Café", rate_limit=100), "rate_limit"),
        (NewProject("Café", plan="pro", burst=100), "burst"),
        (NewProject("Café", plan="enterprise", rate_limit=0), "rate_limit"),
        (NewProject("Café", plan="enterprise", burst=10**9 + 1), "burst"),
    ],
)
async def test_a_project_that_breaks_a_rule_is_refused_by_name(
    engine: Engine, new: NewProject, param: str
) -> None:
    assert await refusal(engine.write(partial(projects.create, new=new))) == ("invalid_value", param)
    assert await engine.read(projects.every) == []


async def test_an_enterprise_project_has_its_own_limits_where_it_has_some(engine: Engine) -> None:
    new = NewProject("Chain", "enterprise", rate_limit=12_000)
    chain = await engine.write(partial(projects.create, new=new))
    assert (chain.limits.requests_per_minute, chain.limits.burst) == (12_000, 200)
    assert chain.limits.stored_objects is None


async def test_a_project_that_is_not_there_is_not_found(engine: Engine) -> None:
    with pytest.raises(NotFound):
        await engine.read(partial(projects.get, id="prj_none"))
    with pytest.raises(NotFound):
        await engine.write(partial(projects.update, id="prj_none", changes=ProjectChanges(name="x")))


async def test_the_first_project_is_the_oldest_that_is_not_archived(
    engine: Engine, clock: ManualClock
) -> None:
    assert await engine.read(projects.first) is None
    made = []
    for name in ("One", "Two", "Three"):
        clock.advance(1)
        made.append(await engine.write(partial(projects.create, new=NewProject(name))))
    assert await engine.read(projects.first) == made[0]
    one = await engine.write(partial(projects.archive, tenant=Tenant(made[0].id, True), id=made[0].id))
    assert await engine.read(projects.first) == made[1]
    assert await engine.read(projects.every) == [one, *made[1:]]


# Changes


async def test_a_change_leaves_alone_what_it_does_not_name(engine: Engine) -> None:
    new = NewProject("Chain", "enterprise", rate_limit=12_000, burst=300, overdraft="refuse")
    chain = await engine.write(partial(projects.create, new=new))
    changed = await engine.write(partial(projects.update, id=chain.id, changes=ProjectChanges(burst=400)))
    assert changed == replace(chain, burst=400)
    assert await engine.read(partial(projects.get, id=chain.id)) == changed


async def test_a_project_that_leaves_enterprise_loses_its_own_limits_for_good(engine: Engine) -> None:
    new = NewProject("Chain", "enterprise", rate_limit=12_000, burst=300)
    chain = await engine.write(partial(projects.create, new=new))
    left = await engine.write(partial(projects.update, id=chain.id, changes=ProjectChanges(plan="pro")))
    assert (left.limits.requests_per_minute, left.limits.burst) == (600, 50)
    back = await engine.write(
        partial(projects.update, id=chain.id, changes=ProjectChanges(plan="enterprise"))
    )
    assert (back.rate_limit, back.burst) == (None, None)
    assert (back.limits.requests_per_minute, back.limits.burst) == (6_000, 200)


async def test_a_refused_change_changes_nothing(engine: Engine, cafe: Project) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await engine.write(
            partial(projects.update, id=cafe.id, changes=ProjectChanges(name="Bar", plan="pro", rate_limit=9))
        )
    assert refused.value.param == "rate_limit"
    assert await engine.read(partial(projects.get, id=cafe.id)) == cafe


@pytest.mark.parametrize("changes", [ProjectChanges(plan="pro"), ProjectChanges(overdraft="refuse")])
async def test_a_change_of_what_credentials_may_do_is_announced(
    engine: Engine, cafe: Project, changes: ProjectChanges
) -> None:
    announced: set[str] = set()
    engine.listen(announced.update)
    await engine.write(partial(projects.update, id=cafe.id, changes=changes))
    assert api_keys.TOPIC in announced


# Children


async def test_a_child_is_as_its_parent_and_has_a_first_key_with_its_makers_rights(
    engine: Engine, project: Project
) -> None:
    scopes = frozenset({"read:projects", "write:projects"})
    maker = Tenant(project.id, livemode=True, role="admin", scopes=scopes, credential="key_1")
    value = api_keys.new_value(livemode=True)
    child, key = await engine.write(
        partial(projects.create_child_with_key, tenant=maker, new=NewChild("Branch"), value=value)
    )
    assert (child.name, child.parent, child.plan) == ("Branch", project.id, "enterprise")
    assert (child.rate_limit, child.burst) == (project.rate_limit, project.burst)
    credential = await engine.read(partial(credentials.find, value=value))
    assert (credential.id, credential.project, credential.livemode) == (key.id, child.id, True)
    assert (credential.role, credential.scopes) == ("admin", scopes)


async def test_a_child_may_be_on_a_lower_plan_and_refuse_overdraft(engine: Engine, project: Project) -> None:
    maker = Tenant(project.id, livemode=False, role="admin", credential="key_1")
    child, _ = await child_of(engine, maker, plan="free", overdraft="refuse")
    assert (child.plan, child.rate_limit, child.burst, child.overdraft) == ("free", None, None, "refuse")


@pytest.mark.parametrize(
    ("role", "scopes", "code"),
    [
        ("admin", None, "missing_role"),
        ("owner", frozenset({"write:projects"}), "missing_scope"),
        ("owner", frozenset({"write:projects", "admin:billing"}), None),
        ("owner", None, None),
    ],
)
async def test_a_higher_plan_than_the_parents_takes_the_right_to_billing(
    engine: Engine, cafe: Project, role: str, scopes: frozenset[str] | None, code: str | None
) -> None:
    maker = Tenant(cafe.id, livemode=False, role=role, scopes=scopes, credential="key_1")
    if code is None:
        child, _ = await child_of(engine, maker, plan="pro")
        assert child.plan == "pro"
        return
    assert (await refusal(child_of(engine, maker, plan="pro")))[0] == code
    assert await engine.read(projects.every) == [cafe]


async def test_a_credential_sees_its_project_and_its_children_and_no_other(
    engine: Engine, cafe: Project, barista: Tenant, project: Project
) -> None:
    child, _ = await child_of(engine, barista)
    at_the_child = replace(barista, project=child.id)
    grandchild, _ = await child_of(engine, at_the_child)
    for id in (cafe.id, child.id):
        assert (await engine.read(partial(projects.visible, tenant=barista, id=id))).id == id
    for tenant, id in ((barista, project.id), (barista, grandchild.id), (at_the_child, cafe.id)):
        with pytest.raises(NotFound):
            await engine.read(partial(projects.visible, tenant=tenant, id=id))
        with pytest.raises(NotFound):
            await engine.write(
                partial(projects.change, tenant=tenant, id=id, changes=ProjectChanges(name="Mine"))
            )
        with pytest.raises(NotFound):
            await engine.write(partial(projects.archive, tenant=tenant, id=id))


async def test_the_list_shows_the_newest_first_and_ends_with_the_own_project(
    engine: Engine, clock: ManualClock, cafe: Project, barista: Tenant, project: Project
) -> None:
    expected = [cafe.id]
    for number in range(4):
        clock.advance(1)
        child, _ = await child_of(engine, barista, f"Kiosk {number}")
        expected.insert(0, child.id)

    async def page(wanted: PageRequest) -> Page[Project]:
        return await engine.read(partial(projects.page, tenant=barista, request=wanted))

    assert [each.id for each in await read_through(page)] == expected


async def test_a_cursor_of_a_project_that_is_not_seen_is_refused(
    engine: Engine, barista: Tenant, project: Project
) -> None:
    wanted = PageRequest(after=project.id, cursor="cursor")
    assert await refusal(engine.read(partial(projects.page, tenant=barista, request=wanted))) == (
        "invalid_cursor",
        "cursor",
    )


# Archiving


async def test_the_credentials_of_an_archived_project_stop_working(
    engine: Engine, barista: Tenant, cafe: Project, clock: ManualClock
) -> None:
    value = api_keys.new_value(livemode=False)
    await engine.write(partial(api_keys.create, tenant=Tenant(cafe.id, False), new=NewApiKey(), value=value))
    announced: set[str] = set()
    engine.listen(announced.update)
    clock.advance(5)
    archived = await engine.write(partial(projects.archive, tenant=barista, id=cafe.id))
    assert archived == replace(cafe, archived_at=archived.archived_at)
    assert archived.archived_at == START + 5
    assert api_keys.TOPIC in announced
    assert (await refusal(engine.read(partial(credentials.find, value=value))))[0] == "revoked_credential"


async def test_an_archived_project_can_be_taken_back_with_its_keys(
    engine: Engine, barista: Tenant, cafe: Project
) -> None:
    value = api_keys.new_value(livemode=False)
    await engine.write(partial(api_keys.create, tenant=Tenant(cafe.id, False), new=NewApiKey(), value=value))
    await engine.write(partial(projects.archive, tenant=barista, id=cafe.id))
    announced: set[str] = set()
    engine.listen(announced.update)
    assert await engine.write(partial(projects.restore, id=cafe.id)) == cafe
    assert api_keys.TOPIC in announced
    assert (await engine.read(partial(credentials.find, value=value))).project == cafe.id
    with pytest.raises(NotFound):
        await engine.write(partial(projects.restore, id="prj_none"))


async def test_archiving_again_keeps_the_first_moment(
    engine: Engine, barista: Tenant, clock: ManualClock
) -> None:
    child, _ = await child_of(engine, barista)
    first = await engine.write(partial(projects.archive, tenant=barista, id=child.id))
    clock.advance(1000)
    assert await engine.write(partial(projects.archive, tenant=barista, id=child.id)) == first
    assert await engine.read(partial(projects.visible, tenant=barista, id=child.id)) == first


async def test_a_test_key_cannot_touch_what_live_keys_rest_on(
    engine: Engine, cafe: Project, barista: Tenant
) -> None:
    """Test data never touches live balances (docs/interface.md#service-test-keys)."""
    value = api_keys.new_value(livemode=True)
    live = await engine.write(
        partial(api_keys.create, tenant=Tenant(cafe.id, True), new=NewApiKey(), value=value)
    )
    for change in (
        partial(projects.archive, tenant=barista, id=cafe.id),
        partial(projects.change, tenant=barista, id=cafe.id, changes=ProjectChanges(overdraft="refuse")),
        partial(projects.change, tenant=barista, id=cafe.id, changes=ProjectChanges(plan="pro")),
    ):
        with pytest.raises(PermissionDenied):
            await engine.write(change)
    assert await engine.read(partial(projects.get, id=cafe.id)) == cafe
    renamed = await engine.write(
        partial(
            projects.change, tenant=barista, id=cafe.id, changes=ProjectChanges(name="Bar", overdraft="allow")
        )
    )
    assert renamed.name == "Bar"

    at_live = replace(barista, livemode=True)
    changes = ProjectChanges(overdraft="refuse")
    changed = await engine.write(partial(projects.change, tenant=at_live, id=cafe.id, changes=changes))
    assert changed.overdraft == "refuse"

    await engine.write(partial(api_keys.revoke, tenant=Tenant(cafe.id, True), id=live.id))
    archived = await engine.write(partial(projects.archive, tenant=barista, id=cafe.id))
    assert archived.archived_at is not None
