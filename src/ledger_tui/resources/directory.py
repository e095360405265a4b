"""The screens of the directory: users, and their orders. An order is open, paid or shipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from ledger_tui.client.api import Api
from ledger_tui.client.errors import NotOffered
from ledger_tui.client.lists import fetch_page
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record, Want
from ledger_tui.formats.money import decimals, format_amount, localised
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import (
    Cell,
    Column,
    Detail,
    Fact,
    Field,
    Filter,
    Form,
    Link,
    More,
    Resource,
    ResourceAction,
    Section,
    Tone,
    in_state,
)
from ledger_tui.resources.cells import currency_of, facts_of, part_of_time, status_of, text_of, time_of
from ledger_tui.resources.drawings import lifecycle
from ledger_tui.resources.filtering import choice
from ledger_tui.resources.links import to_events

_LOOKS: Mapping[str, tuple[str, Tone]] = {"active": ("●", "plus"), "deactivated": ("✕", "minus")}
_ORDERS_READ, _ORDERS_SHOWN = 100, 10
_BY_USER = "users.orders"  # an optional part of the interface: the list of the orders of one user
_ROLES = ("member", "admin", "owner")


def _user_detail(record: Record, _names: AccountNames) -> Detail:
    name = text_of(record, "name")
    facts = [
        Fact("status", status_of(record, _LOOKS)),
        *facts_of(record, "email", "role", "created", "deactivated_at"),
    ]
    return Detail(Cell(name.text, "strong"), (Section("", tuple(facts)),), to_events(record))


class UserOrders(NamedTuple):
    """The newest orders of a user.

    `more` is True if the user has older orders too. `of_all` is True if the dashboard has picked the orders
    from the newest orders of all users.
    """

    rows: Sequence[Record]
    more: bool = False
    of_all: bool = False


async def _read_orders(api: Api, user: Record) -> UserOrders:
    """Return the user's newest orders.

    If the server cannot list the orders of one user, search the newest orders of all users instead.
    """
    want = Want(0, "page", 0, None, _ORDERS_READ)
    path = f"/api/users/{quote(str(user.get('id')), safe='')}/orders"
    if _BY_USER not in api.session.missing_parts:
        try:
            page = await fetch_page(api, path, {}, want, _BY_USER)
        except NotOffered:
            pass
        else:
            return UserOrders(page.rows, page.older is not None)
    page = await fetch_page(api, "/api/orders", {}, want)
    rows = [order for order in page.rows if order.get("user_id") == user.get("id")]
    return UserOrders(rows, of_all=True)


def _orders_section(_user: Record, orders: UserOrders, _names: AccountNames) -> tuple[Section, ...]:
    count_text = f"{len(orders.rows) or 'none'}{'+' if orders.more else ''}"
    if orders.of_all:
        count_text += f" among the newest {_ORDERS_READ}"
    return (Section("", (Fact("orders", Cell(count_text, "plain" if orders.rows else "dim")),)),)


def _to_orders(_user: Record, orders: UserOrders) -> tuple[Link, ...]:
    return tuple(
        Link(
            f"Order of {part_of_time(order, 'created', 0, 16)}, {literal(order.get('status', '?'))}",
            "orders",
            record_id=str(order.get("id")),
        )
        for order in orders.rows[:_ORDERS_SHOWN]
    )


RESTORE = ResourceAction(
    "restore",
    "restore",
    "Restored",
    in_state("deactivated"),
    effect="The user is active again.",
    part="users.restore",
)

USERS = Resource(
    kind="users",
    key="4",
    title="Users",
    short="Users",
    singular="user",
    path="/api/users",
    id_prefix="usr_",
    columns=(
        Column("name", 14, lambda r, _n: text_of(r, "name"), grow=1),
        Column("email", 16, lambda r, _n: text_of(r, "email"), grow=1),
        Column("role", 6, lambda r, _n: text_of(r, "role")),
        Column("status", 13, lambda r, _n: status_of(r, _LOOKS)),
        Column("created (UTC)", 19, lambda r, _n: time_of(r, "created"), by="created", rank=1),
        Column("id", 30, lambda r, _n: text_of(r, "id", "dim"), rank=2),
    ),
    detail=_user_detail,
    filters=(choice("role", _ROLES, "admin"),),
    form=Form(
        title="New user",
        done="exists",
        fields=(
            Field("name", "Name", hint="such as Ada Lovelace"),
            Field("email", "Email", hint="such as ada@example.com"),
            Field("role", "Role", "choice", choices=tuple((role, role) for role in _ROLES)),
        ),
    ),
    actions=(
        ResourceAction(
            "deactivate",
            "deactivate",
            "Deactivated",
            in_state("active", None),
            "DELETE",
            final=True,
            effect="The user can place no orders. For 30 days the user can be restored; then the name "
            "and the email are erased.",
            way_back=RESTORE,
        ),
        RESTORE,
    ),
    more=More(_read_orders, _orders_section, "orders", _to_orders),
    changes=True,
    empty="No users here.",
    invites="Press n to create one.",
)


ORDER_LOOKS: Mapping[str, tuple[str, Tone]] = {
    "open": ("○", "accent"),
    "paid": ("◐", "plus"),
    "shipped": ("●", "dim"),
}

_STATE_TIMES = {"open": "created", "paid": "paid_at", "shipped": "shipped_at"}


def _amount(amount: int, currency: str | None) -> str:
    # An order has the currency of its items. If the items name no currency, show a number of smallest units.
    has_decimals = currency is not None and decimals(currency) is not None
    return format_amount(amount, currency) if has_decimals else localised(f"{amount:,}")


def _total(record: Record, _names: AccountNames) -> Cell:
    total = record.get("total")
    return Cell(_amount(total, currency_of(record))) if isinstance(total, int) else text_of(record, "total")


def _currency(record: Record, _names: AccountNames) -> Cell:
    return Cell(literal(currency_of(record) or ""), "dim")


def _items(record: Record) -> list[object]:
    items = record.get("items")
    return items if isinstance(items, list) else []


def _item_facts(number: int, item: object, currency: str | None) -> list[Fact]:
    """Return the facts of an order's item: `2 × 12.50 Beans`, then one line for each other field."""
    if not isinstance(item, dict):
        return [Fact(f"{number}", Cell(literal(item)))]
    known = {name: item[name] for name in ("quantity", "unit_amount") if isinstance(item.get(name), int)}
    writers = {"quantity": lambda value: f"{value:,}", "unit_amount": lambda value: _amount(value, currency)}
    label = " × ".join(writers[name](value) for name, value in known.items()) or f"{number}"
    facts = [Fact(label, text_of(item, "name"))]
    names_shown = {"name", *known} | ({"currency"} if currency else set())
    rest = (name for name in item if name not in names_shown)
    return facts + [Fact("", Cell(f"{literal(name)} {literal(item[name])}", "dim")) for name in rest]


def _user(record: Record, names: AccountNames) -> Cell:
    name = names.user(record.get("user_id"))
    return Cell(literal(name)) if name else text_of(record, "user_id", "dim")


def _order_detail(record: Record, names: AccountNames) -> Detail:
    currency, total = currency_of(record), _total(record, names)
    facts = (
        Fact("total", Cell(f"{total.text} {literal(currency)}") if currency else total),
        Fact("user", _user(record, names)),
        *facts_of(record, "created"),
    )
    items = _items(record)
    numbered_items = enumerate(items, 1)
    lines = tuple(fact for number, item in numbered_items for fact in _item_facts(number, item, currency))
    return Detail(
        headline=Cell(f"Order of {len(items)} item{'s' if len(items) != 1 else ''}", "strong"),
        sections=(lifecycle(record, ORDER_LOOKS, _STATE_TIMES), Section("", facts), Section("items", lines)),
        links=(Link("Its user", "users", record_id=str(record.get("user_id"))), *to_events(record)),
    )


ORDERS = Resource(
    kind="orders",
    key="5",
    title="Orders",
    short="Orders",
    singular="order",
    path="/api/orders",
    id_prefix="ord_",
    columns=(
        Column("created (UTC)", 19, lambda r, _n: time_of(r, "created"), by="created", rank=1),
        Column("status", 9, lambda r, _n: status_of(r, ORDER_LOOKS)),
        Column("total", 9, _total, align="right"),
        Column("cur", 3, _currency),
        Column("items", 5, lambda r, _n: Cell(str(len(_items(r))), "dim"), align="right"),
        Column("user", 12, _user, grow=1),
        Column("id", 30, lambda r, _n: text_of(r, "id", "dim"), rank=2),
    ),
    detail=_order_detail,
    filters=(
        choice("status", [*ORDER_LOOKS], "open"),
        Filter(
            "user", "user", "Ada", user=True, matches=lambda r, value, _context: r.get("user_id") == value
        ),
    ),
    form=Form(
        title="Place an order",
        done="is placed",
        fields=(
            Field("user_id", "User", "user", hint="↓ or part of a name or email, or an id"),
            Field("items", "Items", "items", hint="such as 2 x Beans @ 12.50 EUR; Filter"),
        ),
    ),
    actions=(
        ResourceAction(
            "pay_order",
            "pay",
            "Paid",
            in_state("open"),
            verb="pay",
            final=True,
            effect="Afterwards it can be shipped. No account is credited.",
        ),
        ResourceAction(
            "ship",
            "ship",
            "Shipped",
            in_state("paid"),
            after="pay_order",
            final=True,
            effect="A shipped order stays shipped.",
        ),
    ),
    changes=True,
    object_part="orders.one",
    names_users=True,
    empty="No orders here.",
    invites="Press n to place one.",
)
