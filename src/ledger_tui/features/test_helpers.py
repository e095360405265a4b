"""The server's test helpers: their screen, and the requests for commands such as `:clock +1d` and
`:fault unavailable`.

Only `serve --test-helpers` offers the helpers. docs/decisions.md#test-helpers describes the requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.message import Message

from ledger_client.errors import LedgerError
from ledger_tui.client.api import Api
from ledger_tui.client.errors import NotOffered
from ledger_tui.client.records import EVENT_TYPES, Record, records_of
from ledger_tui.formats.text import fit, literal
from ledger_tui.formats.times import written
from ledger_tui.resources.base import Cell, Link, Place
from ledger_tui.resources.cells import text_of, time_of
from ledger_tui.resources.filtering import BadLine, check_date
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.keys import HELPER_KEYS
from ledger_tui.ui.tiles import Tile, TileContent, TiledView, TileRow, sentence
from ledger_tui.ui.view import Context

_PAGE = {"limit": "100"}


class HelperState(NamedTuple):
    """The ledger's time, and the newest snapshots and faults."""

    clock: Record
    snapshots: list[Record]
    faults: list[Record]


async def read_helpers(api: Api, root: str, part: str) -> HelperState:
    """Read the clock, the snapshots and the faults.

    `root` is the path of the test helpers. `part` is the name under which the session remembers that a server
    lacks them (`Session.missing_parts`). Raises NotOffered if the server lacks them.
    """
    clock = (await api.read(f"{root}/clock", part=part)).record
    snapshots = (await api.read(f"{root}/snapshots", _PAGE)).record.get("data")
    faults = (await api.read(f"{root}/faults", _PAGE)).record.get("data")
    return HelperState(clock, records_of(snapshots), records_of(faults))


PART = "test_helpers"
ROOT = "/v1/test_helpers"
MISSING = (
    "This server has no test helpers for this key: they need `ledger-engine serve --test-helpers`"
    " and a test key of role owner."
)

HELPER_WORDS: Mapping[str, str] = {
    "clock": "test helpers: +1d, a time, freeze or run",
    "snapshot": "test helpers: take a snapshot",
    "restore": "test helpers: go back to a snapshot",
    "reset": "test helpers: empty this project",
    "drop": "test helpers: delete a snapshot, end a fault",
    "fault": "test helpers: let requests or webhooks fail",
    "trigger": "test helpers: make an event happen",
}
_UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(\d+)(s|min|m|h|d|w|)")


class ReadyFault(NamedTuple):
    """A fault that the user can choose by name with `:fault`.

    `about` describes the effect to the user. `action` describes the effect to the server, and `match` selects
    the requests that the fault applies to; the dashboard sends both to the server to set the fault. A fault
    of webhooks applies to all deliveries.
    """

    about: str
    action: Mapping[str, Any]
    match: Mapping[str, Any] = MappingProxyType({})


_WRITES = MappingProxyType({"method": "POST"})
READY_FAULTS: Mapping[str, ReadyFault] = {
    "unavailable": ReadyFault("each POST is answered by 503", {"status": 503}, _WRITES),
    "rate-limited": ReadyFault("each POST is answered by 429", {"status": 429}, _WRITES),
    "slow": ReadyFault("each request takes half a second more", {"delay_ms": 500, "jitter_ms": 200}),
    "cut-before": ReadyFault(
        "the connection of each POST is cut before it takes effect", {"cut": "before"}, _WRITES
    ),
    "cut-after": ReadyFault(
        "each POST takes effect, then its connection is cut", {"cut": "after_commit"}, _WRITES
    ),
    "cut-half": ReadyFault("each POST gets half of its answer", {"cut": "half"}, _WRITES),
    "lost": ReadyFault("each attempt of a webhook is lost", {"webhook": "drop"}),
    "twice": ReadyFault("each webhook comes twice", {"webhook": "duplicate"}),
    "reordered": ReadyFault("webhooks come in another order", {"webhook": "reorder"}),
    "forged": ReadyFault("each webhook has a wrong signature", {"webhook": "corrupt"}),
}


@dataclass(frozen=True)
class HelperRequest:
    """A request to a test helper.

    If there is a `question`, the user must confirm the request first. `rewinds` means that the request
    replaces the data of the ledger; after it, the dashboard reads everything again.
    """

    method: Literal["POST", "DELETE"]
    path: str
    body: Mapping[str, Any] | None = None
    question: str = ""
    rewinds: bool = False


# ---------------------------------------------------------------------- the typed commands


def parse_helper(word: str, rest: str) -> HelperRequest:
    """Return the request for a typed command. Raises BadLine."""
    match word:
        case "clock":
            return HelperRequest("POST", f"{ROOT}/clock", _clock(rest))
        case "snapshot":
            return HelperRequest("POST", f"{ROOT}/snapshots", {"name": _named(rest, "snapshot")})
        case "restore":
            return restoring(_named(rest, "restore"))
        case "drop":
            return deleting(_named(rest, "drop"))
        case "reset":
            if rest:
                raise BadLine("reset takes no argument: it empties the project of this key.")
            return resetting()
        case "trigger":
            if not rest:
                raise BadLine("Which event? :trigger invoice.paid")
            return HelperRequest("POST", f"{ROOT}/events", {"type": rest})
        case _:
            if rest == "none":
                return HelperRequest("DELETE", f"{ROOT}/faults")
            return HelperRequest("POST", f"{ROOT}/faults", _fault(rest))


def restoring(name: str) -> HelperRequest:
    """Return the request that goes back to a snapshot."""
    text = f'Go back to the snapshot "{literal(name)}"?\n\nAll changes since then are lost, in all projects.'
    return HelperRequest("POST", f"{ROOT}/snapshots/{quote(name, safe='')}/restore", None, text, rewinds=True)


def resetting() -> HelperRequest:
    """Return the request that empties the project."""
    text = "Empty this project in test mode?\n\nAll of its objects and faults are deleted; its API keys stay."
    return HelperRequest("POST", f"{ROOT}/reset", None, text, rewinds=True)


def deleting(name: str) -> HelperRequest:
    """Return the request that deletes the snapshot `name` or, if `name` is a fault's id, ends the fault."""
    if name.startswith(_FAULT_IDS):
        return HelperRequest("DELETE", f"{ROOT}/faults/{quote(name, safe='')}")
    text = f'Delete the snapshot "{literal(name)}"?\n\nThe ledger stays as it is.'
    return HelperRequest("DELETE", f"{ROOT}/snapshots/{quote(name, safe='')}", None, text)


_FAULT_IDS = "flt_"


def _named(rest: str, word: str) -> str:
    if not rest or " " in rest:
        raise BadLine(f"One name, without spaces: :{word} before-import")
    return rest


def _clock(rest: str) -> Mapping[str, Any]:
    if rest in ("freeze", "run"):
        return {"frozen": rest == "freeze"}
    span = rest.removeprefix("+").replace(" ", "")
    spans = _SPAN.findall(span)
    if span and "".join(map("".join, spans)) == span:
        return {"advance": sum(int(number) * _UNIT_SECONDS[unit] for number, unit in spans)}
    if rest and check_date(rest) is None:
        return {"now": rest.replace(" ", "T")}
    raise BadLine("Write +1d, +2h30m or +45 (seconds) to go forward, or 2026-12-01T07:18, freeze or run.")


def _fault(name: str) -> Mapping[str, Any]:
    """Return the request body that sets the fault with this name. Raises BadLine for an unknown name."""
    ready = READY_FAULTS.get(name)
    if ready is None:
        raise BadLine(
            f":fault takes one of {', '.join(READY_FAULTS)}, or none."
            f" Any other fault: ledger-engine api post {ROOT}/faults -d '{{…}}'"
        )
    return {"match": {**ready.match}, "action": {**ready.action}}


def helper_completions(word: str, typed: str, snapshots: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield completions for the last word of a test helper's command, each with a short description.

    `word` is the name of the command, and `typed` the beginning of the last word.
    """
    if word == "clock":
        some = (("+1h", "an hour on"), ("+1d", "a day on"), ("+30d", "a month on"), ("freeze", "stand still"))
        yield from ((text, about) for text, about in (*some, ("run", "go on")) if text.startswith(typed))
    elif word in ("restore", "drop"):
        yield from ((name, "") for name in snapshots if name.startswith(typed))
    elif word == "trigger":
        yield from ((name, "") for name in EVENT_TYPES if name.startswith(typed))
    elif word == "fault":
        yield from ((name, ready.about) for name, ready in READY_FAULTS.items() if name.startswith(typed))
        if "none".startswith(typed):
            yield "none", "end all faults"


# ---------------------------------------------------------------------- the results


def outcome_of(request: HelperRequest, answer: Record) -> str:
    """Return a sentence about the effect of a request."""
    name = literal(answer.get("name", ""))
    if request.path.endswith("/clock"):
        state = "is stopped at" if answer.get("frozen") else "is"
        return f"The ledger's time {state} {time_of(answer, 'now').text}."
    if request.path.endswith("/events"):
        event = answer.get("event")
        type_ = literal(event.get("type", "")) if isinstance(event, dict) else ""
        kinds = ", ".join(literal(each.get("object")) for each in records_of(answer.get("objects")))
        return f"{type_} happened, with {kinds}." if kinds else f"{type_} happened."
    if request.path.endswith("/restore"):
        return f'The ledger is back at the snapshot "{name}".'
    if request.path.endswith("/reset"):
        return "This project is empty."
    if request.path.endswith("/faults"):
        if request.method == "DELETE":
            return f"Faults ended: {answer.get('deleted', 0)}."
        return f"From now on: {described(answer)}."
    if "/faults/" in request.path:
        return f"Ended: {described(answer)}."
    return f"Deleted the snapshot {name}." if request.method == "DELETE" else f"Took the snapshot {name}."


def described(fault: Record) -> str:
    """Return a fault's effect and the requests that it applies to: `503 to POST /api/orders*`."""
    action, match = (fault.get(part) or {} for part in ("action", "match"))
    values: dict[str, Any] = {name: value for name, value in action.items() if value is not None}
    delay = f"{values.get('delay_ms', '')} ms" + (
        f" ± {values['jitter_ms']} ms" if values.get("jitter_ms") else ""
    )
    if "webhook" in values:
        what = f"{values['webhook']} webhooks" + (f" by {delay}" if "delay_ms" in values else "")
    elif "status" in values:
        what = f"{values['status']} {values.get('code', '')}".rstrip() + " to"
    elif "cut" in values:
        what = {
            "before": "cut before the work of",
            "after_commit": "cut after the commit of",
            "half": "half an answer to",
        }.get(str(values["cut"]), f"cut {values['cut']} of")
    else:
        what = f"{delay} more for"
    parts = [
        str(match[name])
        for name in ("method", "path", "key", "header", "type", "endpoint")
        if match.get(name)
    ]
    whom = " ".join(parts) or ("" if "webhook" in values else "all requests")
    chance = fault.get("probability")
    often = f", {chance:.0%} of them" if isinstance(chance, int | float) and chance < 1 else ""
    return literal(f"{what} {whom}".strip() + often)


def hits_of(fault: Record) -> Cell:
    """Return how often a fault has taken effect, and its maximum, if there is one."""
    hits, times = fault.get("hits"), fault.get("times")
    over = isinstance(hits, int) and isinstance(times, int) and hits >= times
    return Cell(f"{hits} of {times}" if times is not None else f"{hits}", "dim" if over else "warn")


def clock_lines(clock: Record) -> list[list[Cell]]:
    """Return the lines about the ledger's time."""
    now, frozen = clock.get("now"), clock.get("frozen") is True
    text = written(now) if isinstance(now, str) else None
    state = Cell("  ❚❚ stopped", "warn") if frozen else Cell("  ▶ runs", "plus")
    offset = clock.get("offset_ms")
    seconds = round(offset / 1000) if isinstance(offset, int) else 0
    ahead = f"{_span(abs(seconds))} {'ahead of' if seconds > 0 else 'behind'} the machine's clock"
    return [
        [Cell(text, "strong") if text is not None else text_of(clock, "now"), state],
        [Cell(ahead if seconds else "the machine's own time", "dim")],
    ]


def _span(seconds: int) -> str:
    """Return seconds in the two largest units: `1 d 2 h`."""
    parts = []
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count:,} {name}")
    return " ".join(parts[:2])


@dataclass
class HelperLineRequested(Message):
    """Asks to open the command line with `line`, the beginning of a command that the user completes."""

    line: str


_REQUESTS = 3
_HITS_WIDTH = 10


class HelpersView(TiledView):
    """The screen of the test helpers.

    A key of this screen changes nothing: it opens the command line with the beginning of a command, which the
    user completes and runs. `enter` begins a command that restores the chosen snapshot or ends the chosen
    fault, and `n` begins a command that takes a snapshot.
    """

    BINDINGS = [*HELPER_KEYS]
    lines_offered = "clock, fault, trigger, drop, reset"

    def __init__(self, place: Place, context: Context) -> None:
        super().__init__(place, context)
        self.state: HelperState | None = None

        def tile(name: str, title: str, draw: Callable[[HelperState, int, int], TileContent]) -> Tile:
            def draw_state(width: int, height: int) -> TileContent:
                if self.state is None:
                    return sentence(self.problem or "reading…", width) if name == "clock" else TileContent([])
                return draw(self.state, width, height)

            return Tile(title, draw_state, Link(title, place.kind), id=f"tile-{name}")

        self.tiles = (
            tile("clock", "the ledger's time", _clock_content),
            tile("snapshots", "snapshots", _snapshots),
            tile("faults", "faults", _faults),
        )

    def compose(self) -> ComposeResult:
        yield self.caption
        yield from self.tiles

    @property
    def has_figures(self) -> bool:
        return self.state is not None

    @property
    def snapshots(self) -> list[str]:
        """The names of the snapshots in the last data that was read."""
        return [str(each.get("name")) for each in self.state.snapshots] if self.state is not None else []

    # ------------------------------------------------------------------ keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action not in ("open", "snapshot"):
            return super().check_action(action, parameters)
        is_refused = self.problem == MISSING or bool(self.context.session.forbids_changes)
        return True if not is_refused and (action == "snapshot" or self.selected is not None) else None

    def why_not(self, _binding: Binding) -> str:
        """Return the reason why a key does nothing now."""
        if self.problem == MISSING:
            return MISSING
        no_row = "No snapshot or fault is chosen; tab goes to them."
        return self.context.session.why_no_change or no_row

    def action_snapshot(self) -> None:
        self.post_message(HelperLineRequested("snapshot "))

    def action_open(self) -> None:
        row = self.selected or {}
        line = f"drop {row.get('id')}" if row.get("object") == "fault" else f"restore {row.get('name')}"
        self.post_message(HelperLineRequested(line))

    # ------------------------------------------------------------------ reading

    @property
    def settled(self) -> bool:
        return False  # this data always belongs to the present, even if the screens show the past

    def poll(self) -> float:
        self.reading = True
        self._read()
        pause = self.context.session.pause_after(_REQUESTS)
        return 4 * pause if self.problem == MISSING else pause

    @asks("helpers")
    async def _read(self) -> None:
        try:
            state = await read_helpers(self.context.api, ROOT, PART)
        except NotOffered:
            self.call_later(self.take_state, None, MISSING)
        except LedgerError as error:
            self.call_later(self.take_state, None, literal(error))
        else:
            self.call_later(self.take_state, state)

    @while_running
    def take_state(self, state: HelperState | None, problem: str = "") -> None:
        """Show the data that was read, or the reason why the read failed."""
        self.reading = False
        self.problem = problem
        if state is not None or problem == MISSING:
            self.state = state
        if state is not None:
            self.context.session.saw_clock(state.clock.get("offset_ms"))
        self.draw()
        self.refresh_bindings()

    # ------------------------------------------------------------------ drawing

    def on_resize(self) -> None:
        self.draw()

    def caption_text(self) -> Content:
        right = f"✕ {self.problem} " if self.problem and self.state is not None else ""
        left = Content.styled(" Test helpers", "bold")
        space = " " * max(1, self.size.width - left.cell_length - len(right))
        return Content.assemble(left, space, (right, "bold $error"))

    def session_changed(self) -> None:
        self.refresh_bindings()

    def shown_path(self) -> str:
        return f"{ROOT}/clock"


def _clock_content(state: HelperState, _width: int, height: int) -> TileContent:
    """Return the ledger's time, and a hint about the command that sets the time forward."""
    rows = [TileRow(line) for line in clock_lines(state.clock)]
    hint = ":clock +1d moves the time on: tokens expire, invoices fall due, webhooks are retried at once"
    return TileContent([*rows, TileRow([Cell(hint, "dim")])][:height])


def _snapshots(state: HelperState, width: int, height: int) -> TileContent:
    rows = []
    for snapshot in state.snapshots:
        size = snapshot.get("bytes")
        megabytes = f"{size / 1_000_000:,.1f} MB" if isinstance(size, int) else ""
        cells = [
            Cell(fit(literal(snapshot.get("name")), max(12, width - 34))),
            time_of(snapshot, "created"),
            Cell(fit(megabytes, 12, "right"), "dim"),
        ]
        rows.append(TileRow(cells, Link("snapshot", "", str(snapshot.get("id"))), snapshot))
    return _list_content(
        rows, "No snapshots: n takes one of the whole ledger, and enter goes back to it.", width, height
    )


def _faults(state: HelperState, width: int, height: int) -> TileContent:
    rows = []
    for fault in state.faults:
        hits = hits_of(fault)
        cells = [
            Cell(fit(described(fault), max(12, width - _HITS_WIDTH - 5))),
            Cell(fit(hits.text, _HITS_WIDTH, "right"), hits.tone),
            Cell(" hits", "dim"),
        ]
        rows.append(TileRow(cells, Link("fault", "", str(fault.get("id"))), fault))
    return _list_content(
        rows,
        "No faults: :fault lets requests or webhooks fail, :trigger makes an event happen.",
        width,
        height,
    )


def _list_content(rows: Iterable[TileRow], empty: str, width: int, height: int) -> TileContent:
    """Return the rows that fit, and the number of all rows; without rows, return the sentence `empty`."""
    every = [*rows]
    if not every:
        return sentence(empty, width)
    count = f"{len(every)}{'+' if len(every) >= 100 else ''}"
    shown = every if len(every) <= height else every[: height - 1]
    if len(shown) < len(every):
        shown = [*shown, TileRow([Cell(f"and {len(every) - len(shown)} more", "dim")])]
    return TileContent(shown, [Cell(count, "dim")])
