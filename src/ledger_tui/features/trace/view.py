"""The screen of a trace: one tree from the request to the last attempt, and the selected node in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from ledger_client.errors import LedgerError
from ledger_tui.client.records import Record
from ledger_tui.features.trace.nodes import Node, can_send_again, guides, nodes_of, summary, title
from ledger_tui.features.trace.reading import Trace, read_trace
from ledger_tui.formats.text import fit, literal
from ledger_tui.lists.detail_pane import WIDER_COLUMNS, drawn
from ledger_tui.lists.paged_table import TONES
from ledger_tui.resources.base import Cell, Detail, Place
from ledger_tui.resources.registry import BY_KIND
from ledger_tui.ui.handlers import asks, handles, while_running
from ledger_tui.ui.keys import TABLE_KEYS, TRACE_KEYS, VIEW_KEYS
from ledger_tui.ui.status_bar import awaited
from ledger_tui.ui.view import (
    ActionRequested,
    Context,
    LinkFollowed,
    Location,
    LocationOpened,
    ScreenRow,
    View,
    toned_line,
)

_TIME_WIDTH = 12  # includes the spaces around the time
_TIMES_FROM = 60  # columns; a narrower tree shows no times


class TraceTree(ScrollView, can_focus=True):
    """The nodes of a trace. Posts `Moved` when the cursor reaches another node, `Opened` on a double
    click.
    """

    BINDINGS = TABLE_KEYS
    COMPONENT_CLASSES = {"table--cursor", "table--cursor-idle", *(f"table--{tone}" for tone in TONES)}

    class Moved(Message):
        """The user moved the cursor to another node."""

    class Opened(Message):
        """The node under the cursor was clicked twice."""

    def __init__(self) -> None:
        super().__init__(id="tree")
        self.nodes: Sequence[Node] = ()
        self.cursor = 0
        # Whether the user has moved the cursor. If so, new data must not move the cursor to another node.
        self.moved = False
        self._lines: list[tuple[int, tuple[Cell, ...]]] = []  # each line with the number of its node

    @property
    def node(self) -> Node | None:
        """The node under the cursor."""
        return self.nodes[self.cursor] if self.cursor < len(self.nodes) else None

    def show(self, nodes: Sequence[Node], cursor: int, *, from_top: bool) -> None:
        """Draw these nodes, with the cursor on node number `cursor`.

        `from_top` scrolls so that the request of this node is the first visible line.
        """
        self.nodes, self.cursor = nodes, max(0, min(cursor, len(nodes) - 1))
        self._lines = []
        space = Cell(" " * _TIME_WIDTH)
        for number, (node, (own, under)) in enumerate(zip(nodes, guides(nodes), strict=True)):
            if node.gap:
                self._lines.append((number, (Cell(fit(node.gap, _TIME_WIDTH - 2, "right"), "dim"),)))
            time = Cell(fit(node.time, _TIME_WIDTH - 2, "right") + "  ", "dim")
            self._lines.append((number, (time, Cell(own, "dim"), *node.line)))
            self._lines += [(number, (space, Cell(under, "dim"), *line)) for line in node.below]
        self.virtual_size = Size(self.size.width, len(self._lines))
        if from_top:
            step = max((n for n, node in enumerate(nodes[: self.cursor + 1]) if not node.depth), default=0)
            self._scroll_to_line(self._lines_of(step)[0] if nodes else 0)
        self._bring_into_view()
        self.refresh()

    def _lines_of(self, node: int) -> list[int]:
        """Return the numbers of a node's lines."""
        return [at for at, (number, _cells) in enumerate(self._lines) if number == node]

    def _scroll_to_line(self, line: int) -> None:
        self.scroll_to(y=line, animate=False, immediate=True, force=True)

    # ------------------------------------------------------------------ the cursor

    def _go_to(self, number: int) -> None:
        """Put the cursor on node number `number` or, if this node is a note, on a node near the note.

        From the note, search in the direction of the move for the next node that is not a note. If only notes
        follow in this direction, search in the other direction.
        """
        before, self.moved = self.cursor, True
        if not self.nodes:
            return
        number = max(0, min(number, len(self.nodes) - 1))
        rest, back = range(number, len(self.nodes)), range(number, -1, -1)
        ways = (*rest, *back) if number > before else (*back, *rest)
        self.cursor = next((n for n in ways if self.nodes[n].kind != "note"), number)
        self._bring_into_view()
        self.refresh()
        if self.cursor != before:
            self.post_message(self.Moved())

    def _bring_into_view(self) -> None:
        """Scroll to the node under the cursor and to the notes next to it."""
        first, last = self.cursor, self.cursor
        while first > 0 and self.nodes[first - 1].kind == "note":
            first -= 1
        while last + 1 < len(self.nodes) and self.nodes[last + 1].kind == "note":
            last += 1
        lines = [at for at, (number, _cells) in enumerate(self._lines) if first <= number <= last]
        top, height = round(self.scroll_y), self.size.height
        if lines and height:
            target = min(max(top, lines[-1] - height + 1), lines[0])
            if target != top:
                self._scroll_to_line(target)

    def action_move(self, rows: int) -> None:
        self._go_to(self.cursor + rows)

    def action_move_pages(self, pages: int) -> None:
        if self._lines:
            target = self._lines_of(self.cursor)[0] + pages * max(1, self.size.height - 1)
            self._go_to(self._lines[max(0, min(target, len(self._lines) - 1))][0])

    def action_newest(self) -> None:
        self._go_to(0)

    def action_oldest(self) -> None:
        self._go_to(len(self.nodes) - 1)

    def on_click(self, event: events.Click) -> None:
        line = round(self.scroll_y) + event.y
        if line < len(self._lines):
            self._go_to(self._lines[line][0])
            if event.chain == 2:
                self.post_message(self.Opened())

    def on_resize(self) -> None:
        self.virtual_size = Size(self.size.width, len(self._lines))
        self._bring_into_view()

    # ------------------------------------------------------------------ drawing

    def render_line(self, y: int) -> Strip:
        at, width = round(self.scroll_y) + y, self.scrollable_content_region.width
        if at >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        number, cells = self._lines[at]
        if width < _TIMES_FROM:
            cells = cells[1:]
        here = number == self.cursor
        first = here and at == self._lines_of(number)[1 if self.nodes[number].gap else 0]
        under = self._cursor_style() if first else self.rich_style
        gap = here and self.nodes[number].gap and at == self._lines_of(number)[0]
        mark = Segment("▌" if here and not gap else " ", under + self._tone("accent"))
        segments = [mark, *(Segment(cell.text, under + self._tone(cell.tone)) for cell in cells)]
        strip = Strip(segments)
        if strip.cell_length > width:
            cut = strip.crop(0, width - 1)
            return Strip([*cut, Segment("…", under)], width)
        return strip.extend_cell_length(width, under)

    def _tone(self, tone: str) -> Style:
        return self.get_component_rich_style(f"table--{tone}", partial=True)

    def _cursor_style(self) -> Style:
        name = "table--cursor" if self.has_focus else "table--cursor-idle"
        return self.rich_style + self.get_component_rich_style(name, partial=True)


WIDE_COLUMNS = 110
# For this time after the user has opened a trace or changed something, the dashboard reads the trace again by
# itself, so that the user sees a pending delivery arrive. Later the user has to press `r`.
_WATCHED_SECONDS = 120.0
_RESEND = "resend_delivery"


class TraceView(View):
    """The screen with the trace of one object, event, delivery or request."""

    BINDINGS = [*TRACE_KEYS, *VIEW_KEYS]

    def __init__(self, place: Place, context: Context) -> None:
        super().__init__(place, context)
        self.trace: Trace | None = None
        self._tree = TraceTree()
        self._watched_until = 0.0
        self._wide = False

    def compose(self) -> ComposeResult:
        yield Static(id="trace-caption")
        yield Static(id="trace-summary")
        with ScreenRow():
            yield self._tree
            with VerticalScroll(id="trace-node", can_focus=False):
                yield Static(id="trace-node-text")

    # ------------------------------------------------------------------ what is traced

    def show_traced(self, kind: str, record: Record) -> None:
        """Trace this object, event, delivery or request."""
        if self.trace is None or (self.trace.kind, self.trace.record_id) != (kind, str(record.get("id"))):
            self.trace, self.problem, self._tree.moved = Trace(kind, record), "", False
            self.draw()
        self._watched_until = self.context.session.clock() + _WATCHED_SECONDS
        self.action_refresh()

    @property
    def location(self) -> Location:
        if self.trace is None:
            return super().location
        kind, record = self.trace.kind, self.trace.record
        return Location(self.place.kind, {"of": kind}, self.trace.record_id, record)

    def show_location(self, location: Location) -> None:
        trace = self.trace
        is_read = trace is not None and trace.complete and trace.record_id == location.record_id
        if location.record is not None and not is_read:
            self.show_traced(location.filters["of"], dict(location.record))

    def forget(self) -> None:
        super().forget()
        self.trace = None

    def moment_changed(self) -> None:
        self.reading = False  # a read of the earlier moment must not prevent a new read
        self.action_refresh()

    def poll_soon(self) -> None:
        self._watched_until = self.context.session.clock() + _WATCHED_SECONDS
        self.action_refresh()

    # ------------------------------------------------------------------ reading

    def may_poll(self) -> bool:
        return self.trace is not None and super().may_poll()

    def poll(self) -> float:
        assert self.trace is not None
        session = self.context.session
        is_watched = session.clock() <= self._watched_until
        if self.trace.complete and (not is_watched or self.trace.settled(session.server_time)):
            return session.poll_seconds
        self.reading = True
        self._read(self.trace.kind, self.trace.record)
        return session.pause_after(max(1, self.trace.requests))

    def action_refresh(self) -> None:
        """Read the trace again."""
        self.app.refresh()
        if self.trace is not None and not self.reading:
            self.reading = True
            self._read(self.trace.kind, self.trace.record)
            self.next_poll_at = self.context.session.clock() + self.context.session.pause_after(
                max(1, self.trace.requests)
            )

    @asks("trace")
    async def _read(self, kind: str, record: Record) -> None:
        try:
            async for trace in read_trace(self.context.api, kind, record):
                self.call_later(self.take_trace, trace)
        except LedgerError as error:
            self.call_later(self.take_trace, None, literal(error))

    @while_running
    def take_trace(self, new_trace: Trace | None, problem: str = "") -> None:
        """Show a trace, which may be incomplete, or the reason why the read failed."""
        self.problem = problem
        old_trace = self.trace
        if new_trace is None:
            self.reading = False
        elif old_trace is not None and (new_trace.kind, new_trace.record_id) == (
            old_trace.kind,
            old_trace.record_id,
        ):
            self.reading = not new_trace.complete
            self.context.names.learn_endpoints(new_trace.endpoints.values())
            # While the dashboard reads a trace again, the last complete trace stays on the screen.
            if new_trace.complete or not old_trace.complete:
                self.trace = new_trace
        self.draw()

    # ------------------------------------------------------------------ drawing

    def on_resize(self, event: events.Resize) -> None:
        self._wide = event.size.width >= WIDE_COLUMNS
        pane = self.query_one("#trace-node")
        pane.display = self._wide
        pane.set_class(event.size.width >= WIDER_COLUMNS, "-wider")
        self.draw()

    def session_changed(self) -> None:
        self._draw_caption()

    def names_loaded(self) -> None:
        self.draw()

    def draw(self) -> None:
        if self.trace is None:
            return
        nodes = nodes_of(self.trace, self.context.names)
        self._tree.show(nodes, self._cursor_in(nodes), from_top=not self._tree.moved)
        self.query_one("#trace-summary", Static).update(toned_line(summary(self.trace)))
        self._draw_caption()
        self._draw_node()
        self.refresh_bindings()

    def _cursor_in(self, nodes: list[Node]) -> int:
        """Return the number of the node for the cursor.

        If the user has moved the cursor, this is the same node as before; otherwise it is the newest node of
        the traced object.
        """
        assert self.trace is not None
        before = self._tree.node
        if self._tree.moved and before is not None:
            # an object may appear in several nodes, one for each request that changed the object
            at = self._tree.cursor
            same = [n for n, node in enumerate(nodes) if _same(node, before)]
            return min(same, key=lambda n: abs(n - at), default=at)
        id = self.trace.record_id
        places = [n for n, node in enumerate(nodes) if node.kind != "note"]
        return max((n for n in places if nodes[n].record_id == id), default=next(iter(places), 0))

    def _draw_caption(self) -> None:
        trace = self.trace
        if trace is None:
            return
        text = Content.assemble(" ", ("Trace", "bold"), "  ", title(trace, self.context.names))
        if self.problem:
            text = Content.assemble(text, (f"  ✕ {self.problem}", "bold $error"))
        elif not self.context.session.answers:
            text = Content.assemble(text, "  ", awaited(self.context.session))
        elif self.reading and not trace.complete:
            text = Content.assemble(text, ("  reading…", "$muted"))
        else:
            said = f"  {trace.requests} request{'' if trace.requests == 1 else 's'} read"
            text = Content.assemble(text, (said, "$muted"))
        self.query_one("#trace-caption", Static).update(text)

    def _draw_node(self) -> None:
        if not self._wide:
            return
        pane = self.query_one("#trace-node", VerticalScroll)
        detail = self._detail()
        width = max(20, pane.scrollable_content_region.width)
        self.query_one("#trace-node-text", Static).update(drawn(detail, width) if detail else "")
        pane.scroll_home(animate=False)

    def _detail(self) -> Detail | None:
        node = self._tree.node
        resource = BY_KIND.get(node.place) if node is not None else None
        if node is None or resource is None or node.record is None or len(node.record) < 2:
            return None
        return resource.detail(node.record, self.context.names)

    @property
    def selected(self) -> Record | None:
        node = self._tree.node
        return node.record if node is not None else None

    def shown_texts(self) -> Iterator[tuple[str, str]]:
        """Yield each line of each node, labelled with the kind of the node."""
        for node in self._tree.nodes:
            for line in (node.line, *node.below):
                yield node.kind, f"{node.record_id} {''.join(cell.text for cell in line)}"

    def shown_path(self) -> str:
        node = self._tree.node
        resource = BY_KIND.get(node.place) if node is not None else None
        if node is None or resource is None:
            return ""
        if node.kind in ("delivery", "attempt"):
            return f"/v1/events/{(node.record or {}).get('event')}/deliveries"
        return resource.object_path(node.record_id)

    # ------------------------------------------------------------------ keys

    def focus_content(self) -> None:
        self._tree.focus()

    @handles(TraceTree.Moved)
    def cursor_moved(self, message: TraceTree.Moved) -> None:
        message.stop()
        self.changed()

    def at_rest(self) -> None:
        self._draw_node()
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "open":
            node = self._tree.node
            return True if node is not None and node.link is not None else None
        if action == "send_again":
            is_allowed = can_send_again(self._tree.node) and not self.context.session.forbids_changes
            return True if is_allowed else None
        return True

    def why_not(self, binding: Binding) -> str:
        """Return the reason why a key does nothing for the node under the cursor."""
        if binding.action == "open":
            return "This line has no object to open."
        return "Only a delivery that failed can be sent again."

    @handles(TraceTree.Opened)
    def action_open(self) -> None:
        """Show the node on its own screen; esc leads back."""
        node = self._tree.node
        if node is None or node.link is None:
            return
        if node.place == "deliveries" and node.record is not None:  # find a delivery in its endpoint's list
            filters = {"endpoint": str(node.record.get("endpoint"))}
            self.post_message(
                LocationOpened(Location(node.place, filters, node.record_id, node.record, by_link=True))
            )
        else:
            self.post_message(LinkFollowed(node.link))

    def action_send_again(self) -> None:
        node = self._tree.node
        resource = BY_KIND["deliveries"]
        action = resource.action(_RESEND)
        if can_send_again(node) and node is not None and node.record is not None and action is not None:
            self._watched_until = self.context.session.clock() + _WATCHED_SECONDS
            self.post_message(ActionRequested(resource, action, node.record))


def _same(node: Node, other: Node) -> bool:
    return (node.kind, node.depth, node.record_id, node.line[:1]) == (
        other.kind,
        other.depth,
        other.record_id,
        other.line[:1],
    )
