"""The screen of the API keys of the project and mode: create, roll, revoke.

The dashboard shows the value of a key once and never stores it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import (
    Cell,
    Column,
    Detail,
    Fact,
    Field,
    Form,
    Resource,
    ResourceAction,
    Section,
    Tone,
)
from ledger_tui.resources.cells import facts_of, text_of, time_of

SCOPES = ("read:projects", "write:projects", "read:users", "admin:billing")
_ROLES = ("member", "admin", "owner")  # the first is chosen at first, because it has the fewest rights
_STATES: Mapping[bool, tuple[str, Tone]] = {True: ("✕ revoked", "minus"), False: ("● active", "plus")}


def _status(record: Record) -> Cell:
    return Cell(*_STATES[record.get("revoked_at") is not None])


def _value(record: Record) -> Cell:
    """Return the public part of a key: its kind and its last four characters."""
    last = record.get("last4")
    if not isinstance(last, str):
        return Cell("–", "dim")
    prefix = {True: "sk_live_", False: "sk_test_"}.get(record.get("livemode") is True, "")
    return Cell(f"{prefix}…{literal(last)}", "dim")


def scopes_of(record: Record) -> Cell:
    """Return the scopes of a restricted credential, or `all` for any other credential."""
    scopes = record.get("scopes")
    if scopes is None:
        return Cell("all", "dim")
    return Cell(" ".join(map(literal, scopes)) if isinstance(scopes, list) else literal(scopes))


def _detail(record: Record, _names: AccountNames) -> Detail:
    facts = [
        Fact("status", _status(record)),
        Fact("value", _value(record)),
        Fact("role", text_of(record, "role")),
        Fact("scopes", scopes_of(record)),
        *facts_of(record, "created", "revoked_at"),
    ]
    name = record.get("name")
    return Detail(Cell(literal(name) if name else "API key", "strong"), (Section("", tuple(facts)),))


_REVOKED = "The key is revoked."


def _is_active(record: Record) -> bool:
    return record.get("revoked_at") is None


API_KEYS = Resource(
    kind="api_keys",
    key="9",
    title="API keys",
    short="Keys",
    singular="API key",
    path="/v1/api_keys",
    id_prefix="key_",
    columns=(
        Column("name", 12, lambda r, _n: text_of(r, "name"), grow=1),
        Column("status", 9, lambda r, _n: _status(r)),
        Column("value", 13, lambda r, _n: _value(r)),
        Column("role", 6, lambda r, _n: text_of(r, "role")),
        Column("scopes", 14, lambda r, _n: scopes_of(r), grow=1),
        Column("created (UTC)", 19, lambda r, _n: time_of(r, "created"), by="created", rank=1),
        Column("id", 30, lambda r, _n: text_of(r, "id", "dim"), rank=2),
    ),
    detail=_detail,
    form=Form(
        title="New API key",
        done="is active",
        fields=(
            Field("name", "Name", required=False, hint="what it is for"),
            Field("role", "Role", "choice", choices=tuple((role, role) for role in _ROLES)),
            Field("scopes", "Scopes", "words", required=False, hint="all, or read:projects read:users …"),
        ),
        shows_once="key",
    ),
    actions=(
        ResourceAction(
            "roll",
            "roll",
            "Rolled",
            _is_active,
            final=True,
            effect="A new key is shown once. Programs with the old key are refused at once.",
            creates=True,
            shows_once="key",
            why_not=_REVOKED,
        ),
        ResourceAction(
            "revoke",
            "revoke",
            "Revoked",
            _is_active,
            "DELETE",
            final=True,
            effect="Programs with this key are refused at once.",
            why_not=_REVOKED,
        ),
    ),
    changes=True,
    has_object_path=False,
    part="api_keys",
    missing_text="This server does not show its API keys; they are managed in its own dashboard.",
    empty="No API keys here.",
    invites="Press n to create one.",
)
