"""The screen of the directory's users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from ledger_tui.client.api import Api
from ledger_tui.client.errors import NotOffered
from ledger_tui.client.lists import fetch_page
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record, Want
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import (
    Action,
    Cell,
    Column,
    Detail,
    Fact,
    Field,
    Form,
    Link,
    More,
    Resource,
    Section,
    Tone,
    facts_of,
    in_state,
    part_of_time,
    status_of,
    text_of,
    time_of,
    to_events,
)
from ledger_tui.resources.filtering import choice

_LOOKS: Mapping[str, tuple[str, Tone]] = {"active": ("●", "plus"), "deactivated": ("✕", "minus")}
_ORDERS_READ, _ORDERS_SHOWN = 100, 10
_BY_USER = "users.orders"  # the part beyond the contract
_ROLES = ("member", "admin", "owner")


def _detail(record: Record, _names: AccountNames) -> Detail:
    name = text_of(record, "name")
    facts = [
        Fact("status", status_of(record, _LOOKS)),
        *facts_of(record, "email", "role", "created", "deactivated_at", "mode", "id"),
    ]
    return Detail(Cell(name.text, "strong"), (Section("", tuple(facts)),), to_events(record))


class Orders(NamedTuple):
    """The orders of a user: the newest ones, or with `of_all` those among the newest of all users."""

    rows: Sequence[Record]
    more: bool = False
    of_all: bool = False


async def _read_orders(api: Api, user: Record) -> Orders:
    """Return the user's newest orders, or those among the newest of all where no list has a user's alone."""
    want = Want(0, "page", 0, None, _ORDERS_READ)
    path = f"/api/users/{quote(str(user.get('id')), safe='')}/orders"
    if _BY_USER not in api.session.missing_parts:
        try:
            found = await fetch_page(api, path, "cursor", {}, want, _BY_USER)
        except NotOffered:
            pass
        else:
            return Orders(found.rows, found.older is not None)
    page = await fetch_page(api, "/api/orders", "cursor", {}, want)
    rows = [order for order in page.rows if order.get("user_id") == user.get("id")]
    return Orders(rows, of_all=True)


def _orders_section(_user: Record, orders: Orders, _names: AccountNames) -> tuple[Section, ...]:
    found = f"{len(orders.rows) or 'none'}{'+' if orders.more else ''}"
    if orders.of_all:
        found += f" among the newest {_ORDERS_READ}"
    return (Section("", (Fact("orders", Cell(found, "plain" if orders.rows else "dim")),)),)


def _to_orders(_user: Record, orders: Orders) -> tuple[Link, ...]:
    return tuple(
        Link(
            f"Order of {part_of_time(order, 'created', 0, 16)}, {literal(order.get('status', '?'))}",
            "orders",
            record_id=str(order.get("id")),
        )
        for order in orders.rows[:_ORDERS_SHOWN]
    )


USERS = Resource(
    kind="users",
    key="4",
    title="Users",
    short="Users",
    singular="user",
    path="/api/users",
    id_prefix="usr_",
    paging="page",
    columns=(
        Column("name", 14, lambda r, _n: text_of(r, "name"), grow=1),
        Column("email", 16, lambda r, _n: text_of(r, "email"), grow=1),
        Column("role", 6, lambda r, _n: text_of(r, "role")),
        Column("status", 13, lambda r, _n: status_of(r, _LOOKS)),
        Column("created (UTC)", 19, lambda r, _n: time_of(r, "created"), by="created", rank=1),
        Column("id", 30, lambda r, _n: text_of(r, "id", "dim"), rank=2),
    ),
    detail=_detail,
    filters=(choice("role", _ROLES, "admin"),),
    form=Form(
        title="New user",
        done="Created",
        fields=(
            Field("name", "Name", hint="Ada Lovelace"),
            Field("email", "Email", hint="ada@example.com"),
            Field("role", "Role", "choice", choices=tuple((role, role) for role in _ROLES)),
        ),
    ),
    actions=(
        Action(
            "deactivate", "d", "deactivate", "Deactivated", in_state("active", None), "DELETE", final=True
        ),
        Action("restore", "u", "restore", "Restored", in_state("deactivated")),
    ),
    more=More(_read_orders, _orders_section, "orders", _to_orders),
    changes=True,
    empty="No users here.",
    invites="Press n to create one.",
)
