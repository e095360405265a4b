"""A trace as a tree: each request with its changes, the events, the deliveries and their attempts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record, attempts_of
from ledger_tui.client.totals import moment
from ledger_tui.features.trace.reading import FieldChange, Trace, TraceStep, balance_before, changes, later
from ledger_tui.formats.money import format_amount
from ledger_tui.formats.text import fit, literal
from ledger_tui.resources.base import Cell, Link, Tone
from ledger_tui.resources.cells import currency_of, text_of, time_of
from ledger_tui.resources.deliveries import LOOKS
from ledger_tui.resources.links import KIND_OF_OBJECT
from ledger_tui.resources.webhooks import known_by, subject

_ID = re.compile(r"\b([a-z]{3}_)[0-9a-z]{14,}([0-9a-z]{6})\b")
_CHANGES_SHOWN = 12
_MONEY = ("amount", "total", "balance", "balance_after")
_WORDS = ("failed", "pending", "succeeded")
_ENDS: dict[str, Tone] = {"paid": "plus", "voided": "minus", "deactivated": "minus", "shipped": "accent"}

NodeKind = Literal["request", "object", "event", "delivery", "attempt", "note"]
Line = tuple[Cell, ...]


@dataclass(frozen=True)
class Node:
    """One entry of the tree. `line` is its text, `below` holds further lines under the text, and `time`
    stands to the left of the text.

    `kind` and `record` describe the object of the node, and `place` is the screen of the object. A node of
    the kind "note" has no object.
    """

    kind: NodeKind
    depth: int
    line: Line
    time: str = ""
    below: tuple[Line, ...] = ()
    place: str = ""
    record: Record | None = None
    gap: str = ""  # the time since the previous request, on a separate line above this node

    @property
    def record_id(self) -> str:
        return str((self.record or {}).get("id", ""))

    @property
    def link(self) -> Link | None:
        """Return the link to the object of the node; None for a note."""
        if self.record is None or self.kind == "note":
            return None
        return Link("", self.place, record_id=self.record_id)


def nodes_of(trace: Trace, names: AccountNames) -> list[Node]:
    """Return the nodes of the tree from top to bottom."""
    nodes: list[Node] = []
    if not trace.steps:
        nodes += _without_steps(trace, names)
    if trace.more_steps:
        nodes.append(_note(0, f"{_count(trace.more_steps, 'earlier request')} not shown"))
    before: str | None = None
    for step in trace.steps:
        start = _start_of(step)
        nodes.append(_request(step, start, before))
        nodes += _effects(trace, step, moment(start), names)
        before = start
    return nodes


def summary(trace: Trace) -> Line:
    """Return a line with the numbers of requests, objects, events, and deliveries by state in the trace."""
    if not trace.steps:
        return ()
    events = [event for step in trace.steps for event in step.events]
    objects = {str(subject(event).get("id")) for event in events}
    states = [str(delivery.get("status")) for delivery in trace.deliveries()]
    arrow = Cell(" ─▶ ", "dim")
    commands = sum(step.request_id is None for step in trace.steps)
    requests = len(trace.steps) - commands
    line = [
        *([Cell(f"● {_count(requests, 'request')}", "accent")] if requests else []),
        *([Cell(" ")] if requests and commands else []),
        *([Cell(f"○ {_count(commands, 'command')}", "dim")] if commands else []),
        arrow,
        Cell(f"◆ {_count(len(objects), 'object')}", "strong"),
        arrow,
        Cell(f"◇ {_count(len(events) + sum(step.more_events for step in trace.steps), 'event')}"),
    ]
    if states:
        line.append(arrow)
        line += [
            Cell(f"{LOOKS[word][0]} {states.count(word)} {word} ", LOOKS[word][1])
            for word in reversed(_WORDS)
            if word in states
        ]
    return tuple(line)


def title(trace: Trace, names: AccountNames) -> str:
    """Return the name that people use for the traced object."""
    record, kind = trace.record, trace.kind
    if kind == "requests":
        return f"{literal(record.get('method', ''))} {literal(record.get('path', ''))}"
    if kind in ("events", "deliveries"):
        name = "type" if kind == "events" else "event_type"
        what = {"events": "event", "deliveries": "delivery of"}[kind]
        return f"{what} {literal(record.get(name, ''))}"
    singular = next((word for word, place in KIND_OF_OBJECT.items() if place == kind), "object")
    return "  ".join([singular, *known_by(record, names)])


def can_send_again(node: Node | None) -> bool:
    """Return whether the node belongs to a delivery that has failed, or that waits for another attempt after
    a failed one.
    """
    if node is None or node.kind not in ("delivery", "attempt") or node.record is None:
        return False
    has_failed = any(attempt.get("error") is not None for attempt in attempts_of(node.record))
    return node.record.get("status") == "failed" or (node.record.get("status") == "pending" and has_failed)


# ---------------------------------------------------------------------- requests


def _start_of(step: TraceStep) -> str | None:
    request = step.request
    created = request.get("created") if request else next(iter(step.events), {}).get("created")
    return created if isinstance(created, str) else None


def _request(step: TraceStep, start: str | None, before: str | None) -> Node:
    """Return the node of a request that was sent at `start`; the previous request was sent at `before`."""
    time = time_of({"at": start}, "at").text
    gap = ""
    if before is not None:
        gap = f"⋮ {later((moment(start) or 0) - (moment(before) or 0)).lstrip('+')}"
    day = "" if start is None or start[:10] == str(before)[:10] else time[:10]
    request = step.request
    if step.request_id is None:
        text = "a command of the administrator, not a request"
        none = (Cell("○ ", "dim"), Cell(f"{text} · {day}" if day else text, "dim"))
        return Node("note", 0, none, time[11:], gap=gap)
    if request is None:
        said = Cell(f"  {step.no_request or '…'}", "dim")
        unread = (Cell("● ", "accent"), Cell(literal(step.request_id)), said)
        return Node("request", 0, unread, time[11:], (), "requests", {"id": step.request_id}, gap)
    path = _shortened(literal(request.get("path", "–")))
    if request.get("query"):
        path += f"?{literal(request['query'])}"
    line = (
        Cell("● ", "accent"),
        Cell(f"{literal(request.get('method', ''))} ", "accent"),
        Cell(path, "strong"),
        Cell("  "),
        _status(request),
        Cell(f"  {_milliseconds(request.get('duration_ms'))}", "dim"),
    )
    return Node("request", 0, line, time[11:], _sender(request, day), "requests", request, gap)


def _shortened(path: str) -> str:
    """Return a path with its ids shortened: `/v1/invoices/inv_…yqmsew/pay`."""
    return _ID.sub(r"\1…\2", path)


def _status(request: Record) -> Cell:
    status, code = request.get("status"), request.get("error_code")
    if not isinstance(status, int):
        return Cell("✕ no answer", "bad")
    text = f" {literal(code)}" if code else ""
    return Cell(f"✓ {status}", "plus") if status < 400 else Cell(f"✕ {status}{text}", "bad")


def _milliseconds(value: object) -> str:
    return f"{value:,.1f} ms" if isinstance(value, int | float) else "– ms"


def _sender(request: Record, day: str) -> tuple[Line, ...]:
    asker = text_of(request, "credential") if request.get("credential") else Cell("this dashboard")
    parts: list[Cell] = [Cell("by ", "dim"), asker]
    for word, name in (("from", "address"), ("key", "idempotency_key")):
        if request.get(name):
            parts += [Cell(f" · {word} ", "dim"), text_of(request, name, "dim")]
    if day:
        parts.append(Cell(f" · {day}", "dim"))
    return (tuple(parts),)


# ---------------------------------------------------------------------- objects and events


def _effects(trace: Trace, step: TraceStep, start: float | None, names: AccountNames) -> Iterator[Node]:
    """Yield a node for each object that a request changed, with its event and the event's deliveries."""
    if step.no_events:
        yield _note(1, step.no_events)
    elif not step.events and isinstance((step.request or {}).get("events"), list):
        yield _note(1, "it changed nothing")
    for event in step.events:
        about = subject(event)
        yield _object(event, about, step, names)
        yield _event(event, start, step.entries.get(str(event.get("id"))))
        yield from _deliveries(trace, step, str(event.get("id")), start)
    if step.more_events:
        yield _note(1, f"and {step.more_events:,} more events of this request")


def _event(event: Record, start: float | None, entry: int | None) -> Node:
    kind = str(event.get("type", "–"))
    tone = _ENDS.get(kind.rpartition(".")[2], "plain")
    number = Cell(f"  entry {entry:,}  " if entry is not None else "  ", "dim")
    line = (Cell("◇ ", "dim"), Cell(literal(kind), tone), number, text_of(event, "id", "dim"))
    return Node("event", 2, line, _offset(event, "created", start), place="events", record=event)


def _object(event: Record, about: Record, step: TraceStep, names: AccountNames) -> Node:
    noun = literal(about.get("object", "object"))
    label = "  ".join(known_by(about, names)) or literal(about.get("id", "–"))
    below = _difference(event, about, step, names)
    line = (Cell("◆ ", "strong"), Cell(f"{noun} ", "strong"), Cell(label))
    place = KIND_OF_OBJECT.get(str(about.get("object")), "")
    return Node("object", 1, line, "", below, place, about)


def _difference(event: Record, about: Record, step: TraceStep, names: AccountNames) -> tuple[Line, ...]:
    """Return a line for each field that the event changed.

    A new object has only one line: for a transaction the change of the balance, otherwise "new".
    """
    currency = currency_of(about, names)
    if str(event.get("type")).endswith(".created"):
        before = balance_before(about)
        if before is None:
            return ((Cell("new", "plus"),),)
        account = names.get(about.get("account"))
        name = literal(account.name) if account else "balance"
        return (
            _change_line(
                FieldChange("balance", before, about["balance_after"]), currency, name, max(12, len(name))
            ),
        )
    old = step.before.get(str(event.get("id")))
    if old is None:
        return ((Cell("the earlier value is not known", "dim"),),)
    difference = changes(old, about)
    width = max([12, *(len(change.name) for change in difference)])
    lines = [_change_line(change, currency, change.name, width) for change in difference[:_CHANGES_SHOWN]]
    if len(difference) > _CHANGES_SHOWN:
        lines.append((Cell(f"and {len(difference) - _CHANGES_SHOWN} more fields", "dim"),))
    return tuple(lines)


def _change_line(change: FieldChange, currency: object, name: str, width: int) -> Line:
    return (
        Cell(f"{fit(literal(name), min(width, 24))} ", "dim"),
        Cell(_value(change.name, change.before, currency), "dim" if change.before is None else "minus"),
        Cell(" → ", "dim"),
        Cell(_value(change.name, change.after, currency), "dim" if change.after is None else "plus"),
    )


def _value(name: str, value: Any, currency: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, int) and not isinstance(value, bool) and name in _MONEY:
        code = currency if isinstance(currency, str) else None
        return format_amount(value, code) + (f" {literal(code)}" if code else "")
    if isinstance(value, str):
        return time_of({"at": value}, "at").text
    if isinstance(value, list):
        return _count(len(value), "line" if name == "lines" else "item")
    return literal(json.dumps(value, ensure_ascii=False))


# ---------------------------------------------------------------------- deliveries


def _deliveries(trace: Trace, step: TraceStep, event: str, start: float | None) -> Iterator[Node]:
    if event not in step.deliveries:
        if step.no_deliveries:
            yield _note(3, step.no_deliveries)
        return
    if not step.deliveries[event]:
        yield _note(3, "not sent: no endpoint receives this type, or the delivery has not begun")
    for delivery in step.deliveries[event]:
        endpoint = str(delivery.get("endpoint"))
        url = str(trace.endpoints.get(endpoint, {}).get("url", endpoint))
        state = str(delivery.get("status"))
        glyph, tone = LOOKS.get(state, ("·", "plain"))
        attempts = attempts_of(delivery)
        line = (
            Cell(f"{glyph} ", tone),
            Cell(literal(url.partition("://")[2] or url)),
            Cell(f"  {literal(state)}", tone),
            Cell(f" after {_count(len(attempts), 'attempt')}" if len(attempts) > 1 else "", "dim"),
        )
        yield Node("delivery", 3, line, place="deliveries", record=delivery)
        for attempt in attempts:
            made_at = _offset(attempt, "attempted_at", start)
            yield Node("attempt", 4, _attempt(attempt), made_at, place="deliveries", record=delivery)
        if state == "pending":
            due = time_of(delivery, "next_attempt_at").text[11:] or "now"
            yield _note(4, f"next attempt at {due}")


def _attempt(attempt: Record) -> Line:
    error, status = attempt.get("error"), attempt.get("status")
    number = Cell(f"{literal(attempt.get('number', '–'))}  ", "dim")
    took = Cell(f"  {literal(attempt.get('latency_ms', '–'))} ms", "dim")
    if error is None:
        return (number, Cell(f"✓ {literal(status)}", "plus"), took)
    text = literal(error)
    if status is not None and literal(status) not in text:
        text = f"{literal(status)} {text}"
    return (number, Cell(f"✕ {text}", "bad"), took)


def _offset(record: Record, name: str, start: float | None) -> str:
    at = moment(record.get(name))
    return "" if at is None or start is None else later(at - start)


# ---------------------------------------------------------------------- the rest


def _without_steps(trace: Trace, names: AccountNames) -> Iterator[Node]:
    """Yield the nodes for a trace without steps: why there are no steps, and the object with its times."""
    record = trace.record
    if trace.problem:
        yield _note(0, trace.problem)
    elif trace.complete:
        yield _note(0, "no event is recorded for this object on this server")
    else:
        return
    below = [
        (Cell(f"{name.removesuffix('_at'):<12} ", "dim"), time_of(record, name))
        for name in ("created", "opened_at", "paid_at", "voided_at", "shipped_at", "deactivated_at")
        if record.get(name)
    ]
    line = (Cell("◆ ", "strong"), Cell(title(trace, names), "strong"))
    yield Node("object", 0, line, "", tuple(below), trace.kind, record)


def _note(depth: int, text: str) -> Node:
    return Node("note", depth, (Cell(text, "dim"),))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def guides(nodes: Sequence[Node]) -> list[tuple[str, str]]:
    """Return the branches to draw left of each node, for its first line and for its other lines."""
    lines: list[tuple[str, str]] = []
    open_after: list[set[int]] = []
    still: set[int] = set()
    for node in reversed(nodes):  # a branch continues if a later node of the same depth follows
        open_after.append(set(still))
        still = {depth for depth in still if depth <= node.depth} | {node.depth}
    for node, follows in zip(nodes, reversed(open_after), strict=True):
        before = "".join("│  " if depth in follows else "   " for depth in range(1, node.depth))
        own = ("├─ " if node.depth in follows else "└─ ") if node.depth else ""
        under = ("│  " if node.depth in follows else "   ") if node.depth else ""
        child = "│  " if node.depth + 1 in follows else "   "
        lines.append((before + own, before + under + child))
    return lines
