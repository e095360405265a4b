"""Routes of the test helpers; all of them go beyond the contract (docs/decisions.md#test-helpers).

The guard lets only test keys with the role owner use these routes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from ledger_engine.access import idempotency
from ledger_engine.core.clock import parse_moment
from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.records import Moment, Record
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.outbox import Event
from ledger_engine.http.bodies import Body
from ledger_engine.http.gate.gate import Gate
from ledger_engine.http.lists import GenericList, Time
from ledger_engine.http.operations import Call, Routes
from ledger_engine.http.wire.asgi import Asgi, Receive, Send
from ledger_engine.ledger import accounts, invoices, orders, transactions, users
from ledger_engine.ledger.accounts import Account, NewAccount
from ledger_engine.ledger.invoices import Invoice, NewInvoice
from ledger_engine.ledger.orders import NewOrder
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.ledger.users import NewUser
from ledger_engine.sandbox.faults import Fault, check_fault
from ledger_engine.sandbox.guard import ROOT, Guard, is_helper_path
from ledger_engine.sandbox.helpers import Helpers
from ledger_engine.sandbox.snapshots import EmptiedProject, Snapshot
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import Page, PageRequest

# Events on demand: the ledger's rules create the objects that an event needs, in one commit


AMOUNT = 12_50
_RECENT = PageRequest(10)  # enough to find the event again: `make_happen` records fewer than 10 events


def make_happen(unit: Unit, tenant: Tenant, type: str) -> tuple[Event, list[Record]]:
    """Make an event of this type happen. Return the event, and the objects that were created for it.

    The objects are in their present state, after the event.
    Raises InvalidRequest for an unknown type, and the errors of creating the objects.
    """
    if type not in _MAKERS:
        raise InvalidRequest("invalid_value", f"type must be one of {', '.join(outbox.KINDS)}.", "type")
    make, moves = _MAKERS[type]
    objects = make(unit, tenant, *moves)
    event = next(event for event in outbox.page(unit, tenant, _RECENT).items if event.type == type)
    return event, objects


def _account(unit: Unit, tenant: Tenant) -> Account:
    return accounts.create(unit, tenant, NewAccount("Test account", "EUR", {}))


def _posting(unit: Unit, tenant: Tenant) -> list[Record]:
    account = _account(unit, tenant)
    transaction = transactions.post(
        unit, tenant, NewTransaction(account.id, AMOUNT, "credit", "Test posting")
    )
    return [accounts.get(unit, tenant, account.id), transaction]


def _invoice(unit: Unit, tenant: Tenant, *moves: Move) -> list[Record]:
    account = _account(unit, tenant)
    invoice = invoices.create(unit, tenant, NewInvoice(account.id, "Test customer", AMOUNT))
    for move in moves:
        invoice = move(unit, tenant, invoice.id)
    payment = invoice.transaction
    payments = [] if payment is None else [transactions.get(unit, tenant, payment)]
    return [accounts.get(unit, tenant, account.id), invoice, *payments]


def _update(unit: Unit, tenant: Tenant, id: str) -> Invoice:
    return invoices.update(unit, tenant, id, {"amount": 2 * AMOUNT})


def _user(unit: Unit, tenant: Tenant, *moves: Move) -> list[Record]:
    # The new id makes an address that no other user has.
    user = users.create(unit, tenant, NewUser("Test user", f"{unit.new_id('usr')}@example.com"))
    for move in moves:
        user = move(unit, tenant, user.id)
    return [user]


def _order(unit: Unit, tenant: Tenant, *moves: Move) -> list[Record]:
    (user,) = _user(unit, tenant)
    item = {"name": "Test item", "quantity": 1, "unit_amount": AMOUNT}
    order = orders.create(unit, tenant, NewOrder(user.id, [item]))
    for move in moves:
        order = move(unit, tenant, order.id)
    return [user, order]


Move = Callable[[Unit, Tenant, str], Any]
Make = Callable[..., list[Record]]
# For each type of event: the function that makes the objects, and the moves that lead to the event.
_MAKERS: dict[str, tuple[Make, list[Move]]] = {
    "account.created": (lambda unit, tenant: [_account(unit, tenant)], []),
    "transaction.created": (_posting, []),
    "invoice.created": (_invoice, []),
    "invoice.updated": (_invoice, [_update]),
    "invoice.opened": (_invoice, [invoices.finalize]),
    "invoice.paid": (_invoice, [invoices.finalize, invoices.pay]),
    "invoice.voided": (_invoice, [invoices.finalize, invoices.void]),
    "user.created": (_user, []),
    "user.deactivated": (_user, [users.deactivate]),
    "user.restored": (_user, [users.deactivate, users.restore]),
    "order.created": (_order, []),
    "order.paid": (_order, [orders.pay]),
    "order.shipped": (_order, [orders.pay, orders.ship]),
}


# Routes


# The latest time to which the clock can move (milliseconds; in the year 9892). Due times can lie after this
# time, and must be before the year 10000.
LATEST = 250_000_000_000_000

routes = Routes("test_helpers", ROOT)

READS = "read:projects"
WRITES = "write:projects"
Count = Annotated[int, Field(ge=1)]
Milliseconds = Annotated[int, Field(ge=0, le=60_000)]
Name = Annotated[str, Field(max_length=255)]
# The range of whole numbers that JavaScript holds exactly.
Seed = Annotated[int, Field(ge=-MAX_AMOUNT, le=MAX_AMOUNT)]


class SetClock(Body):
    advance: Annotated[float, Field(ge=0, le=LATEST / 1000)] | None = None
    now: Time | None = None
    frozen: bool | None = None


class TakeSnapshot(Body):
    name: str


# This class is not called FaultMatch, because client generators give that name to the type of the field
# `match` in the record Fault.
class SetFaultMatch(Body):
    method: Name | None = None
    path: Annotated[str, Field(max_length=8_192)] | None = None  # the longest URL
    key: Name | None = None
    header: Annotated[str, Field(max_length=16_384)] | None = None  # the longest head of a request
    endpoint: Name | None = None
    type: Name | None = None


class SetFaultAction(Body):
    status: Annotated[int, Field(ge=400, le=599)] | None = None
    code: str | None = None
    delay_ms: Milliseconds | None = None
    jitter_ms: Milliseconds | None = None
    cut: Literal["before", "after_commit", "half"] | None = None
    webhook: Literal["drop", "delay", "duplicate", "reorder", "corrupt"] | None = None


class SetFault(Body):
    match: SetFaultMatch = SetFaultMatch()
    action: SetFaultAction
    probability: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Seed | None = None
    times: Count | None = None


class TriggerEvent(Body):
    type: str


@dataclass(slots=True)
class ForgottenFaults:
    """The number of deleted faults."""

    deleted: int


@dataclass(slots=True)
class TriggeredEvent:
    """The event that happened, and the objects that were made for it."""

    event: Event
    objects: list[Any]


@dataclass(slots=True)
class LedgerClock:
    """The ledger's time.

    `offset_ms` is how far this time is ahead of the machine's clock, negative if the ledger's clock stood
    still for long; `frozen` is whether the clock stands still now.
    """

    now: Moment
    offset_ms: int
    frozen: bool


@routes.add("GET", "/clock", needs=READS, role="owner")
async def get_clock(call: Call) -> LedgerClock:
    """Get the ledger's time."""
    clock = Helpers.of(call.engine).clock
    state = clock.state()
    return LedgerClock(Moment(state.now), clock.offset_ms(), state.frozen)


@routes.add("POST", "/clock", needs=WRITES, role="owner")
async def set_clock(call: Call, body: SetClock) -> LedgerClock:
    """Move the clock forward, or freeze it; the answer comes when everything due has happened."""
    helpers = Helpers.of(call.engine)
    values = body.model_dump(exclude_none=True)
    if len(values) != 1:
        raise InvalidRequest("invalid_value", "Give one of advance, now and frozen.", "advance")
    now = helpers.clock.now()
    milliseconds = round((body.advance or 0) * 1000)
    target = now if body.now is None else parse_moment(body.now, "now")
    if body.frozen is None:  # check before `take_key`: a refused request must not use up its idempotency key
        _require_reachable(target + milliseconds, now, next(iter(values)))
    await take_key(call, "clock")
    if body.frozen is not None:
        await helpers.freeze(frozen=body.frozen)
    elif body.now is not None:
        await helpers.move_to(target)
    else:
        await helpers.advance(milliseconds)
    return await get_clock(call)


@routes.add("POST", "/snapshots", needs=WRITES, role="owner", status=201)
async def take_snapshot(call: Call, body: TakeSnapshot) -> Snapshot:
    """Take a snapshot of the whole ledger, for `restore`."""
    helpers = Helpers.of(call.engine)
    helpers.snapshots.check_new(body.name)
    id = helpers.snapshots.new_id(helpers.clock.now())
    await take_key(call, id)
    return await helpers.take_snapshot(id, body.name)


@routes.add("GET", "/snapshots", needs=READS, role="owner")
async def list_snapshots(call: Call, query: GenericList) -> Page[Snapshot]:
    """List the snapshots, newest first."""
    return Helpers.of(call.engine).snapshots.page(query.page())


@routes.add("POST", "/snapshots/<name>/restore", needs=WRITES, role="owner")
async def restore_snapshot(call: Call, name: str) -> Snapshot:
    """Set the whole ledger, with all projects and its clock, back to a snapshot."""
    return await Helpers.of(call.engine).restore(name)


@routes.add("DELETE", "/snapshots/<name>", needs=WRITES, role="owner")
async def delete_snapshot(call: Call, name: str) -> Snapshot:
    """Delete a snapshot; the ledger stays as it is."""
    return Helpers.of(call.engine).snapshots.delete(name)


@routes.add("POST", "/reset", needs=WRITES, role="owner")
async def reset(call: Call) -> EmptiedProject:
    """Empty the project and mode of the request's key and forget their faults; the project's keys stay."""
    return await Helpers.of(call.engine).reset(call.authenticate())


@routes.add("POST", "/faults", needs=WRITES, role="owner", status=201)
async def set_fault(call: Call, body: SetFault) -> Fault:
    """Make requests or webhooks of this project and mode fail."""
    helpers, tenant = Helpers.of(call.engine), call.authenticate()
    match, action = check_fault(body.match.model_dump(), body.action.model_dump())
    now = helpers.clock.now()
    fault = Fault(
        id=helpers.ids.new("flt", now),
        match=match,
        action=action,
        probability=1.0 if body.probability is None else body.probability,
        seed=body.seed,
        times=body.times,
        hits=0,
        created=Moment(now),
        livemode=tenant.livemode,
    )
    await take_key(call, fault.id)
    return helpers.faults.add(tenant, fault)


@routes.add("GET", "/faults", needs=READS, role="owner")
async def list_faults(call: Call, query: GenericList) -> Page[Fault]:
    """List the faults with their hits, newest first."""
    return Helpers.of(call.engine).faults.page(call.authenticate(), query.page())


@routes.add("DELETE", "/faults/<id>", needs=WRITES, role="owner")
async def delete_fault(call: Call, id: str) -> Fault:
    """End one fault."""
    return Helpers.of(call.engine).faults.remove(call.authenticate(), id)


@routes.add("DELETE", "/faults", needs=WRITES, role="owner")
async def delete_faults(call: Call) -> ForgottenFaults:
    """End all faults of this project and mode."""
    return ForgottenFaults(Helpers.of(call.engine).faults.clear(call.authenticate()))


@routes.add("POST", "/events", needs=WRITES, role="owner", answer=TriggeredEvent)
async def trigger_event(call: Call, body: TriggerEvent) -> dict[str, object]:
    """Make an event of this type really happen, with all objects that it needs."""
    event, objects = await call.write(_make_happen, body.type, call.idempotency_key)
    return {"event": event, "objects": objects}


def _make_happen(unit: Unit, tenant: Tenant, type: str, key: str | None) -> tuple[Event, list[Record]]:
    event, objects = make_happen(unit, tenant, type)
    idempotency.take(unit, tenant, key, objects[-1].id)
    return event, objects


async def take_key(call: Call, object: str) -> None:
    """Store the request's idempotency key, if it has one.

    `object` is stored with the key: the id of the object that the request creates, or `clock`. Raises
    DuplicateIdempotencyKey.
    """
    if call.idempotency_key is not None:
        await call.write(_take, call.idempotency_key, object)


def _take(unit: Unit, tenant: Tenant, key: str, object: str) -> None:
    idempotency.take(unit, tenant, key, object)


def _require_reachable(moment: int, now: int, param: str) -> None:
    """Raise InvalidRequest if `moment` is before `now` or after LATEST: the clock cannot move there."""
    if moment < now:
        raise InvalidRequest("invalid_value", "The clock only goes forward.", param)
    if moment > LATEST:
        raise InvalidRequest("invalid_value", "The clock goes no further than the year 9892.", param)


# The wrappers of the gate and the dispatcher (`guard.py`)


# The turnstile makes new requests wait until the requests in progress have ended and the ledger is replaced.
# It does not count event streams as requests in progress, because `restore` itself ends them.
_STREAM = "/v1/events/stream"


def add_guard(dispatcher: Asgi, engine: Engine) -> Guard:
    """Return a guard in front of the dispatcher. The gate passes its requests to this guard."""
    helpers = Helpers.of(engine)
    return Guard(dispatcher, helpers.faults, helpers.turnstile)


def add_turnstile(gate: Gate, engine: Engine) -> Asgi:
    """Return the turnstile in front of the gate. It makes requests wait while the ledger is replaced."""
    helpers = Helpers.of(engine)
    helpers.when_restored.append(gate.renew_ids_and_tags)
    turnstile = helpers.turnstile

    async def pass_turnstile(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or is_helper_path(path):
            await gate(scope, receive, send)
        elif path == _STREAM:
            await turnstile.wait_until_open()
            await gate(scope, receive, send)
        else:
            async with turnstile.count_request():
                await gate(scope, receive, send)

    return pass_turnstile
