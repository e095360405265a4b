"""The screen of webhook endpoints, to which events are sent."""

from __future__ import annotations

from collections.abc import Mapping

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
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
    RelatedView,
    Resource,
    Section,
    Tone,
    facts_of,
    in_state,
    status_of,
    text_of,
    time_of,
)

_LOOKS: Mapping[str, tuple[str, Tone]] = {"enabled": ("●", "plus"), "disabled": ("✕", "minus")}
_REASONS = {
    "asked": "by hand",
    "gone": "the receiver answered 410 Gone",
    "failing": "every attempt failed for five days",
}


def _events(record: Record) -> Cell:
    kinds = record.get("events")
    if not isinstance(kinds, list):
        return text_of(record, "events", "dim")
    return Cell("all", "dim") if kinds == ["*"] else Cell(" ".join(map(literal, kinds)), "dim")


def _detail(record: Record, _names: AccountNames) -> Detail:
    facts = [
        Fact("status", status_of(record, _LOOKS)),
        Fact("events", _events(record)),
        *facts_of(record, "created", "mode", "id"),
    ]
    if (reason := record.get("disabled_reason")) is not None:
        facts.insert(1, Fact("why", Cell(_REASONS.get(str(reason), literal(reason)))))
        facts.insert(2, Fact("since", time_of(record, "disabled_at")))
    return Detail(
        Cell(literal(record.get("url", "")), "strong"),
        (Section("", tuple(facts)),),
        (_to_deliveries(record),),
    )


def _to_deliveries(record: Record) -> Link:
    return Link("Its deliveries", "deliveries", filters={"endpoint": str(record.get("id"))})


ENDPOINTS = Resource(
    kind="webhook_endpoints",
    title="Webhook endpoints",
    singular="webhook endpoint",
    path="/v1/webhook_endpoints",
    id_prefix="whe_",
    paging="cursor",
    columns=(
        Column("url", 24, lambda r, _n: text_of(r, "url"), grow=2),
        Column("status", 10, lambda r, _n: status_of(r, _LOOKS)),
        Column("events", 12, lambda r, _n: _events(r), grow=1),
        Column("created (UTC)", 19, lambda r, _n: time_of(r, "created"), by="created", rank=1),
        Column("id", 30, lambda r, _n: text_of(r, "id", "dim"), rank=2),
    ),
    detail=_detail,
    form=Form(
        title="New webhook endpoint",
        done="Registered",
        fields=(
            Field("url", "URL", hint="https://example.com/hooks"),
            Field("events", "Events", "words", hint="* or invoice.paid order.paid …"),
        ),
        prefill=lambda _record, _filters: {"events": "*"},
        shows_once="secret",
    ),
    actions=(
        Action(
            "roll_secret",
            "L",
            "roll secret",
            "Rolled the secret of",
            final=True,
            asks="Roll the secret of",
            creates=True,
            shows_once="secret",
        ),
        Action("disable", "d", "disable", "Disabled", in_state("enabled"), final=True),
        Action("enable", "u", "enable", "Enabled", in_state("disabled")),
        Action("delete_endpoint", "v", "delete", "Deleted", method="DELETE", final=True),
    ),
    related=(RelatedView("deliveries", "s", "deliveries", lambda r, _f: _to_deliveries(r) if r else None),),
    changes=True,
    part="webhook_endpoints",
    missing_text="This server does not show its webhook endpoints.",
    empty="No webhook endpoints.",
    invites="Press n to register one.",
    under="events",
)
