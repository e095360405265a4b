"""Webhook endpoints: their limits, their secrets, their cursor, and when one is disabled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ledger_engine.access import projects
from ledger_engine.access.projects import ProjectChanges
from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import DuplicateIdempotencyKey, InvalidRequest, LedgerError, NotFound
from ledger_engine.core.ids import first_at
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.webhooks import endpoints, signing
from ledger_engine.events.webhooks.endpoints import EndpointWithSecret, NewEndpoint
from ledger_engine.ledger import accounts
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest
from tests.ledger_engine.conftest import START, Run
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.refusals import refusal

URL = "http://127.0.0.1:4242/hook"
TILL = accounts.NewAccount("Till", "EUR", {})


@pytest.fixture
def register(write: Run) -> Run:
    """Register an endpoint with its secret readable."""

    async def make(
        url: str = URL, kinds: list[str] | None = None, key: str | None = None, by: Tenant | None = None
    ) -> EndpointWithSecret:
        secret = endpoints.new_secret()
        made: EndpointWithSecret = await write(
            endpoints.create, NewEndpoint(url, kinds or ["*"]), secret, secret, key, by=by
        )
        return made

    return make


async def subscriptions(engine: Engine) -> dict[str, endpoints.Subscription]:
    return {each.endpoint: each for each in await engine.read(endpoints.subscriptions)}


async def test_a_new_endpoint_shows_its_secret(register: Run, read: Run) -> None:
    made = await register()
    assert made.secret.startswith("whsec_")
    assert len(made.secret) == 38
    assert (made.status, made.disabled_reason, made.created, made.livemode) == ("enabled", None, START, False)
    found = await read(endpoints.get, made.id)
    assert not hasattr(found, "secret")
    assert (found.id, found.url, found.events) == (made.id, URL, ["*"])


def test_the_signature_is_over_the_raw_body_with_all_of_the_secret() -> None:
    """The same vectors as the receivers' helper has."""
    assert (
        signing.sign("whsec_test", b"{}")
        == "46bdc2a2e83964bd2695acc6a1f97162d8bafc135a071aa5cd5c99aae5481440"
    )
    body = '{"id":"evt_1","object":"event","data":{"object":{"name":"Kaffeerösterei"}}}'.encode()
    signature = signing.sign("whsec_0123456789abcdefghijABCDEFGHIJ01", body)
    assert signature == "6a02d9b7a867e2964265de2fcc0e34dbd1fe3a32ff00dfb66818031fe1a08c75"


@pytest.mark.parametrize(
    ("kinds", "kept"),
    [
        (["*"], ["*"]),
        (["invoice.paid", "*"], ["*"]),
        (["invoice.paid", "account.created", "invoice.paid"], ["invoice.paid", "account.created"]),
    ],
)
async def test_the_kinds_are_kept_in_order_and_once(register: Run, kinds: list[str], kept: list[str]) -> None:
    assert (await register(kinds=kinds)).events == kept


@pytest.mark.parametrize(
    ("kinds", "param"), [([], "events"), (["invoice.paid", "invoice.*"], "events.1"), ([""], "events.0")]
)
async def test_an_unknown_kind_is_refused(write: Run, kinds: list[str], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await write(endpoints.create, NewEndpoint(URL, kinds), "whsec_x", "whsec_x")
    assert refused.value.param == param


@pytest.mark.parametrize(("livemode", "url"), [(True, URL), (False, "http://93.184.216.34/")])
async def test_a_url_the_mode_does_not_allow_is_refused(
    register: Run, tenant: Tenant, livemode: bool, url: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await register(url, by=Tenant(tenant.project, livemode))
    assert refused.value.param == "url"


@pytest.mark.parametrize(("plan", "most"), [("free", 5), ("pro", 50)])
async def test_the_plan_limits_how_many_there_are_in_each_mode(
    engine: Engine, register: Run, write: Run, plan: str, most: int
) -> None:
    project = await engine.write(lambda unit: projects.create(unit, projects.NewProject("Stall", plan)))
    test, live = Tenant(project.id, livemode=False), Tenant(project.id, livemode=True)
    made = [await register(by=test) for _ in range(most)]
    assert (await refusal(register(by=test)))[0] == "quota_exceeded"
    await register("https://hooks.example/", by=live)
    await write(endpoints.delete, made[0].id, by=test)
    await register(by=test)


async def test_enterprise_has_no_limit(register: Run, read: Run) -> None:
    for _ in range(60):
        await register()
    assert (await read(endpoints.page, PageRequest(100))).has_more is False


async def test_endpoints_are_listed_newest_first(register: Run, read: Run) -> None:
    made = [(await register()).id for _ in range(3)]
    assert [each.id for each in (await read(endpoints.page, PageRequest())).items] == made[::-1]


async def test_to_others_an_endpoint_does_not_exist(
    register: Run, write: Run, read: Run, stranger: Tenant
) -> None:
    made = await register()
    for call in (
        read(endpoints.get, made.id, by=stranger),
        write(endpoints.delete, made.id, by=stranger),
        write(endpoints.disable, made.id, by=stranger),
        write(endpoints.enable, made.id, by=stranger),
        write(endpoints.roll_secret, made.id, "whsec_y", "whsec_y", by=stranger),
    ):
        with pytest.raises(NotFound):
            await call
    assert (await read(endpoints.page, PageRequest(), by=stranger)).items == []
    assert (await read(endpoints.get, made.id)).status == "enabled"


async def test_rolling_replaces_the_secret_at_once(engine: Engine, register: Run, write: Run) -> None:
    made = await register()
    rolled = await write(endpoints.roll_secret, made.id, "whsec_new", "sealed")
    assert (rolled.id, rolled.secret) == (made.id, "whsec_new")
    assert (await subscriptions(engine))[made.id].secret == "sealed"


async def test_the_previous_secret_signs_for_a_day_and_is_then_deleted(
    engine: Engine, register: Run, write: Run, clock: ManualClock
) -> None:
    made = await register()
    await write(endpoints.roll_secret, made.id, "whsec_y", "sealed y")
    await write(endpoints.roll_secret, made.id, "whsec_z", "sealed z")
    rolled = (await subscriptions(engine))[made.id]
    assert (rolled.secret, rolled.previous) == ("sealed z", "sealed y")
    assert clock.now() < rolled.previous_until <= clock.now() + DAY
    await engine.write(endpoints.forget_previous_secrets)
    assert await engine.read(endpoints.sealed_previous_secrets) == [(made.id, "sealed y")]
    clock.advance(DAY)
    await engine.write(endpoints.forget_previous_secrets)
    assert await engine.read(endpoints.sealed_previous_secrets) == []
    assert (await subscriptions(engine))[made.id].previous is None


async def test_a_disabled_endpoint_is_not_subscribed_and_an_enabled_one_goes_on(
    engine: Engine, register: Run, write: Run
) -> None:
    made = await register()
    before = (await subscriptions(engine))[made.id]
    disabled = await write(endpoints.disable, made.id)
    assert (disabled.status, disabled.disabled_reason, disabled.disabled_at) == ("disabled", "asked", START)
    assert await write(endpoints.disable, made.id) == disabled
    assert await subscriptions(engine) == {}
    await write(accounts.create, TILL)
    enabled = await write(endpoints.enable, made.id)
    assert (enabled.status, enabled.disabled_reason, enabled.disabled_at) == ("enabled", None, None)
    assert (await subscriptions(engine))[made.id] == replace(before, enables=1)


async def test_a_deleted_endpoint_is_gone_with_its_secret(engine: Engine, register: Run, write: Run) -> None:
    made = await register()
    assert (await write(endpoints.delete, made.id)).id == made.id
    with pytest.raises(NotFound):
        await write(endpoints.delete, made.id)
    assert await engine.read(endpoints.sealed_secrets) == []


async def test_the_endpoints_of_an_archived_project_are_not_subscribed(
    engine: Engine, register: Run, tenant: Tenant
) -> None:
    await register()
    await engine.write(
        lambda unit: unit.execute(
            "UPDATE projects SET archived_at = 1 WHERE id = :id", {"id": tenant.project}
        )
    )
    assert await subscriptions(engine) == {}


async def test_a_new_endpoint_starts_behind_the_last_event(
    engine: Engine, register: Run, write: Run, read: Run
) -> None:
    first = await register()
    await write(accounts.create, TILL)
    second = await register()
    cursors = await subscriptions(engine)
    newest = await read(outbox.resume, None)
    assert cursors[first.id].cursor < newest == cursors[second.id].cursor


async def test_a_cursor_never_goes_back(engine: Engine, register: Run, write: Run, read: Run) -> None:
    made = await register()
    happened = []
    for _ in range(3):
        await write(accounts.create, TILL)
        happened.append(await read(outbox.resume, None))
    for cursor in (happened[1], happened[0], happened[2]):
        await engine.write(lambda unit, cursor=cursor: endpoints.advance(unit, made.id, cursor))
    assert (await subscriptions(engine))[made.id].cursor == happened[2]


async def test_every_change_is_announced(engine: Engine, register: Run, write: Run) -> None:
    announced: list[frozenset[str]] = []
    made = await register()
    engine.listen(announced.append)
    await write(endpoints.disable, made.id)
    await write(endpoints.enable, made.id)
    await write(endpoints.roll_secret, made.id, "whsec_y", "whsec_y")
    await write(endpoints.delete, made.id)
    assert [endpoints.TOPIC in topics for topics in announced] == [True] * 4


# When an endpoint is disabled by itself


class Outcomes:
    """What an endpoint's attempts came to, and what becomes of it."""

    def __init__(self, engine: Engine, clock: ManualClock, read: Run, id: str) -> None:
        self._engine, self._clock, self._read, self._id = engine, clock, read, id

    async def note(self, *, succeeded: bool = False, gone: bool = False, after: int = 0) -> Any:
        """Return the endpoint after some outcomes, `after` milliseconds after the ones before."""
        self._clock.advance(after)
        now = self._clock.now()
        subscription = (await subscriptions(self._engine)).get(self._id)
        enables = 0 if subscription is None else subscription.enables
        await self._engine.write(
            lambda unit: endpoints.note_outcomes(
                unit, self._id, enables, now, any_succeeded=succeeded, is_gone=gone
            )
        )
        return await self._read(endpoints.get, self._id)


@pytest.fixture
async def outcomes(engine: Engine, clock: ManualClock, register: Run, read: Run) -> Outcomes:
    return Outcomes(engine, clock, read, (await register()).id)


async def test_a_receiver_that_is_gone_is_sent_nothing_more(outcomes: Outcomes) -> None:
    endpoint = await outcomes.note(succeeded=True, gone=True)
    assert (endpoint.status, endpoint.disabled_reason, endpoint.disabled_at) == ("disabled", "gone", START)


async def test_five_days_of_failure_alone_disable(outcomes: Outcomes) -> None:
    await outcomes.note()
    assert (await outcomes.note(after=5 * DAY - 1)).status == "enabled"
    endpoint = await outcomes.note(after=1)
    assert (endpoint.status, endpoint.disabled_reason) == ("disabled", "failing")


async def test_one_success_starts_the_five_days_anew(outcomes: Outcomes) -> None:
    await outcomes.note()
    await outcomes.note(succeeded=True, after=3 * DAY)
    await outcomes.note(after=DAY)
    assert (await outcomes.note(after=5 * DAY - 1)).status == "enabled"
    assert (await outcomes.note(after=1)).status == "disabled"


async def test_days_without_an_attempt_are_no_failure(outcomes: Outcomes) -> None:
    await outcomes.note(succeeded=True)
    assert (await outcomes.note(after=100 * DAY)).status == "enabled"


async def test_the_time_without_a_server_counts_for_nothing(engine: Engine, outcomes: Outcomes) -> None:
    await outcomes.note()
    await outcomes.note(after=4 * DAY)
    await engine.write(endpoints.begin_sending)
    assert (await outcomes.note(after=4 * DAY)).status == "enabled"
    assert (await outcomes.note(after=DAY)).status == "disabled"


async def test_enabling_starts_the_five_days_anew(outcomes: Outcomes, write: Run) -> None:
    endpoint = await outcomes.note()
    await outcomes.note(after=5 * DAY)
    await write(endpoints.enable, endpoint.id)
    assert (await outcomes.note()).status == "enabled"


async def test_a_late_answer_of_a_disabled_endpoint_changes_nothing(outcomes: Outcomes, write: Run) -> None:
    endpoint = await outcomes.note()
    await write(endpoints.disable, endpoint.id)
    assert (await outcomes.note(gone=True)).disabled_reason == "asked"


async def test_a_secret_that_was_rolled_meanwhile_is_not_sealed_over(
    engine: Engine, register: Run, write: Run
) -> None:
    made = await register()
    await write(endpoints.roll_secret, made.id, "whsec_new", "whsec_new")
    await engine.write(lambda unit: endpoints.replace_sealed(unit, made.id, made.secret, "sealed old"))
    assert await engine.read(endpoints.sealed_secrets) == [(made.id, "whsec_new")]
    assert await engine.read(endpoints.sealed_previous_secrets) == [(made.id, "sealed old")]


async def test_the_administrator_finds_an_endpoint_by_its_id(
    engine: Engine, register: Run, tenant: Tenant
) -> None:
    made = await register()
    assert await engine.read(lambda unit: endpoints.tenant_of(unit, made.id)) == tenant
    with pytest.raises(LedgerError):
        await engine.read(lambda unit: endpoints.tenant_of(unit, "whe_none"))


# Deleted endpoints can be restored for 30 days, with a new secret


NEW = ("whsec_new", "sealed")


async def registered(write: Run, *kinds: str) -> EndpointWithSecret:
    made: EndpointWithSecret = await write(
        endpoints.create, NewEndpoint("http://127.0.0.1:4242/", list(kinds) or ["*"]), "whsec_old", "old"
    )
    return made


async def test_a_deleted_endpoint_is_restored_with_a_new_secret_for_the_events_from_now_on(
    engine: Engine, write: Run, read: Run, clock: ManualClock, tenant: Tenant
) -> None:
    made = await registered(write, "account.created")
    await write(endpoints.delete, made.id)
    assert [each.id for each in await engine.read(lambda unit: endpoints.deleted(unit, tenant.project))] == [
        made.id
    ]
    missed = await write(accounts.create, accounts.NewAccount("Till", "EUR", {}))
    assert missed
    clock.advance(30 * DAY)
    assert await write(endpoints.restore, made.id, *NEW) == replace(made, secret="whsec_new")
    assert (await read(endpoints.get, made.id)).created == made.created
    [subscription] = await engine.read(endpoints.subscriptions)
    assert (subscription.secret, subscription.cursor) == ("sealed", await read(outbox.resume, None))
    assert await engine.read(lambda unit: endpoints.deleted(unit, tenant.project)) == []


async def test_a_disabled_endpoint_comes_back_disabled(engine: Engine, write: Run) -> None:
    made = await registered(write)
    disabled = await write(endpoints.disable, made.id)
    await write(endpoints.delete, made.id)
    restored = await write(endpoints.restore, made.id, *NEW)
    assert (restored.status, restored.disabled_at) == ("disabled", disabled.disabled_at)
    assert await engine.read(endpoints.subscriptions) == []


async def test_after_30_days_it_is_gone_whether_or_not_it_was_purged(
    engine: Engine, write: Run, clock: ManualClock, tenant: Tenant
) -> None:
    made = await registered(write)
    await write(endpoints.delete, made.id)
    clock.advance(30 * DAY + 1)
    with pytest.raises(NotFound):
        await write(endpoints.restore, made.id, *NEW)
    assert await engine.read(lambda unit: endpoints.deleted(unit, tenant.project)) == []


async def test_a_deleted_endpoint_still_marks_its_place_in_the_list(
    engine: Engine, write: Run, read: Run, clock: ManualClock, stranger: Tenant
) -> None:
    oldest, deleted, newest = [(await registered(write)).id for _ in range(3)]
    await write(endpoints.delete, deleted)
    for _ in range(2):
        after = await read(endpoints.page, PageRequest(after=deleted, cursor="cursor"))
        assert [each.id for each in after.items] == [oldest]
        before = await read(endpoints.page, PageRequest(before=deleted))
        assert [each.id for each in before.items] == [newest]
        for by, id in ((stranger, deleted), (None, first_at("whe", 0)), (None, "whe_none")):
            with pytest.raises(InvalidRequest) as refused:
                await read(endpoints.page, PageRequest(after=id, cursor="cursor"), by=by)
            assert refused.value.code == "invalid_cursor"
        clock.advance(31 * DAY)
        oldest_kept = clock.now() - 30 * DAY
        assert await engine.write(lambda unit, before=oldest_kept: endpoints.purge(unit, before, 10)) <= 1
    rows = await engine.read(lambda unit: unit.execute("SELECT url FROM deleted_webhook_endpoints"))
    assert [row["url"] for row in rows] == [""], (
        "of an endpoint that is gone for good, only its place is stored"
    )


async def test_an_endpoint_that_is_not_deleted_keeps_its_secret(engine: Engine, write: Run) -> None:
    made = await registered(write)
    assert (await refusal(write(endpoints.restore, made.id, *NEW)))[0] == "not_recoverable"
    assert await engine.read(endpoints.sealed_secrets) == [(made.id, "old")]


async def test_to_others_a_deleted_endpoint_does_not_exist(
    write: Run, stranger: Tenant, tenant: Tenant
) -> None:
    made = await registered(write)
    await write(endpoints.delete, made.id)
    for other in (stranger, replace(tenant, livemode=True)):
        with pytest.raises(NotFound):
            await write(endpoints.restore, made.id, *NEW, by=other)


async def test_a_restored_endpoint_counts_for_the_plan(engine: Engine, write: Run, tenant: Tenant) -> None:
    await engine.write(lambda unit: projects.update(unit, tenant.project, ProjectChanges(plan="free")))
    made = await registered(write)
    await write(endpoints.delete, made.id)
    for _ in range(5):
        await registered(write)
    assert (await refusal(write(endpoints.restore, made.id, *NEW, "key")))[0] == "quota_exceeded"
    [other, *_] = await engine.read(lambda unit: endpoints.every(unit, tenant.project))
    await write(endpoints.delete, other.id)
    assert (await write(endpoints.restore, made.id, *NEW, "key")).id == made.id
    with pytest.raises(DuplicateIdempotencyKey):
        await write(endpoints.restore, other.id, *NEW, "key")


async def test_a_key_without_read_users_restores_no_endpoint_that_gets_their_events(
    write: Run, tenant: Tenant
) -> None:
    writer = replace(tenant, scopes=frozenset({"write:projects"}))
    of_users, of_orders = await registered(write, "user.created"), await registered(write, "order.paid")
    for made in (of_users, of_orders):
        await write(endpoints.delete, made.id)
    assert (await refusal(write(endpoints.restore, of_users.id, *NEW, by=writer)))[0] == "missing_scope"
    assert (await write(endpoints.restore, of_orders.id, *NEW, by=writer)).id == of_orders.id
