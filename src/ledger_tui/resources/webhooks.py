"""The screens of webhooks: the deliveries to each endpoint, and a live log of events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any
from urllib.parse import quote

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import EVENT_TYPES, Record, attempts_of, records_of
from ledger_tui.formats.money import MINUS, format_amount
from ledger_tui.formats.text import fit, literal
from ledger_tui.resources.base import (
    Cell,
    Column,
    Detail,
    Fact,
    Filter,
    FilterContext,
    Link,
    RelatedView,
    Resource,
    ResourceAction,
    Section,
    Tone,
)
from ledger_tui.resources.cells import (
    clock_of,
    currency_of,
    facts_of,
    part_of_time,
    status_of,
    text_of,
    time_of,
)
from ledger_tui.resources.deliveries import LOOKS, filters_of
from ledger_tui.resources.drawings import body_section
from ledger_tui.resources.links import KIND_OF_OBJECT, to_delivery

_ANSWER_WIDTH = 60  # the number of cells of an answer that is shown in one line
_BODIES_SHOWN = 3  # the number of latest attempts whose answers are shown in full


def _attempt_fact(attempt: Record) -> Fact:
    """Return an attempt like `06:37:26 ✓ 200  12 ms`; for a failed attempt, with the error after `✕`."""
    status, error = attempt.get("status"), attempt.get("error")
    went = f"✕ {literal(error)}" if error is not None else f"✓ {literal(status)}"
    if error is not None and status is not None and literal(status) not in went:
        went += f" ({literal(status)})"
    time = part_of_time(attempt, "attempted_at", 11)
    text = f"{time} {went}  {literal(attempt.get('latency_ms', '–'))} ms"
    return Fact(f"attempt {literal(attempt.get('number', ''))}", Cell(text, "bad" if error else "plus"))


def answer_facts(delivery: Record) -> list[Fact]:
    """Return the receiver's newest answer in a line, such as `503 after 43 ms: “maintenance”`.

    Without an answer to the last attempt, return the reason for its failure, or nothing.
    """
    attempt = (attempts_of(delivery) or [{}])[-1]
    status, error = attempt.get("status"), attempt.get("error")
    if status is None:
        return [Fact("reason", Cell(literal(error), "bad"))] if error is not None else []
    text = f"{literal(status)} after {literal(attempt.get('latency_ms', '–'))} ms"
    body = _part(attempt, "response").get("body")
    if body not in (None, ""):
        shown = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        text += f": “{fit(literal(' '.join(shown.split())), _ANSWER_WIDTH).rstrip()}”"
    return [Fact("answer", Cell(text, "bad" if error is not None else "plus"))]


def attempt_facts(delivery: Record) -> list[Fact]:
    """Return one fact for each attempt and, if the delivery is pending, the time of the next attempt."""
    facts = [_attempt_fact(attempt) for attempt in attempts_of(delivery)]
    if delivery.get("status") == "pending":
        due = delivery.get("next_attempt_at")
        facts.append(Fact("next", time_of(delivery, "next_attempt_at") if due else Cell("now", "dim")))
    return facts


def _part(attempt: Record, name: str) -> Mapping[str, Any]:
    part = attempt.get(name)
    return part if isinstance(part, dict) else {}


def answer_sections(delivery: Record) -> list[Section]:
    """Return the sections with the answers to the latest attempts, the newest answer first."""
    sections: list[Section] = []
    for attempt in attempts_of(delivery)[: -_BODIES_SHOWN - 1 : -1]:
        title = f"answer to attempt {literal(attempt.get('number', ''))}"
        sections += _message(title, _part(attempt, "response"))
    return sections


def sent_sections(delivery: Record) -> list[Section]:
    """Return the sections with the request of the last attempt.

    The requests of the other attempts differ from this request only in their headers.
    """
    attempts = attempts_of(delivery)
    return _message("sent", _part(attempts[-1], "request")) if attempts else []


def _message(title: str, message: Mapping[str, Any]) -> list[Section]:
    """Return the sections with the body and the names of the headers of a request or an answer.

    The user can see the whole headers in the record's JSON, with the key J.
    """
    headers = message.get("headers")
    sections = [body_section(title, message.get("body"))]
    if isinstance(headers, dict) and headers:
        count = f"{len(headers)} header{'s' if len(headers) != 1 else ''}"
        facts = (Fact(count, Cell(", ".join(map(literal, headers)), "dim")),)
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
    sent = sent_sections(record)
    state = (
        Fact("status", status_of(record, LOOKS)),
        *answer_facts(record),
        *attempt_facts(record),
        # The answers can fill the pane, so name the part that begins below them.
        *([Fact("sent", Cell("see below the answers, PgDn", "dim"))] if sent else []),
    )
    facts = tuple(facts_of(record, "created"))
    return Detail(
        Cell(literal(record.get("event_type", "")), "strong"),
        (Section("", state), *answer_sections(record), Section("", facts), *sent),
        (
            Link("Its event", "events", record_id=str(record.get("event"))),
            Link("Its endpoint", "webhook_endpoints", record_id=str(record.get("endpoint"))),
        ),
    )


def _resend_result(answer: Record, event: str) -> str:
    """Return the result of a resend in sentences, with the skipped endpoints and the reasons."""
    sentences = [
        f"Nothing is sent to {literal(each.get('endpoint'))}: it is {literal(each.get('reason'))}"
        for each in records_of(answer.get("skipped"))
    ]
    if answer.get("data") == []:
        return ". ".join(sentences) or f"Nothing is sent: no endpoint receives {event}"
    return ". ".join([f"Sending {event} again", *sentences])


def _has_arrived(delivery: Record) -> bool:
    """Return whether an attempt has succeeded, even if the delivery was sent again later and is pending."""
    arrivals = (attempt.get("error", "") is None for attempt in attempts_of(delivery))
    return delivery.get("status") == "succeeded" or any(arrivals)


def _second_delivery_warning(deliveries: Iterable[Record], endpoints: Mapping[str, Record]) -> str:
    """Return a warning for each endpoint that has already received the event; "" if there is none."""
    ids = [str(each.get("endpoint")) for each in filter(_has_arrived, deliveries)]
    urls = [literal(endpoints.get(endpoint, {}).get("url", f"endpoint {endpoint}")) for endpoint in ids]
    return "\n".join(f"Already delivered to {url}: it receives the event a second time." for url in urls)


def _caution_of_delivery(delivery: Record) -> str:
    return "Already delivered: the receiver gets the event a second time." * _has_arrived(delivery)


def _resend_path(record: Record) -> str:
    event, endpoint = (quote(str(record.get(name)), safe="") for name in ("event", "endpoint"))
    return f"/v1/events/{event}/resend?endpoint={endpoint}"


DELIVERIES = Resource(
    kind="deliveries",
    title="Deliveries",
    singular="delivery",
    path="/v1/webhook_endpoints/{endpoint}/deliveries",
    id_prefix="dlv_",
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
    filters=(Filter("endpoint", "endpoint", "whe_…"), *filters_of(lambda delivery: (delivery,))),
    actions=(
        ResourceAction(
            "resend_delivery",
            "resend",
            "Sending again",
            target=_resend_path,
            caution=_caution_of_delivery,
            creates=True,
            result=_resend_result,
        ),
    ),
    changes=True,
    has_object_path=False,
    part="deliveries",
    missing_text="This server does not show its deliveries.",
    empty="Nothing was sent to this endpoint yet.",
    under="events",
)


KEPT = 5_000  # the maximum number of events whose signatures and deliveries the log keeps


class Listening(Enum):
    """The state of the connection to the stream of events."""

    OFF = "off"
    CONNECTING = "connecting"
    ON = "listening"
    LOST = "lost"
    NOT_OFFERED = "not offered"


class WebhookLog:
    """The signatures and the deliveries of the listed events, as far as the dashboard knows them.

    The dashboard checks signatures only of events from the stream. It reads the deliveries from the server.
    """

    def __init__(self) -> None:
        self.listening = Listening.OFF
        self.received = 0  # the number of events from the stream
        self.wrong = 0  # the number of these events whose signature is not valid
        self.endpoints: dict[str, Record] = {}  # by id
        self._signatures: dict[str, bool] = {}  # by the event's id: whether its signature is valid
        self._deliveries: dict[str, dict[str, Record]] = {}  # by the event's id, then the endpoint's id

    def forget(self) -> None:
        """Forget all events and deliveries, but keep the state of the connection."""
        self.received = self.wrong = 0
        for store in (self.endpoints, self._signatures, self._deliveries):
            store.clear()

    def note_signature(self, event_id: str, valid: bool) -> bool:
        """Note a received event and whether its signature is valid; return False if the event is not new."""
        if event_id in self._signatures:
            return False
        self.received += 1
        self.wrong += not valid
        self._signatures[event_id] = valid
        _trim(self._signatures)
        return True

    def signed(self, event_id: object) -> bool | None:
        """Return whether the event's signature was valid; None if the event did not come from the stream."""
        return self._signatures.get(event_id) if isinstance(event_id, str) else None

    def note_deliveries(self, deliveries: Iterable[Record]) -> None:
        """Store the present state of these deliveries."""
        for delivery in deliveries:
            event, endpoint = delivery.get("event"), delivery.get("endpoint")
            if isinstance(event, str) and isinstance(endpoint, str):
                self._deliveries.setdefault(event, {})[endpoint] = delivery
        _trim(self._deliveries)

    def deliveries(self, event_id: object) -> list[Record]:
        """Return the known deliveries of the event."""
        return [*self._deliveries.get(event_id, {}).values()] if isinstance(event_id, str) else []


def _trim(store: dict[str, object] | dict[str, bool] | dict[str, dict[str, Record]]) -> None:
    """Forget the oldest entries while there are more than `KEPT`.

    The oldest entries come first, because a dictionary keeps its keys in the order of insertion.
    """
    while len(store) > KEPT:
        del store[next(iter(store))]


def subject(event: Mapping[str, Any]) -> Record:
    """Return the object that an event is about, as it was at the time of the event; {} without an object."""
    data = event.get("data")
    inner = data.get("object") if isinstance(data, dict) else None
    return inner if isinstance(inner, dict) else {}


_KINDS: Mapping[str, Tone] = {"paid": "plus", "voided": "minus", "deactivated": "minus", "shipped": "accent"}


def _type(record: Record) -> Cell:
    kind = str(record.get("type", "–"))
    return Cell(literal(kind), _KINDS.get(kind.rpartition(".")[2], "plain"))


def summary(about: Record, names: AccountNames) -> Cell:
    """Return a few words about an object of any kind; if no words are known, its id."""
    parts = known_by(about, names)
    return Cell("  ".join(parts)) if parts else text_of(about, "id", "dim")


def known_by(about: Record, names: AccountNames) -> list[str]:
    """Return texts by which people recognise an object: its amount, its names, its number of items."""
    parts = amount_of(about, names)
    for name in ("number", "name", "customer", "description", "email"):
        if isinstance(about.get(name), str):
            parts.append(literal(about[name]))
            if len(parts) > 2:
                break
    return parts + items_of(about)


def amount_of(about: Record, names: AccountNames) -> list[str]:
    """Return the amount of an object with its currency; an empty list if the object has no amount."""
    amount = next((about[name] for name in ("amount", "total") if isinstance(about.get(name), int)), None)
    if amount is None:
        return []
    sign = {"debit": MINUS, "credit": "+"}.get(str(about.get("type")), "")
    currency = currency_of(about, names)
    if currency is None:
        return [f"{sign}{amount:,}"]
    return [f"{sign}{format_amount(amount, currency)} {literal(currency)}"]


def items_of(about: Record) -> list[str]:
    """Return the number of an order's items in words; an empty list for any other object."""
    items = about.get("items")
    return [f"{len(items)} item{'s' if len(items) != 1 else ''}"] if isinstance(items, list) else []


def _signature(record: Record, log: WebhookLog, *, long: bool = False) -> Cell:
    valid = log.signed(record.get("id"))
    if valid is None:
        return Cell("– not checked: read from the list" if long else "–", "dim")
    if valid:
        return Cell("✓ valid" if long else "✓", "plus")
    return Cell("✗ WRONG: not signed with this stream's secret" if long else "✗ BAD", "bad")


def _delivery_counts(record: Record, log: WebhookLog) -> Cell:
    """Return how many of the event's deliveries have succeeded, such as `✓ 2/2` or `◔ 0/1`.

    If a delivery has had several attempts, the largest number of attempts follows, such as `×3`. If no
    delivery is known, return a dash.
    """
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
        sections.append(Section("", (to, state, *answer_facts(delivery), *attempt_facts(delivery))))
    return sections


_EVENT_TYPE = re.compile(r"[a-z_]+(\.[a-z_]*)?\*?")


def _filters(log: WebhookLog) -> tuple[Filter, ...]:
    """Return the filters of the events. The server has no such filters, so the dashboard applies them."""

    def of_type(record: Record, value: str, _context: FilterContext) -> bool:
        kind = str(record.get("type"))
        return kind == value or kind.startswith(f"{value.removesuffix('*').removesuffix('.')}.")

    def check_type(value: str) -> str | None:
        return None if _EVENT_TYPE.fullmatch(value) else "An event's type is like invoice.paid or invoice.*"

    def sent_to(record: Record, value: str, _context: FilterContext) -> bool:
        ids = (str(delivery.get("endpoint")) for delivery in log.deliveries(record.get("id")))
        return any(value == id_ or value in str(log.endpoints.get(id_, {}).get("url")) for id_ in ids)

    def urls() -> list[str]:
        return [str(endpoint.get("url")) for endpoint in log.endpoints.values()]

    return (
        Filter("type", "type", "invoice.paid", check_type, matches=of_type, suggests=lambda: EVENT_TYPES),
        Filter("endpoint", "endpoint", "example.com", matches=sent_to, suggests=urls),
        *filters_of(lambda event: log.deliveries(event.get("id"))),
    )


def events_resource(log: WebhookLog) -> Resource:
    """Return the screen of events, which shows the signatures and deliveries from `log`."""

    def caution(record: Record) -> str:
        deliveries = log.deliveries(record.get("id"))
        if log.endpoints and not deliveries:
            return "Its deliveries are not known here: an endpoint may receive the event a second time."
        return _second_delivery_warning(deliveries, log.endpoints)

    def detail(record: Record, names: AccountNames) -> Detail:
        about = subject(record)
        facts = (
            Fact("signature", _signature(record, log, long=True)),
            Fact("about", summary(about, names)),
            *facts_of(record, "created"),
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
        columns=(
            Column("time (UTC)", 14, lambda r, _n: clock_of(r, "created"), by="created", rank=1, short=8),
            Column("signed", 6, lambda r, _n: _signature(r, log)),
            Column("event", 19, lambda r, _n: _type(r)),
            Column("sent", 8, lambda r, _n: _delivery_counts(r, log)),
            Column("about", 12, lambda r, n: summary(subject(r), n), grow=1, easy=20),
            Column("id", 30, lambda r, _n: text_of(r, "id", "dim"), rank=3),
        ),
        detail=detail,
        actions=(
            ResourceAction(
                "resend", "resend", "Sending again", caution=caution, creates=True, result=_resend_result
            ),
        ),
        filters=_filters(log),
        related=(RelatedView("endpoints", "endpoints", lambda _r, _f: Link("", "webhook_endpoints")),),
        part="events",
        account_ids=lambda record: (subject(record).get("account"),),
        missing_text="This server shows no events.",
        empty="No events yet.",
    )


EVENTS = events_resource(WebhookLog())
