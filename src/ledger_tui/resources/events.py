"""The webhook log: events as they happen, their signatures checked, with their deliveries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import EVENT_TYPES, Record
from ledger_tui.formats.money import MINUS, format_amount
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import (
    KIND_OF_OBJECT,
    Action,
    Cell,
    Column,
    Detail,
    Fact,
    Filter,
    Link,
    RelatedView,
    Resource,
    Section,
    Tone,
    clock_of,
    currency_of,
    facts_of,
    text_of,
    to_delivery,
)
from ledger_tui.resources.drawings import body_section
from ledger_tui.resources.endpoints import LOOKS, answer_sections, attempt_facts, attempts_of, sent_sections
from ledger_tui.resources.filtering import choice

KEPT = 5_000


class Listening(Enum):
    """The state of the connection to the stream of events."""

    OFF = "off"
    CONNECTING = "connecting"
    ON = "listening"
    LOST = "lost"
    NOT_OFFERED = "not offered"


class WebhookLog:
    """The log that the stream and the reader of deliveries fill, and the list of events shows."""

    def __init__(self) -> None:
        self.listening = Listening.OFF
        self.received = 0
        self.wrong = 0
        self.endpoints: dict[str, Record] = {}
        self._signed: dict[str, bool] = {}
        self._deliveries: dict[str, dict[str, Record]] = {}

    def forget(self) -> None:
        """Forget all events and deliveries; whether it listens stays known."""
        self.received = self.wrong = 0
        for known in (self.endpoints, self._signed, self._deliveries):
            known.clear()

    def note_signature(self, event_id: str, valid: bool) -> bool:
        """Note that an event was received and its signature checked; False if it was received before."""
        if event_id in self._signed:
            return False
        self.received += 1
        self.wrong += not valid
        self._signed[event_id] = valid
        _trim(self._signed)
        return True

    def signed(self, event_id: object) -> bool | None:
        """Return whether the event's signature was valid; None if it was read from the list."""
        return self._signed.get(event_id) if isinstance(event_id, str) else None

    def note_deliveries(self, deliveries: Iterable[Record]) -> None:
        """Note the present state of deliveries."""
        for delivery in deliveries:
            event, endpoint = delivery.get("event"), delivery.get("endpoint")
            if isinstance(event, str) and isinstance(endpoint, str):
                self._deliveries.setdefault(event, {})[endpoint] = delivery
        _trim(self._deliveries)

    def deliveries(self, event_id: object) -> list[Record]:
        """Return the known deliveries of the event."""
        return [*self._deliveries.get(event_id, {}).values()] if isinstance(event_id, str) else []


def _trim(known: dict[str, object] | dict[str, bool] | dict[str, dict[str, Record]]) -> None:
    """Forget the oldest entries: a dictionary keeps its keys in the order they were added."""
    while len(known) > KEPT:
        del known[next(iter(known))]


def subject(event: Mapping[str, Any]) -> Record:
    """Return the object of an event, as it was then."""
    data = event.get("data")
    inner = data.get("object") if isinstance(data, dict) else None
    return inner if isinstance(inner, dict) else {}


_KINDS: Mapping[str, Tone] = {"paid": "plus", "voided": "minus", "deactivated": "minus", "shipped": "accent"}


def _type(record: Record) -> Cell:
    kind = str(record.get("type", "–"))
    return Cell(literal(kind), _KINDS.get(kind.rpartition(".")[2], "plain"))


def summary(about: Record, names: AccountNames) -> Cell:
    """Return the object of an event in a few words, whatever kind it is."""
    parts = known_by(about, names)
    return Cell("  ".join(parts)) if parts else text_of(about, "id", "dim")


def known_by(about: Record, names: AccountNames) -> list[str]:
    """Return what people know an object by: its amount, its names, the number of its items."""
    parts: list[str] = []
    amount = next((about[name] for name in ("amount", "total") if isinstance(about.get(name), int)), None)
    currency = currency_of(about, names)
    if amount is not None:
        sign = {"debit": MINUS, "credit": "+"}.get(str(about.get("type")), "")
        known = isinstance(currency, str)
        text = format_amount(amount, currency) if known else f"{amount:,}"
        parts.append(f"{sign}{text} {literal(currency)}" if known else sign + text)
    for name in ("number", "name", "customer", "description", "email"):
        if isinstance(about.get(name), str):
            parts.append(literal(about[name]))
            if len(parts) > 2:
                break
    items = about.get("items")
    if isinstance(items, list):
        parts.append(f"{len(items)} item{'s' if len(items) != 1 else ''}")
    return parts


def _signature(record: Record, log: WebhookLog, *, long: bool = False) -> Cell:
    valid = log.signed(record.get("id"))
    if valid is None:
        return Cell("– not checked: read from the list" if long else "–", "dim")
    if valid:
        return Cell("✓ valid" if long else "✓", "plus")
    return Cell("✗ WRONG: not signed with this stream's secret" if long else "✗ BAD", "bad")


def _delivered(record: Record, log: WebhookLog) -> Cell:
    """Return `✓ 2/2` or `◔ 0/1`: how many endpoints received it; a dash when none is known to get it."""
    deliveries = log.deliveries(record.get("id"))
    if not deliveries:
        return Cell("–", "dim")
    states = [str(delivery.get("status")) for delivery in deliveries]
    worst = next((state for state in ("failed", "pending") if state in states), "succeeded")
    glyph, tone = LOOKS[worst]
    tries = max(len(attempts_of(delivery)) for delivery in deliveries)
    again = f" ×{tries}" if tries > 1 else ""
    return Cell(f"{glyph} {states.count('succeeded')}/{len(states)}{again}", tone)


def _delivery_sections(record: Record, log: WebhookLog) -> list[Section]:
    sections: list[Section] = []
    for delivery in log.deliveries(record.get("id")):
        endpoint = str(delivery.get("endpoint"))
        url = log.endpoints.get(endpoint, {}).get("url", endpoint)
        glyph, tone = LOOKS.get(str(delivery.get("status")), ("·", "plain"))
        to = Fact("sent to", Cell(literal(url)))
        state = Fact("delivery", Cell(f"{glyph} {literal(delivery.get('status', ''))}", tone))
        sections.append(Section("", (to, state, *attempt_facts(delivery))))
    return sections


def _filters(log: WebhookLog) -> tuple[Filter, ...]:
    """Return the filters of the log. No server has them: they select among the loaded events."""

    def of_type(record: Record, value: str, _names: AccountNames) -> bool:
        kind = str(record.get("type"))
        return kind == value or kind.startswith(f"{value.removesuffix('*').removesuffix('.')}.")

    def sent_to(record: Record, value: str, _names: AccountNames) -> bool:
        ids = (str(delivery.get("endpoint")) for delivery in log.deliveries(record.get("id")))
        return any(value == id_ or value in str(log.endpoints.get(id_, {}).get("url")) for id_ in ids)

    def failed(record: Record, value: str, _names: AccountNames) -> bool:
        return any(map(_has_failed, log.deliveries(record.get("id")))) == (value == "yes")

    def urls() -> list[str]:
        return [str(endpoint.get("url")) for endpoint in log.endpoints.values()]

    return (
        Filter("type", "type", "invoice.paid", matches=of_type, suggests=lambda: EVENT_TYPES),
        Filter("endpoint", "endpoint", "example.com", matches=sent_to, suggests=urls),
        choice("failed", ("yes", "no"), "yes", matches=failed),
    )


def _has_failed(delivery: Record) -> bool:
    """Return whether a delivery failed, for good or in its last attempt."""
    attempts = attempts_of(delivery)
    return delivery.get("status") == "failed" or bool(attempts and attempts[-1].get("error") is not None)


def events_resource(log: WebhookLog) -> Resource:
    """Return the screen of events, with what `log` knows of them."""

    def detail(record: Record, names: AccountNames) -> Detail:
        about = subject(record)
        facts = (
            Fact("signature", _signature(record, log, long=True)),
            Fact("about", summary(about, names)),
            Fact("", text_of(about, "id", "dim")),
            *facts_of(record, "created", "request", "mode", "id"),
        )
        sections = [
            Section("", facts),
            *_delivery_sections(record, log),
            body_section("object", about),
        ]
        for delivery in log.deliveries(record.get("id"))[:1]:
            sections += [*answer_sections(delivery), *sent_sections(delivery)]
        screen = KIND_OF_OBJECT.get(str(about.get("object")))
        links = []
        if screen is not None and isinstance(about.get("id"), str):
            links.append(Link(f"The {literal(about['object'])}", screen, record_id=about["id"]))
        if isinstance(request := record.get("request"), str):
            links.append(Link("The request that caused it", "requests", record_id=request))
        for delivery in log.deliveries(record.get("id")):
            endpoint = str(delivery.get("endpoint"))
            links.append(to_delivery(delivery, str(log.endpoints.get(endpoint, {}).get("url", endpoint))))
        return Detail(Cell(literal(record.get("type", "")), "strong"), tuple(sections), tuple(links))

    return Resource(
        kind="events",
        key="7",
        title="Webhooks",
        short="Hooks",
        singular="event",
        path="/v1/events",
        id_prefix="evt_",
        paging="cursor",
        columns=(
            Column("time (UTC)", 14, lambda r, _n: clock_of(r, "created"), by="created"),
            Column("signed", 6, lambda r, _n: _signature(r, log)),
            Column("event", 19, lambda r, _n: _type(r)),
            Column("sent", 8, lambda r, _n: _delivered(r, log)),
            Column("about", 12, lambda r, n: summary(subject(r), n), grow=1, easy=24),
            Column("id", 30, lambda r, _n: text_of(r, "id", "dim"), rank=2),
        ),
        detail=detail,
        actions=(Action("resend", "s", "resend", "Sending again", creates=True),),
        filters=_filters(log),
        related=(RelatedView("endpoints", "e", "endpoints", lambda _r, _f: Link("", "webhook_endpoints")),),
        part="events",
        account_ids=lambda record: (subject(record).get("account"),),
        missing_text="This server shows no events.",
        empty="No events yet.",
    )


EVENTS = events_resource(WebhookLog())
