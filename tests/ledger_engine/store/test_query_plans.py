"""Every statement a request runs is answered from an index (architecture.md).

Each operation is exercised over the application, each list with every combination of its parameters;
the statements that reach the database meanwhile are then explained by SQLite, which has not been told
how large its tables are (no ANALYZE). A route that nobody exercises here fails.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from ledger_engine.access import api_keys, projects
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import request_log
from ledger_engine.events.request_log import Entry
from ledger_engine.events.webhooks import deliveries, endpoints
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.http.app import create_app
from ledger_engine.http.gate import authentication
from ledger_engine.http.gate.gate import AuthRateLimit
from ledger_engine.ledger import accounts, invoices, orders, transactions, users
from ledger_engine.ledger import statements as drawing
from ledger_engine.log.sealer import Sealer
from ledger_engine.store import Parameters, Unit
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.pages import PageRequest
from ledger_engine.store.sqlite.unit import ReadingUnit, SqliteUnit
from tests.ledger_engine.conftest import START
from tests.ledger_engine.exercises import EXERCISES, OPERATIONS, World, exercise
from tests.ledger_engine.in_process import client_of
from tests.ledger_engine.manual_clock import ManualClock

one_loop = pytest.mark.asyncio(loop_scope="module")

Statements = dict[str, Parameters]


async def fill(engine: Engine, clock: ManualClock, tenant: Tenant, rows: int) -> None:
    """`rows` transactions, and a fifth as many of the other objects, of which some moved on in life."""

    def work(unit: Unit) -> None:
        held = [
            accounts.create(unit, tenant, accounts.NewAccount(f"Account {number}", "EUR", {})).id
            for number in range(20)
        ]
        for number in range(rows):
            kind = "debit" if number % 2 else "credit"
            destination = held[(number + 1) % 20] if number % 10 == 0 else None
            new = transactions.NewTransaction(held[number % 20], 1 + number, kind, None, destination)
            transactions.post(unit, tenant, new, f"key {number}")
        for number in range(rows // 5):
            drafted = invoices.create(
                unit, tenant, invoices.NewInvoice(held[number % 20], "Customer", amount=5)
            )
            if number % 4:
                invoices.finalize(unit, tenant, drafted.id)
            if number % 4 == 2:
                invoices.pay(unit, tenant, drafted.id)
            if number % 4 == 3:
                invoices.void(unit, tenant, drafted.id)
            role = ("member", "admin", "owner")[number % 3]
            user = users.create(unit, tenant, users.NewUser(f"User {number}", f"{number}@example.com", role))
            order = orders.create(unit, tenant, orders.NewOrder(user.id, [{"sku": "beans"}]))
            if number % 3:
                orders.pay(unit, tenant, order.id)
            if number % 3 == 2:
                orders.ship(unit, tenant, order.id)
        request_log.add(unit, [logged_request(unit, tenant, number) for number in range(rows)])
        for number in range(30):
            secret = endpoints.new_secret()
            hook = endpoints.NewEndpoint(f"https://hooks.example/{number}", ["account.created"])
            endpoints.create(unit, tenant, hook, secret, secret)
        for account in held:
            told = unit.first("SELECT id FROM events WHERE object = :account", {"account": account})
            assert told is not None
            deliveries.resend(unit, tenant, told["id"])
        for _ in range(30):
            api_keys.create(unit, tenant, api_keys.NewApiKey(), api_keys.new_value(tenant.livemode))

    await engine.write(work)
    clock.advance(1000)


def logged_request(unit: Unit, tenant: Tenant, number: int) -> Entry:
    return Entry(
        project=tenant.project,
        livemode=tenant.livemode,
        id=unit.new_id("req"),
        method="POST" if number % 3 else "GET",
        path="/v1/accounts" if number % 2 else "/v1/transactions",
        query="",
        status=200 if number % 5 else 400,
        duration_us=1000,
        credential_id="key",
        credential="sk_…",
        address="127.0.0.1",
        error_code=None,
        idempotency_key=None,
        traceparent=None,
        request_body=None,
        response_body=None,
        created=unit.now,
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    clock = ManualClock(START)
    path: Path = tmp_path_factory.mktemp("plans") / "ledger.db"
    engine = open_engine(path, clock=clock, serving=True)
    new = projects.NewProject("Roastery", "enterprise", rate_limit=10**9, burst=10**9)
    for number in range(3):
        project = await engine.write(partial(projects.create, new=new))
        for livemode in (False, True):
            tenant = Tenant(project.id, livemode)
            await fill(engine, clock, tenant, rows=1000 if number == 0 else 200)
            if number == 0 and not livemode:
                mine = tenant
                key = api_keys.new_value(livemode)
                owner = api_keys.NewApiKey(None, "owner")
                await engine.write(partial(api_keys.create, tenant=tenant, new=owner, value=key))
    await Sealer(engine, Seal(None)).seal()
    app = create_app(engine, auth_rate_limit=AuthRateLimit(10**9, 10**9))
    async with client_of(app, key) as client:
        yield World(engine, clock, mine, client, key)
    await engine.close()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Statements:
    """Every statement that a work runs from here on, with one set of its parameters."""
    seen: Statements = {}

    def watch(kind: type[SqliteUnit], name: str) -> None:
        original = getattr(kind, name)

        def watched(unit: SqliteUnit, sql: str, *parameters: Any) -> Any:
            given = parameters[0] if parameters else {}
            seen.setdefault(sql, given[0] if isinstance(given, list) else given)
            return original(unit, sql, *parameters)

        monkeypatch.setattr(kind, name, watched)

    for name in ("execute", "first", "execute_many"):
        watch(SqliteUnit, name)
    watch(ReadingUnit, "execute")
    return seen


# What SQLite says to it

# `execute_together` scans the rows that its own query has found, by an index, within its limit.
HARMLESS = re.compile(r"SCAN (\d+ )?CONSTANT ROWS?|SCAN one_by_one")


async def plan(engine: Engine, sql: str, parameters: Parameters) -> list[str]:
    rows = await engine.read(lambda unit: unit.execute(f"EXPLAIN QUERY PLAN {sql}", parameters))
    return [str(row["detail"]) for row in rows]


def faults(steps: list[str]) -> list[str]:
    return [
        step
        for step in steps
        if (step.startswith("SCAN") and not HARMLESS.fullmatch(step)) or "TEMP B-TREE" in step
    ]


def left_to_each_row(sql: str, steps: list[str]) -> set[str]:
    """Return the columns that a WHERE compares and the index does not, which are compared row by row."""
    where = re.sub(r"\(SELECT .*?\)", ":found", sql).partition(" WHERE ")[2].partition(" ORDER BY ")[0]
    compared = set(re.findall(r"(?:\w+\.)?(\w+) (?:=|<|>|<=|>=) :", where))
    searched = set(re.findall(r"(\w+)[=<>]", " ".join(steps)))
    return compared - searched


def is_a_list(sql: str) -> bool:
    return sql.startswith("SELECT") and " LIMIT :rows" in sql


def test_no_operation_goes_unexercised() -> None:
    unknown = {name for name in OPERATIONS if not name.startswith("GET ")} - set(EXERCISES)
    assert unknown == set(), "say in EXERCISES how each of these is used"
    assert set(EXERCISES) <= set(OPERATIONS), "these are no operations any more"


@one_loop
@pytest.mark.parametrize("name", OPERATIONS)
async def test_every_statement_is_answered_from_an_index(
    name: str, world: World, statements: Statements, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "_REMEMBERED_FOR_S", -1)  # each credential is looked up again
    await exercise(world, name)
    assert statements
    for sql, parameters in list(statements.items()):
        steps = await plan(world.engine, sql, parameters)
        assert faults(steps) == [], f"{sql}\n{steps}"
        # A log is written with every request and seldom searched: its filters have no index.
        if is_a_list(sql) and " FROM requests " not in sql:
            assert left_to_each_row(sql, steps) == set(), f"{sql}\n{steps}"
            assert "OFFSET" in sql or any("id<" in step or "id>" in step or "=?)" in step for step in steps)


@one_loop
async def test_the_columns_read_of_one_account_are_in_one_index(world: World, statements: Statements) -> None:
    def work(unit: Unit) -> None:
        id = transactions.page(unit, world.tenant, PageRequest()).items[0].account
        for type in (None, "credit"):
            transactions.page(unit, world.tenant, PageRequest(), account=id, type=type)
        accounts.balance_at(unit, world.tenant, id, unit.now)
        drawn_up = drawing.draw_up(unit, world.tenant, id, None, None)
        drawing.lines(unit, world.tenant, drawn_up)

    await world.engine.read(work)
    of_transactions = [
        [step for step in await plan(world.engine, sql, parameters) if "SEARCH t USING" in step]
        for sql, parameters in list(statements.items())
        if "FROM transactions AS t" in sql
    ]
    assert [len(steps) for steps in of_transactions] == [2, 1, 2, 2, 2], "both types, or one"
    assert all("COVERING INDEX" in step for steps in of_transactions for step in steps)


@one_loop
async def test_sqlite_has_no_table_statistics(world: World) -> None:
    tables = await world.engine.read(
        lambda unit: unit.execute("SELECT name FROM sqlite_schema WHERE name GLOB 'sqlite_stat*'")
    )
    assert tables == []


@one_loop
@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        ("SELECT * FROM accounts WHERE name = 'Till'", "SCAN accounts"),
        ("SELECT count(*) FROM transactions", "SCAN transactions USING COVERING INDEX"),
        ("SELECT * FROM accounts WHERE project = 'p' AND livemode = 0 ORDER BY name", "TEMP B-TREE"),
        ("DELETE FROM tokens WHERE used_at < 5", "SCAN tokens"),
    ],
)
async def test_this_test_sees_what_it_looks_for(world: World, sql: str, fault: str) -> None:
    assert any(fault in step for step in faults(await plan(world.engine, sql, {})))


@one_loop
async def test_this_test_sees_a_column_that_no_index_serves(world: World) -> None:
    sql = (
        "SELECT * FROM accounts WHERE project = :project AND livemode = :livemode AND currency = :currency"
        " AND id < :after ORDER BY id DESC LIMIT :rows"
    )
    parameters: Parameters = {"project": "p", "livemode": 0, "currency": "EUR", "after": "acc_", "rows": 5}
    steps = await plan(world.engine, sql, parameters)
    assert left_to_each_row(sql, steps) == {"currency"}
