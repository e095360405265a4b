"""The engine does what a page of plain Python says: random histories of everything it can do, step by step.

The books sum to zero, every check of `ledger-engine verify` holds, and the events told are those that
happened: after each step in a short run, in a long one after a number of steps that is drawn and at the end.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, get_state_machine_test, initialize, invariant, rule

from ledger_engine.access import projects
from ledger_engine.core.errors import DuplicateIdempotencyKey, LedgerError
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, invoices, orders, statements, transactions, users
from ledger_engine.store import Unit
from ledger_engine.store.books import OF_BOOK
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.pages import PageRequest
from tests import auditing
from tests.ledger_engine.conftest import START
from tests.ledger_engine.histories import (
    amounts,
    currencies,
    descriptions,
    emails,
    items,
    keys,
    lines,
    metadata,
    names,
    picks,
    places,
    postings,
    roles,
    sums,
)
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.model import Fields, Model, ModelTenant, Outcome
from tests.locations import new_ledger

DAY = 86_400_000
HISTORIES, STEPS = 14, 980  # in a run, and about how many steps these have
SHORT, SHORT_BESIDE = 10, 3  # the same histories each time, and on the database that is not asked for
waits = st.sampled_from([1, 1000, DAY, 29 * DAY, 30 * DAY])
NOBODY = "acc_00000000000000000000000000"


class Ledger(RuleBasedStateMachine):
    """Three tenants of one ledger: a project's modes, and a project with a quota that refuses overdraft."""

    kind = "sqlite"
    steps = 0  # taken by all histories
    is_long = False  # whether the books are looked at after each step, or only after some

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ledger-model-"))
        self.runner = asyncio.Runner()
        self.clock = ManualClock(START)
        self.model = Model(START)
        self.location = new_ledger(self.kind, self.folder)
        self.engine = self.open()
        self.tenants: list[ModelTenant] = []
        self.has_written = True
        self.look_every = self.look_in = 1  # steps

    def open(self) -> Engine:
        return open_engine(self.location, clock=self.clock, serving=True)

    def teardown(self) -> None:
        try:
            self.look_at_the_books()
        finally:
            self.runner.run(self.engine.close())
            self.runner.close()
            shutil.rmtree(self.folder)

    @initialize(every=st.integers(1, 100))
    def found(self, every: int) -> None:
        self.look_every = every if self.is_long else 1
        made = [
            self.write(projects.create, new=projects.NewProject(name, "enterprise")).id
            for name in ("first", "second")
        ]
        self.tenants = [
            ModelTenant(made[0], livemode=False),
            ModelTenant(made[0], livemode=True),
            ModelTenant(made[1], livemode=False, may_overdraw=False, quota=12),
        ]
        for place in range(3):
            for currency in ("EUR", "EUR", "JPY"):
                self.create_account(place, "Till", currency, {}, None)
            self.post(place, [(11, 500, "credit"), (21, 200, "debit"), (9, 100, "debit")], None, None)
            self.create_user(place, "Ada", "ada@example.com", "admin", None)
            self.create_invoice(place, 1, "Ada", (250, None), None)
            self.create_order(place, 1, [{"sku": "beans"}], None)

    # How a step is taken

    def write(self, work: Callable[..., Any], **arguments: Any) -> Any:
        self.has_written = True
        return self.runner.run(self.engine.write(partial(work, **arguments)))

    def read(self, work: Callable[..., Any], **arguments: Any) -> Any:
        return self.runner.run(self.engine.read(partial(work, **arguments)))

    def tenant(self, model_tenant: ModelTenant) -> Tenant:
        return Tenant(
            model_tenant.project,
            model_tenant.livemode,
            may_overdraw=model_tenant.may_overdraw,
            quota=model_tenant.quota,
        )

    def some(self, kind: str, model_tenant: ModelTenant, pick: int) -> str:
        """Return an id of the tenant's; now and then one of another tenant, or of nothing."""
        own = list(getattr(model_tenant, kind))
        everybodys = [id for each in self.tenants for id in getattr(each, kind)]
        ids: list[str] = (everybodys if pick % 10 == 0 else own) or [NOBODY]
        return ids[pick // 10 % len(ids)]

    def take(
        self, model_tenant: ModelTenant, outcome: Outcome, work: Callable[..., Any], **arguments: Any
    ) -> Any:
        """Run the work; when it is refused, the model must have expected one such refusal, else none."""
        answer, error = self.attempt(work, tenant=self.tenant(model_tenant), **arguments)
        if error is None:
            assert outcome.due == set(), f"not refused: {outcome.due}"
        else:
            assert (error.code, error.param) in outcome.due, (error.code, error.param, outcome.due)
        if isinstance(error, DuplicateIdempotencyKey):
            assert error.original == model_tenant.keys[arguments["key"]]
        return answer

    def attempt(self, work: Callable[..., Any], **arguments: Any) -> tuple[Any, LedgerError | None]:
        try:
            return self.write(work, **arguments), None
        except LedgerError as error:
            return None, error

    def make(
        self, model_tenant: ModelTenant, outcome: Outcome, work: Callable[..., Any], **arguments: Any
    ) -> None:
        """Do the same with a work that makes one object."""
        made = self.take(model_tenant, outcome, work, **arguments)
        if made is not None:
            assert asdict(made) == {"id": made.id, **outcome.expected}
            outcome.happen([made.id])

    def change(
        self, model_tenant: ModelTenant, outcome: Outcome, work: Callable[..., Any], **arguments: Any
    ) -> None:
        """Do the same with a work that changes one object."""
        changed = self.take(model_tenant, outcome, work, **arguments)
        if changed is not None:
            outcome.happen([])
            assert asdict(changed) == outcome.expected

    def posted(
        self, model_tenant: ModelTenant, outcome: Outcome, answers: list[transactions.Transaction]
    ) -> None:
        """Tell the model the ids of what was posted, and compare each side with what it expected."""
        count = outcome.expected["sides"]
        wanted = PageRequest(limit=count)
        newest = self.read(transactions.page, tenant=self.tenant(model_tenant), request=wanted).items[::-1]
        outcome.happen([each.id for each in newest])
        assert [asdict(each) for each in newest] == list(model_tenant.transactions.values())[-count:]
        assert answers == [newest[place] for place in outcome.expected["answers"]]

    # What can happen

    # The name that comes first is the one step of the simplest history, so it is one that costs little.
    @rule(milliseconds=waits)
    def some_time_passes(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.model.now = self.clock.now()

    @rule(milliseconds=waits)
    def the_server_starts_again(self, milliseconds: int) -> None:
        """So long after it has ended, as a new process dates itself after everything that is there."""
        self.runner.run(self.engine.close())
        self.engine = self.open()
        self.some_time_passes(milliseconds)

    @rule(place=places, name=names, currency=currencies, metadata=metadata, key=keys)
    def create_account(
        self, place: int, name: str, currency: str, metadata: dict[str, str], key: str | None
    ) -> None:
        model_tenant = self.tenants[place]
        outcome = self.model.create_account(model_tenant, name, currency, metadata, key)
        self.make(
            model_tenant, outcome, accounts.create, key=key, new=accounts.NewAccount(name, currency, metadata)
        )

    def posting(
        self, model_tenant: ModelTenant, pick: int, amount: int, type: str, description: str | None
    ) -> Fields:
        """Every third one a transfer, to an account of the same currency as a rule."""
        account, to = self.some("accounts", model_tenant, pick), None
        if pick % 3 == 0:
            to = self.some("accounts", model_tenant, pick // 7)
            held = model_tenant.accounts.get(account, {"currency": None})["currency"]
            fitting = [
                id for id, each in model_tenant.accounts.items() if each["currency"] == held and id != account
            ]
            if pick % 4 and fitting:
                to = fitting[pick // 12 % len(fitting)]
        return {
            "account": account,
            "amount": amount,
            "type": type,
            "description": description,
            "destination": to,
        }

    @rule(place=places, news=postings, description=descriptions, key=keys)
    def post(
        self, place: int, news: list[tuple[int, int, str]], description: str | None, key: str | None
    ) -> None:
        model_tenant = self.tenants[place]
        for pick, amount, type in news:
            new = self.posting(model_tenant, pick, amount, type, description)
            outcome = self.model.post(model_tenant, new, key)
            arguments = {"new": transactions.NewTransaction(**new), "key": key}
            answer = self.take(model_tenant, outcome, transactions.post, **arguments)
            if answer is not None:
                self.posted(model_tenant, outcome, [answer])
            key = None

    @rule(place=places, batch=postings | postings | postings | st.just([]), key=keys)
    def post_batch(self, place: int, batch: list[tuple[int, int, str]], key: str | None) -> None:
        model_tenant = self.tenants[place]
        news = [self.posting(model_tenant, pick, amount, type, None) for pick, amount, type in batch]
        outcome = self.model.post_batch(model_tenant, news, key)
        arguments = {"batch": [transactions.NewTransaction(**new) for new in news], "key": key}
        answers = self.take(model_tenant, outcome, transactions.post_batch, **arguments)
        if answers is not None:
            self.posted(model_tenant, outcome, answers)

    @rule(place=places, pick=picks, key=keys)
    def reverse(self, place: int, pick: int, key: str | None) -> None:
        model_tenant = self.tenants[place]
        id = self.some("transactions", model_tenant, pick)
        outcome = self.model.reverse(model_tenant, id, key)
        answer = self.take(model_tenant, outcome, transactions.reverse, id=id, key=key)
        if answer is not None:
            self.posted(model_tenant, outcome, [answer])

    @rule(place=places, pick=picks, customer=names, sum=sums, key=keys)
    def create_invoice(self, place: int, pick: int, customer: str, sum: Any, key: str | None) -> None:
        model_tenant = self.tenants[place]
        amount, lines = sum
        new: Fields = {
            "account": self.some("accounts", model_tenant, pick),
            "customer": customer,
            "amount": amount,
            "lines": lines,
            "due_date": "2026-12-01" if pick % 2 else None,
            "description": None,
            "metadata": {},
        }
        outcome = self.model.create_invoice(model_tenant, new, key)
        self.make(model_tenant, outcome, invoices.create, key=key, new=invoices.NewInvoice(**new))

    @rule(
        place=places,
        pick=picks,
        account=st.none() | picks,
        changes=st.fixed_dictionaries(
            {},
            optional={
                "customer": names,
                "amount": amounts,
                "lines": lines,
                "due_date": st.none() | st.just("2027-01-31"),
                "description": st.none() | st.just("For beans"),
                "metadata": st.just({"a": "b"}),
            },
        ),
    )
    def update_invoice(self, place: int, pick: int, account: int | None, changes: Fields) -> None:
        model_tenant = self.tenants[place]
        if account is not None:
            changes = {**changes, "account": self.some("accounts", model_tenant, account)}
        id = self.some("invoices", model_tenant, pick)
        outcome = self.model.update_invoice(model_tenant, id, changes)
        self.change(model_tenant, outcome, invoices.update, id=id, changes=changes)

    @rule(
        place=places,
        pick=picks,
        verb=st.sampled_from(["finalize", "finalize", "pay", "pay", "void"]),
        key=keys,
    )
    def move_invoice(self, place: int, pick: int, verb: str, key: str | None) -> None:
        model_tenant = self.tenants[place]
        id = self.some("invoices", model_tenant, pick)
        if verb == "finalize":
            outcome = self.model.finalize_invoice(model_tenant, id, key)
            self.change(model_tenant, outcome, invoices.finalize, id=id, key=key)
        elif verb == "void":
            self.change(model_tenant, self.model.void_invoice(model_tenant, id), invoices.void, id=id)
        else:
            self.pay_invoice(model_tenant, id, key)

    def pay_invoice(self, model_tenant: ModelTenant, id: str, key: str | None) -> None:
        outcome = self.model.pay_invoice(model_tenant, id, key)
        paid = self.take(model_tenant, outcome, invoices.pay, id=id, key=key)
        if paid is not None:
            outcome.happen([paid.transaction])
            assert asdict(paid) == outcome.expected
            payment = self.read(transactions.get, tenant=self.tenant(model_tenant), id=paid.transaction)
            assert asdict(payment) == model_tenant.transactions[paid.transaction]

    @rule(place=places, name=names, email=emails, role=roles, key=keys)
    def create_user(self, place: int, name: str, email: str, role: str, key: str | None) -> None:
        model_tenant = self.tenants[place]
        outcome = self.model.create_user(model_tenant, name, email, role, key)
        self.make(model_tenant, outcome, users.create, key=key, new=users.NewUser(name, email, role))

    @rule(place=places, pick=picks, restore=st.booleans(), key=keys)
    def move_user(self, place: int, pick: int, restore: bool, key: str | None) -> None:
        model_tenant = self.tenants[place]
        id = self.some("users", model_tenant, pick)
        if restore:
            outcome = self.model.restore_user(model_tenant, id, key)
            self.change(model_tenant, outcome, users.restore, id=id, key=key)
        else:
            self.change(model_tenant, self.model.deactivate_user(model_tenant, id), users.deactivate, id=id)

    @rule(place=places, pick=picks, items=items, key=keys)
    def create_order(self, place: int, pick: int, items: list[Fields], key: str | None) -> None:
        model_tenant = self.tenants[place]
        user = self.some("users", model_tenant, pick)
        outcome = self.model.create_order(model_tenant, user, items, key)
        self.make(model_tenant, outcome, orders.create, key=key, new=orders.NewOrder(user, items))

    @rule(place=places, pick=picks, to=st.sampled_from(["paid", "shipped"]), key=keys)
    def move_order(self, place: int, pick: int, to: str, key: str | None) -> None:
        model_tenant = self.tenants[place]
        id = self.some("orders", model_tenant, pick)
        work = orders.pay if to == "paid" else orders.ship
        outcome = self.model.move_order(model_tenant, id, to, key)
        self.change(model_tenant, outcome, work, key=key, id=id)

    # What can be read

    @rule(place=places, limit=st.integers(1, 7), pick=picks)
    def read_every_list(self, place: int, limit: int, pick: int) -> None:
        model_tenant = self.tenants[place]
        account, status = self.some("accounts", model_tenant, pick), ["draft", "open", "paid"][pick % 3]
        type = ["credit", "debit"][pick % 2]
        since = START + pick % 3 * DAY
        lists: list[tuple[Callable[..., Any], dict[str, Fields], Fields, int | None]] = [
            (accounts.page, model_tenant.accounts, {}, None),
            (transactions.page, model_tenant.transactions, {}, None),
            (transactions.page, model_tenant.transactions, {"account": account}, None),
            (transactions.page, model_tenant.transactions, {"type": type}, since),
            (transactions.page, model_tenant.transactions, {"account": account, "type": type}, since),
            (invoices.page, model_tenant.invoices, {"status": status}, None),
            (invoices.page, model_tenant.invoices, {"account": account, "status": status}, None),
            (orders.page, model_tenant.orders, {"status": status} if status != "draft" else {}, None),
        ]
        for page, kind, equal, after in lists:
            due = [
                each
                for each in reversed(kind.values())
                if all(each[name] == value for name, value in equal.items())
                and (after is None or each["created"] > after)
            ]
            filters = equal if after is None else {**equal, "created_after": after}
            self.compare_pages(model_tenant, partial(page, **filters), due, limit)

    def compare_pages(
        self, model_tenant: ModelTenant, page: Callable[..., Any], due: list[Fields], limit: int
    ) -> None:
        """Read the pages from the newest to the oldest, and back."""
        tenant = self.tenant(model_tenant)
        got: list[Fields] = []
        wanted = PageRequest(limit)
        while True:
            answer = self.read(page, tenant=tenant, request=wanted)
            got += [asdict(item) for item in answer.items]
            assert answer.has_more == (answer.next_cursor is not None) == (len(got) < len(due))
            if answer.next_cursor is None:
                break
            wanted = PageRequest(limit, after=answer.next_cursor)
        assert got == due
        if due:
            back = self.read(page, tenant=tenant, request=PageRequest(limit, before=due[-1]["id"]))
            assert [asdict(item) for item in back.items] == due[:-1][-limit:]
            assert back.has_more == (len(due) - 1 > limit)

    @rule(place=places, limit=st.integers(1, 5), page=st.integers(1, 3), role=st.none() | roles)
    def read_users(self, place: int, limit: int, page: int, role: str | None) -> None:
        model_tenant = self.tenants[place]
        due = [each for each in reversed(model_tenant.users.values()) if role is None or each["role"] == role]
        if role == "boss":
            return
        got = self.read(users.page, tenant=self.tenant(model_tenant), page=page, per_page=limit, role=role)
        assert [asdict(user) for user in got.items] == due[(page - 1) * limit : page * limit]
        assert (got.total, got.total_pages) == (len(due), -(-len(due) // limit))

    @rule(
        place=places,
        pick=picks,
        first=picks,
        last=picks,
        earlier=st.integers(-1, 1),
        later=st.integers(-1, 1),
    )
    def read_an_account(self, place: int, pick: int, first: int, last: int, earlier: int, later: int) -> None:
        """Its balance and a statement, at moments in which something happened or just beside them."""
        model_tenant = self.tenants[place]
        id = self.some("accounts", model_tenant, pick)
        if id not in model_tenant.accounts:
            return
        tenant = self.tenant(model_tenant)
        moments = sorted(
            {each["created"] for each in model_tenant.transactions.values()} | {START, self.model.now}
        )
        start, end = sorted((moments[first % len(moments)] + earlier, moments[last % len(moments)] + later))
        assert asdict(self.read(accounts.get, tenant=tenant, id=id)) == model_tenant.accounts[id]
        before = self.model.balance_at(model_tenant, id, start - 1)
        after = self.model.balance_at(model_tenant, id, end)
        assert self.read(accounts.balance_at, tenant=tenant, id=id, at=end).balance == after
        drawn = self.read(statements.draw_up, tenant=tenant, account=id, start=start, end=end)
        assert (drawn.opening_balance, drawn.closing_balance) == (before, after)
        lines = self.read(statements.lines, tenant=tenant, statement=drawn)
        assert [line.transaction for line in lines] == [
            each["id"]
            for each in model_tenant.transactions.values()
            if each["account"] == id and start <= each["created"] <= end
        ]
        assert before + sum(line.amount for line in lines) == after

    # What always holds

    @invariant()
    def the_books_are_right(self) -> None:
        """They sum to zero, the audit finds nothing, and all of it was told."""
        type(self).steps += 1
        self.look_in -= 1
        if self.look_in <= 0:
            self.look_in = self.look_every
            self.look_at_the_books()

    def look_at_the_books(self) -> None:
        if not self.has_written:
            return
        self.has_written = False
        assert set(self.read(_sums)) <= {0}
        assert self.read(auditing.verify).fault is None
        for model_tenant in self.tenants:
            assert self.read(_told, tenant=self.tenant(model_tenant)) == model_tenant.events


def _sums(unit: Unit) -> list[int]:
    rows = unit.execute(
        "SELECT sum(balance) FROM ("
        " SELECT project, livemode, currency, balance FROM accounts UNION ALL"
        " SELECT project, livemode, currency, balance FROM settlements) AS sides"
        " GROUP BY project, livemode, currency"
    )
    return [row[0] for row in rows]


def _told(unit: Unit, tenant: Tenant) -> list[tuple[str, str]]:
    rows = unit.execute(
        f"SELECT type, object FROM events WHERE {OF_BOOK} ORDER BY id",
        tenant.bind(),
    )
    return [(row["type"], row["object"]) for row in rows]


@pytest.mark.hypothesis
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "kind",
    [pytest.param("sqlite", marks=pytest.mark.sqlite), pytest.param("postgres", marks=pytest.mark.process)],
)
def test_the_engine_does_what_the_model_says(request: pytest.FixtureRequest, kind: str, soak: int) -> None:
    """The same histories each time; `--soak N` or `--steps N` runs others, from a seed that is printed."""
    given = request.config.getoption
    machine = type("Ledger", (Ledger,), {"kind": kind, "steps": 0})
    if given("--database") != kind:
        _run(machine, SHORT_BESIDE, derandomize=True)
        return
    steps = given("--steps") or (STEPS * soak if soak > 1 else 0)
    if not steps and given("--seed") is None:
        _run(machine, SHORT, derandomize=True)
        return
    first, machine.is_long = request.getfixturevalue("seed"), True
    for number in itertools.count(first):
        _run(machine, HISTORIES, seed_of_run=number)
        if machine.steps >= steps:
            break
    request.getfixturevalue("tally")(steps=machine.steps)
    print(f"{machine.steps:,} steps on {kind}, from --seed {first}")


def _run(
    machine: type[Ledger],
    histories: int,
    *,
    derandomize: bool = False,
    seed_of_run: int | None = None,
    shrinks: bool = True,
) -> None:
    chosen = settings(
        max_examples=histories,
        stateful_step_count=70,
        derandomize=derandomize,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink) if shrinks else (Phase.generate,),
    )
    run = get_state_machine_test(machine, settings=chosen)
    (run if seed_of_run is None else seed(seed_of_run)(run))()
