"""The screen of webhook endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

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
    Link,
    RelatedView,
    Resource,
    ResourceAction,
    Section,
    Tone,
    in_state,
)
from ledger_tui.resources.cells import facts_of, status_of, text_of, time_of
from ledger_tui.resources.deliveries import LOOKS

_LOOKS: Mapping[str, tuple[str, Tone]] = {"enabled": ("●", "plus"), "disabled": ("✕", "minus")}
_REASONS = {
    "asked": "by hand",
    "gone": "the receiver answered 410 Gone",
    "failing": "every attempt failed for five days",
}


def events_of(record: Record) -> Cell:
    """Return the types of events that an endpoint receives, or `all`."""
    kinds = record.get("events")
    if not isinstance(kinds, list):
        return text_of(record, "events", "dim")
    return Cell("all", "dim") if kinds == ["*"] else Cell(" ".join(map(literal, kinds)), "dim")


def _detail(record: Record, _names: AccountNames) -> Detail:
    facts = [
        Fact("status", status_of(record, _LOOKS)),
        Fact("events", events_of(record)),
        *facts_of(record, "created"),
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


_ENABLE = ResourceAction(
    "enable", "enable", "Enabled", in_state("disabled"), effect="It receives events again."
)
# This action has no key of its own, because the list shows no deleted endpoint.
_RESTORE = ResourceAction(
    "restore_endpoint",
    "restore",
    "Restored",
    verb="restore",
    effect="It receives events again, signed with a new secret that is shown once.",
    creates=True,
    shows_once="secret",
    part="webhook_endpoints.restore",
)

ENDPOINTS = Resource(
    kind="webhook_endpoints",
    title="Webhook endpoints",
    singular="webhook endpoint",
    path="/v1/webhook_endpoints",
    id_prefix="whe_",
    columns=(
        Column("url", 24, lambda r, _n: text_of(r, "url"), grow=2),
        Column("status", 10, lambda r, _n: status_of(r, _LOOKS)),
        Column("events", 12, lambda r, _n: events_of(r), grow=1),
        Column("created (UTC)", 19, lambda r, _n: time_of(r, "created"), by="created", rank=1),
        Column("id", 30, lambda r, _n: text_of(r, "id", "dim"), rank=2),
    ),
    detail=_detail,
    form=Form(
        title="New webhook endpoint",
        done="is registered",
        fields=(
            Field("url", "URL", hint="such as https://example.com/hooks"),
            Field("events", "Events", "words", hint="* or invoice.paid order.paid …"),
        ),
        prefill=lambda _record, _filters: {"events": "*"},
        shows_once="secret",
    ),
    actions=(
        ResourceAction(
            "roll_secret",
            "roll secret",
            "Given a new secret",
            final=True,
            asks="Roll the secret of",
            effect="A new secret is shown once. For 24 hours both secrets sign.",
            creates=True,
            shows_once="secret",
        ),
        ResourceAction(
            "disable",
            "disable",
            "Disabled",
            in_state("enabled"),
            final=True,
            effect="It receives no events until it is enabled.",
            way_back=_ENABLE,
        ),
        _ENABLE,
        ResourceAction(
            "delete_endpoint",
            "delete",
            "Deleted",
            method="DELETE",
            final=True,
            effect="It receives no events any more. For 30 days it can be restored, with a new secret.",
            way_back=_RESTORE,
        ),
    ),
    related=(RelatedView("deliveries", "deliveries", lambda r, _f: _to_deliveries(r) if r else None),),
    changes=True,
    part="webhook_endpoints",
    missing_text="This server does not show its webhook endpoints.",
    empty="No webhook endpoints.",
    invites="Press n to register one.",
    under="events",
)


class FailingEndpoints:
    """The endpoints whose newest attempted delivery has not arrived, as far as the dashboard knows."""

    def __init__(self) -> None:
        self._errors: dict[str, str] = {}  # the last error, by the endpoint's id

    def note(self, errors: Mapping[str, str]) -> bool:
        """Replace the failing endpoints and their last errors; return whether they have changed."""
        changed, self._errors = errors != self._errors, dict(errors)
        return changed

    def error_of(self, endpoint: Record) -> str | None:
        """Return the last error of an endpoint that is enabled and fails; otherwise None."""
        is_enabled = endpoint.get("status") == "enabled"
        return self._errors.get(str(endpoint.get("id"))) if is_enabled else None


def endpoints_resource(failing: FailingEndpoints) -> Resource:
    """Return the screen of endpoints, which marks the endpoints in `failing`."""

    def status(record: Record) -> Cell:
        if failing.error_of(record) is None:
            return status_of(record, _LOOKS)
        glyph, tone = LOOKS["failed"]
        return Cell(f"{glyph} failing", tone)

    def detail(record: Record, names: AccountNames) -> Detail:
        shown, error = _detail(record, names), failing.error_of(record)
        if error is None:
            return shown
        glyph, tone = LOOKS["failed"]
        last = Fact("last delivery", Cell(f"{glyph} {literal(error) or 'not delivered'}", tone))
        first = shown.sections[0]
        return replace(shown, sections=(replace(first, facts=(first.facts[0], last, *first.facts[1:])),))

    columns = (
        replace(each, cell=lambda r, _n: status(r)) if each.name == "status" else each
        for each in ENDPOINTS.columns
    )
    return replace(ENDPOINTS, columns=tuple(columns), detail=detail)
