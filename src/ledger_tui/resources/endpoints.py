"""The screens of webhook endpoints, to which events are sent, and of the deliveries to each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

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
    Filter,
    Form,
    Link,
    RelatedView,
    Resource,
    Section,
    Tone,
    facts_of,
    in_state,
    part_of_time,
    records_of,
    status_of,
    text_of,
    time_of,
)
from ledger_tui.resources.drawings import body_section

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


LOOKS: Mapping[str, tuple[str, Tone]] = {
    "pending": ("◔", "accent"),
    "succeeded": ("✓", "plus"),
    "failed": ("✕", "bad"),
}
_BODIES_SHOWN = 3  # attempts whose answers are shown in full


def attempts_of(delivery: Record) -> list[Record]:
    """Return the attempts that were made, in their order."""
    return records_of(delivery.get("attempts"))


def _attempt_fact(attempt: Record) -> Fact:
    """Return `2026-11-20 06:37:26 ✓ 200  12 ms`, or why there was no answer."""
    status, error = attempt.get("status"), attempt.get("error")
    went = f"✕ {literal(error)}" if error is not None else f"✓ {literal(status)}"
    if error is not None and status is not None and literal(status) not in went:
        went += f" ({literal(status)})"
    time = part_of_time(attempt, "attempted_at", 11)
    text = f"{time} {went}  {literal(attempt.get('latency_ms', '–'))} ms"
    return Fact(f"attempt {literal(attempt.get('number', ''))}", Cell(text, "bad" if error else "plus"))


def attempt_facts(delivery: Record) -> list[Fact]:
    """Return one line per attempt, and when the next one is due."""
    facts = [_attempt_fact(attempt) for attempt in attempts_of(delivery)]
    if delivery.get("status") == "pending":
        due = delivery.get("next_attempt_at")
        facts.append(Fact("next", time_of(delivery, "next_attempt_at") if due else Cell("now", "dim")))
    return facts


def _part(attempt: Record, name: str) -> Mapping[str, Any]:
    part = attempt.get(name)
    return part if isinstance(part, dict) else {}


def answer_sections(delivery: Record) -> list[Section]:
    """Return the answers to the latest attempts, the newest first."""
    sections: list[Section] = []
    for attempt in attempts_of(delivery)[: -_BODIES_SHOWN - 1 : -1]:
        title = f"answer to attempt {literal(attempt.get('number', ''))}"
        sections += _message(title, _part(attempt, "response"))
    return sections


def sent_sections(delivery: Record) -> list[Section]:
    """Return what was sent, which is the same for each attempt but for its headers."""
    attempts = attempts_of(delivery)
    return _message("sent", _part(attempts[-1], "request")) if attempts else []


def _message(title: str, message: Mapping[str, Any]) -> list[Section]:
    """Return the body of a request or an answer, and the names of its headers, which `J` shows in full."""
    headers = message.get("headers")
    sections = [body_section(title, message.get("body"))]
    if isinstance(headers, dict) and headers:
        facts = (Fact(f"{len(headers)} headers", Cell(", ".join(map(literal, headers)), "dim")),)
        sections.append(Section("" if message.get("body") else title, facts))
    return sections


def _last_status(record: Record) -> Cell:
    attempts = attempts_of(record)
    if not attempts:
        return Cell("–", "dim")
    if (error := attempts[-1].get("error")) is not None:
        return Cell(literal(error), "bad")
    return Cell(literal(attempts[-1].get("status")), "dim")


def _delivery_detail(record: Record, _names: AccountNames) -> Detail:
    last = _last_status(record)
    state = (
        Fact("status", status_of(record, LOOKS)),
        *([Fact("reason", last)] if last.tone == "bad" else []),
        *attempt_facts(record),
    )
    facts = tuple(facts_of(record, "created", "event", "endpoint", "id"))
    return Detail(
        Cell(literal(record.get("event_type", "")), "strong"),
        (Section("", state), *answer_sections(record), Section("", facts), *sent_sections(record)),
        (
            Link("Its event", "events", record_id=str(record.get("event"))),
            Link("Its endpoint", "webhook_endpoints", record_id=str(record.get("endpoint"))),
        ),
    )


def _resend_path(record: Record) -> str:
    event, endpoint = (quote(str(record.get(name)), safe="") for name in ("event", "endpoint"))
    return f"/v1/events/{event}/resend?endpoint={endpoint}"


DELIVERIES = Resource(
    kind="deliveries",
    title="Deliveries",
    singular="delivery",
    path="/v1/webhook_endpoints/{endpoint}/deliveries",
    id_prefix="dlv_",
    paging="cursor",
    columns=(
        Column("created (UTC)", 19, lambda r, _n: time_of(r, "created"), by="created"),
        Column("status", 11, lambda r, _n: status_of(r, LOOKS)),
        Column("event", 18, lambda r, _n: text_of(r, "event_type"), grow=1),
        Column("tries", 5, lambda r, _n: Cell(str(len(attempts_of(r))), "dim"), align="right"),
        Column("last", 10, lambda r, _n: _last_status(r), grow=1),
        Column("next (UTC)", 19, lambda r, _n: time_of(r, "next_attempt_at"), by="next_attempt_at", rank=1),
        Column("id", 30, lambda r, _n: text_of(r, "id", "dim"), rank=2),
    ),
    detail=_delivery_detail,
    filters=(Filter("endpoint", "endpoint", "whe_…"),),
    actions=(Action("resend_delivery", "s", "resend", "Sending again", target=_resend_path, creates=True),),
    changes=True,
    has_object_path=False,
    part="deliveries",
    missing_text="This server does not show its deliveries.",
    empty="Nothing was sent to this endpoint yet.",
    under="events",
)
