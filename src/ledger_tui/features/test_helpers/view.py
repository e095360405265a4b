"""The screen of the server's test helpers: its clock, the snapshots and the faults, as tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from ledger_tui.client.errors import ClientError, NotOffered
from ledger_tui.features.test_helpers.requests import (
    MISSING,
    PART,
    ROOT,
    HelperRequest,
    HelperState,
    clock_lines,
    deleting,
    described,
    hits_of,
    parse_helper,
    read_helpers,
    resetting,
    restoring,
)
from ledger_tui.formats.text import fit, literal
from ledger_tui.resources.base import Cell, Link, Place, time_of
from ledger_tui.ui.handlers import handles
from ledger_tui.ui.keys import HELPER_KEYS
from ledger_tui.ui.tiles import Tile, TileContent, TiledView, TileRow, sentence
from ledger_tui.ui.view import Context


@dataclass
class HelpersLoaded(Message):
    """The helpers were read, or `problem` says why not."""

    state: HelperState | None
    problem: str


@dataclass
class HelperRequested(Message):
    """The user wants a test helper to do something."""

    request: HelperRequest


@dataclass
class HelperLineRequested(Message):
    """The user wants the command line with the beginning of a line."""

    line: str


_REQUESTS = 3
_HITS_WIDTH = 10
_SHORT = {  # in the key bar
    "helper('advance')": "advance",
    "helper('snapshot')": "snapshot",
    "helper('fault')": "fault",
    "helper('trigger')": "event",
    "helper('reset')": "reset",
    "open": "go back to it",
}
# What each of these keys begins on the command line.
_LINES = {"advance": "clock +", "snapshot": "snapshot ", "fault": "fault ", "trigger": "trigger "}


class HelpersView(TiledView):
    """`enter` restores the chosen snapshot, `v` deletes it, or ends the chosen fault."""

    BINDINGS = [*HELPER_KEYS]

    def __init__(self, place: Place, context: Context) -> None:
        super().__init__(place, context)
        self.state: HelperState | None = None
        self.problem = ""
        self._reading = False

        def tile(name: str, title: str, draw: Callable[[HelperState, int, int], TileContent]) -> Tile:
            def draw_state(width: int, height: int) -> TileContent:
                if self.state is None:
                    return sentence(self.problem or "reading…", width) if name == "clock" else TileContent([])
                return draw(self.state, width, height)

            return Tile(title, draw_state, Link(title, place.kind), id=f"tile-{name}")

        self.tiles = (
            tile("clock", "the ledger's time", _clock),
            tile("snapshots", "snapshots", _snapshots),
            tile("faults", "faults", _faults),
        )

    def compose(self) -> ComposeResult:
        yield Static(id="helpers-caption")
        yield from self.tiles

    @property
    def unread(self) -> bool:
        return self.state is None and not self.problem

    @property
    def snapshots(self) -> list[str]:
        """The names of the snapshots that were read."""
        return [str(each.get("name")) for each in self.state.snapshots] if self.state is not None else []

    # ------------------------------------------------------------------ keys

    @property
    def _frozen(self) -> bool:
        return self.state is not None and self.state.clock.get("frozen") is True

    def key_text(self, binding: Binding) -> str:
        if binding.action == "helper('stop')":
            return "run" if self._frozen else "stop"
        if binding.action == "delete_helper":
            return "end it" if (self.selected or {}).get("object") == "fault" else "delete"
        return _SHORT.get(binding.action, binding.description)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("helper", "delete_helper") or action == "open":
            if self.problem == MISSING:
                return False
            if self.context.session.forbids_changes:
                return None
            chosen = (self.selected or {}).get("object")
            return (
                action == "helper" or chosen == "snapshot" or (action, chosen) == ("delete_helper", "fault")
            )
        return super().check_action(action, parameters)

    def action_helper(self, name: str) -> None:
        if name == "stop":
            self.post_message(HelperRequested(parse_helper("clock", "run" if self._frozen else "freeze")))
        elif name == "reset":
            self.post_message(HelperRequested(resetting()))
        else:
            self.post_message(HelperLineRequested(_LINES[name]))

    def action_open(self) -> None:
        if self.selected is not None and self.selected.get("object") == "snapshot":
            self.post_message(HelperRequested(restoring(str(self.selected.get("name")))))

    def action_delete_helper(self) -> None:
        if self.selected is not None:
            self.post_message(HelperRequested(deleting(self.selected)))

    # ------------------------------------------------------------------ reading

    def may_poll(self) -> bool:
        return not self._reading

    def poll(self) -> float:
        self._reading = True
        self._read()
        pause = self.context.session.pause_after(_REQUESTS)
        return 4 * pause if self.problem == MISSING else pause

    @work(group="helpers", exclusive=True, exit_on_error=False)
    async def _read(self) -> None:
        try:
            state = await read_helpers(self.context.api, ROOT, PART)
        except NotOffered:
            self.post_message(HelpersLoaded(None, MISSING))
        except ClientError as error:
            self.post_message(HelpersLoaded(None, literal(error)))
        else:
            self.post_message(HelpersLoaded(state, ""))

    @handles(HelpersLoaded)
    def take_state(self, message: HelpersLoaded) -> None:
        message.stop()
        self._reading = False
        self.problem = message.problem
        if message.state is not None or message.problem == MISSING:
            self.state = message.state
        if message.state is not None:
            self.context.session.saw_clock(message.state.clock.get("offset_ms"))
        self._draw()
        self.refresh_bindings()

    def failed(self, problem: str) -> None:
        self.problem = problem
        self._reading = False
        self._draw()

    # ------------------------------------------------------------------ drawing

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        right = f"✕ {self.problem} " if self.problem and self.state is not None else ""
        left = Content.styled(" Test helpers", "bold")
        space = " " * max(1, self.size.width - left.cell_length - len(right))
        self.query_one("#helpers-caption", Static).update(
            Content.assemble(left, space, (right, "bold $error")), layout=False
        )
        for tile in self.tiles:
            tile.show_changes()

    def session_changed(self) -> None:
        self.refresh_bindings()

    def shown_path(self) -> str:
        return f"{ROOT}/clock"


def _clock(state: HelperState, _width: int, height: int) -> TileContent:
    """Return the ledger's time, and what moving it does."""
    rows = [TileRow(line) for line in clock_lines(state.clock)]
    hint = "a moves it on: tokens expire, invoices fall due and webhooks are retried at once"
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
    return _listed(
        rows, "No snapshots: n takes one of the whole ledger, to which enter goes back.", width, height
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
    return _listed(
        rows, "No faults: b lets requests or webhooks fail, e makes an event happen.", width, height
    )


def _listed(rows: Iterable[TileRow], empty: str, width: int, height: int) -> TileContent:
    """Return the rows that fit and how many there are; a sentence where there are none."""
    every = [*rows]
    if not every:
        return sentence(empty, width)
    count = f"{len(every)}{'+' if len(every) >= 100 else ''}"
    shown = every if len(every) <= height else every[: height - 1]
    if len(shown) < len(every):
        shown = [*shown, TileRow([Cell(f"and {len(every) - len(shown)} more", "dim")])]
    return TileContent(shown, [Cell(count, "dim")])
