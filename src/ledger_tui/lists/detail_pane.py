"""The pane that shows one record in full: its facts in aligned lines, and links to related objects.

The pane also reads figures that the record does not contain (`Resource.more`), such as an account's balance
over time. `Panes` shows the list and the detail side by side, or only one of them. The user chooses between
these views. Until the user has chosen, the width of the screen decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ledger_client.errors import LedgerError
from ledger_tui.client.errors import NotOffered
from ledger_tui.client.records import Record
from ledger_tui.formats.text import JOINT, breakable, fit, join_units, literal
from ledger_tui.lists.newest import ANY_TIME
from ledger_tui.resources.base import Cell, Detail, Resource, Section
from ledger_tui.resources.registry import BY_KIND
from ledger_tui.settings.config import DETAIL_COLUMNS, LEAST_COLUMNS, PaneChoice
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.keys import TABLE_KEYS
from ledger_tui.ui.view import Context, LinkFollowed, ScreenRow, toned, toned_line

WIDE_COLUMNS = 120  # from this width on, both panes are shown, unless the user has chosen to see only one
WIDER_COLUMNS = 150  # from this width on, the detail is wide enough for ids in JSON
WIDER_DETAIL_COLUMNS = 60
STEP = 4  # the number of columns by which one press of a key moves the border


class Panes(ScreenRow):
    """A list and a detail. `wide` is True while both panes are shown."""

    def __init__(self, list_: Widget, detail: Widget, choice: PaneChoice) -> None:
        super().__init__()
        self._list = list_
        self._detail = detail
        self._choice = choice
        self.wide = False

    def compose(self) -> list[Widget]:
        return [self._list, self._detail]

    def lay_out(self, width: int, *, is_open: bool) -> None:
        """Show both panes or only one, as the user has chosen. Without a choice, a wide screen shows both.

        If only one pane is shown, `is_open` decides: True shows the detail, and False shows the list.
        """
        self.wide = self._choice.split if self._choice.split is not None else width >= WIDE_COLUMNS
        # Set `display` here. A rule in the style sheet would take effect too late, because the next key
        # already needs a visible widget to focus.
        self._list.display = self.wide or not is_open
        self.set_class(self.wide, "-wide")
        self._detail.display = self.wide or is_open
        least, most = LEAST_COLUMNS, max(LEAST_COLUMNS, width - LEAST_COLUMNS)
        wanted_width = self._choice.detail_width
        if wanted_width == DETAIL_COLUMNS:  # the user has chosen no width
            if width >= WIDER_COLUMNS:
                wanted_width = max(WIDER_DETAIL_COLUMNS, width // 3)
            elif self._choice.split and width < WIDE_COLUMNS:
                wanted_width = width // 2
        self._detail.styles.width = max(least, min(wanted_width, most)) if self.wide else "1fr"

    def cycle(self, *, is_open: bool) -> bool:
        """Change from the list to both panes, from both panes to the detail, or from the detail to the list.

        Return whether the detail is open after the change.
        """
        if self.wide:
            self._choice.split = False
            return True
        self._choice.split = not is_open
        return False

    def in_words(self, *, is_open: bool) -> str:
        """Return a sentence that names the shown panes, and the panes that the next call of `cycle` shows."""
        if self.wide:
            return "List and detail; z shows the detail alone."
        if is_open:
            return "The detail alone; z shows the list alone."
        return "The list alone; z shows list and detail."

    def resize(self, step: int, width: int) -> None:
        """Move the border between the panes; a positive `step` makes the list wider."""
        if self.wide:
            now = self._detail.outer_size.width or self._choice.detail_width
            self._choice.detail_width = max(LEAST_COLUMNS, min(now - step * STEP, width - LEAST_COLUMNS))


LABEL_WIDTH = 14


def drawn(detail: Detail, width: int) -> Content:
    """Return a detail as text, wrapped to a width."""
    lines = [toned(_break_lines(detail.headline, width)), Content("")]
    for section in detail.sections:
        lines.extend(_section_lines(section, width))
    return Content("\n").join(lines)


def _section_lines(section: Section, width: int) -> list[Content]:
    if not section.facts and section.drawing is None:
        return []
    lines = [Content.styled(section.title, "bold $muted")] if section.title else []
    for cells in section.drawing(width) if section.drawing else ():
        lines.append(toned_line(cells))
    for label, value in section.facts:
        name = Content.styled(fit(label, LABEL_WIDTH - 1) + " ", "$muted")
        # The second and later lines of a long value start below the value, not below its label.
        for number, part in enumerate(_wrap(value, width - LABEL_WIDTH)):
            lines.append(Content.assemble(name if number == 0 else " " * LABEL_WIDTH, part))
    return [*lines, Content("")]


def _break_lines(cell: Cell, width: int) -> Cell:
    return cell._replace(text=breakable(cell.text, width))


def _wrap(value: Cell, width: int) -> list[Content]:
    """Return the lines of a value. A figure and its unit stay on one line."""
    joined = value._replace(text=join_units(value.text))
    lines = toned(_break_lines(joined, width)).wrap(width)
    return [toned(value._replace(text=line.plain.replace(JOINT, " "))) for line in lines]


@dataclass
class RecordLoaded(Message):
    """The pane has read this object from the server, by its id. The request was sent at `sent_at`."""

    record: Record
    sent_at: float = ANY_TIME


@dataclass
class RecordFailed(Message):
    """The pane could not read an object; `sentence` gives the reason."""

    record_id: str
    sentence: str


_MORE_KEPT = 50
# In requests per minute. With a smaller rate limit, the pane reads figures beyond the record only after the
# user opens the detail.
_GENEROUS_LIMIT = 600
# While the user holds a key down, the detail is drawn again after a pause of this many times the duration of
# its last drawing. So the drawings leave most of the time to the keys.
_PAUSE_PER_DRAWING = 3
_LONGEST_PAUSE_SECONDS = 0.3
_ON_ONE_LINE = 100_000  # columns, enough that no line of a drawing wraps
_DETAIL_DESCRIPTIONS = {"newest": "top", "oldest": "bottom"}


def _for_detail(binding: BindingType) -> BindingType:
    """Return a key binding of the table for the detail. The key bar shows the arrow keys."""
    if not isinstance(binding, Binding):
        return binding
    description = _DETAIL_DESCRIPTIONS.get(binding.action, binding.description)
    return replace(binding, description=description, show=binding.action == "move(1)")


class _Links(OptionList, inherit_bindings=False):
    """The links of a detail.

    The pane handles the arrow keys, because the same keys go to the next link or scroll the text.
    """

    BINDINGS = [Binding("enter", "select", "follow", show=True, id="open")]


class DetailPane(VerticalScroll, can_focus=True, inherit_bindings=False):
    """A record of one resource with a list of links; enter follows the highlighted link."""

    BINDINGS = [
        *map(_for_detail, TABLE_KEYS),
        Binding("space", "move_pages(1)", "page down", show=False),  # in a list, space marks the row
    ]

    def __init__(self, resource: Resource, context: Context) -> None:
        super().__init__()
        self._resource = resource
        self._view_context = context
        self._record: Record | None = None
        # By id: the record, and the figures beyond the record that the pane has read for it.
        self._more: dict[str, tuple[Record, Any]] = {}
        self._about = ""
        self._detail: Detail | None = None
        self._note = ""
        self._drawn_last: tuple[Detail | None, str, int] | None = None
        self._size_last = (0, 0)  # columns and lines of the text drawn last
        # The link that the last key went to; None if the last key scrolled.
        self._link_reached: int | None = None
        self._follows_at = 0.0  # the pane follows the moving cursor again from this time on

    def compose(self) -> ComposeResult:
        yield Static(id="facts")
        yield _Links(id="links", markup=False, compact=True)

    def outdate(self) -> None:
        """Make the pane read the figures beyond each record again.

        The pane shows the old figures until the new figures arrive.
        """
        self._more = {record_id: ({}, more) for record_id, (_record, more) in self._more.items()}

    def show(self, record: Record | None, note: str = "") -> None:
        """Show a record, or the note if `record` is None. Scroll to the top if another record was shown."""
        self._record = record
        if record is None:
            self._show_detail(None, note, "")
        else:
            self._show_detail(self._detail_of(record), "", str(record.get("id")))

    def follow(self, draw: Callable[[], None]) -> None:
        """Call `draw`, which shows the row that the cursor passes, if the last drawing was long enough ago.

        When the cursor rests, the view draws the detail in any case.
        """
        now = time.monotonic()
        if now >= self._follows_at:
            self._follows_at = now + _LONGEST_PAUSE_SECONDS
            draw()
            self.call_after_refresh(self._note_drawing, now)

    @while_running
    def _note_drawing(self, begun: float) -> None:
        now = time.monotonic()
        self._follows_at = now + min(_PAUSE_PER_DRAWING * (now - begun), _LONGEST_PAUSE_SECONDS)

    def _show_detail(self, detail: Detail | None, note: str, about: str) -> None:
        links_before = self._detail.links if self._detail else ()
        self._detail, self._note = detail, note
        self._draw()
        links = detail.links if detail else ()
        options = self.query_one("#links", OptionList)
        highlighted = options.highlighted
        # Only other labels need other options, and with them a new layout of the screen.
        if [link.label for link in links] != [link.label for link in links_before]:
            options.clear_options()
            options.add_options(Option(Content(f"→ {link.label}")) for link in links)
            if not links and options.has_focus:
                self.focus(scroll_visible=False)
            options.display = bool(links)
        if links != links_before or about != self._about:
            # Keep the highlight if the pane shows the same record and has only appended links that arrived.
            came_later = about == self._about and links[: len(links_before)] == links_before
            self._link_reached = self._link_reached if came_later else None
            options.highlighted = (came_later and highlighted) or 0 if links else None
            if links and self.has_focus:
                self.focus_content()
        if about != self._about:
            self._about = about
            self._scroll_to_line(0)

    def _draw(self) -> None:
        width = max(LABEL_WIDTH + 10, self.scrollable_content_region.width)
        inputs = (self._detail, self._note, width)
        if inputs == self._drawn_last:
            return
        self._drawn_last = inputs
        text = drawn(self._detail, width) if self._detail else Content.styled(self._note, "$muted")
        facts = self.query_one("#facts", Static)
        size = (width, text.get_height({}, width))
        # The layout of the screen takes longer than all else here, and only another height needs it.
        facts.update(text, layout=size != self._size_last)
        self._size_last = size

    def on_resize(self) -> None:
        self._draw()

    def on_focus(self) -> None:
        self.focus_content()  # a click on the text focuses the pane

    def focus_content(self) -> None:
        """Focus the links; if there are none, focus the text so that keys scroll it."""
        has_links = self._detail is not None and self._detail.links
        # Do not scroll to the focused widget: people read from the top.
        (self.query_one("#links", OptionList) if has_links else self).focus(scroll_visible=False)

    # ------------------------------------------------------------------ reading

    @property
    def can_read_objects(self) -> bool:
        """Whether the server can return one object of this kind, as far as the dashboard knows."""
        missing = self._resource.object_part in self._view_context.session.missing_parts
        return self._resource.has_object_path and not missing

    @asks("record")
    async def read(self, record_id: str, *, required: bool = False) -> None:
        """Read one object and post `RecordLoaded` or `RecordFailed`.

        If the server does not offer to read one object, the pane posts `RecordFailed` only if `required` is
        True. Otherwise it posts nothing, and still shows the object's row from the list.
        """
        path, part = self._resource.object_path(record_id), self._resource.object_part
        sent_at = self._view_context.session.clock()
        try:
            answer = await self._view_context.api.read(path, part=part)
        except LedgerError as error:
            if required or not isinstance(error, NotOffered):
                self.post_message(RecordFailed(record_id, literal(error)))
        else:
            self.post_message(RecordLoaded(answer.record, sent_at))

    # ------------------------------------------------------------------ beyond the record

    def _detail_of(self, record: Record) -> Detail:
        detail = self._resource.detail(record, self._view_context.names)
        missing = self._view_context.session.missing_parts
        # Leave out the links to lists that this server lacks. The server may still return a single object.
        offered = tuple(
            link for link in detail.links if link.record_id or BY_KIND[link.resource].part not in missing
        )
        detail = replace(detail, links=offered)
        more = self._resource.more
        known = self._more.get(str(record.get("id")))
        if more is None or known is None:
            return detail
        sections, links = more.parts_for(record, known[1], self._view_context.names)
        further = (link for link in links if link not in detail.links)
        sections = (detail.sections[0], *sections, *detail.sections[1:])
        return replace(detail, sections=sections, links=(*detail.links, *further))

    def shown_texts(self, record: Record) -> Iterator[tuple[str, str]]:
        """Yield the label and the text of each line shown for a record."""
        for section in self._detail_of(record).sections:
            label = section.title
            for line in section.drawing(_ON_ONE_LINE) if section.drawing is not None else ():
                yield label, "".join(cell.text for cell in line)
            for each in section.facts:
                label = each.label or label
                yield label, each.value.text

    def read_more(self, *, is_open: bool, again: bool = False) -> None:
        """Read the figures beyond the record, unless the pane has already read them for the same record.

        With `again`, read them in any case, because they may have changed since the last read. But if the
        detail is not open and the rate limit is small, read nothing.
        """
        record = self._record
        if record is None or self._resource.more is None:
            return
        more = self._more.get(str(record.get("id")))
        if not again and more is not None and more[0] == record:
            return
        limit = self._view_context.session.limit
        if is_open or limit is None or limit >= _GENEROUS_LIMIT:
            self._load_more(record)

    @asks("more")
    async def _load_more(self, record: Record) -> None:
        assert self._resource.more is not None
        try:
            more = await self._resource.more.load(self._view_context.api, record)
        except LedgerError as error:
            more = error
        self.call_later(self._take_more, record, more)

    @while_running
    def _take_more(self, record: Record, more: Any) -> None:
        """Store the figures beyond a record, or the error of the failed read, and draw the detail again."""
        self._more[str(record.get("id"))] = (record, more)
        while len(self._more) > _MORE_KEPT:
            del self._more[next(iter(self._more))]
        if self._record is not None:
            self.show(self._record)

    # ------------------------------------------------------------------ keys

    def key_text(self, binding: Binding) -> str:
        """Return the description of a key in the key bar: the arrow keys go to the next link, if any."""
        if not binding.action.startswith("move("):
            return binding.description
        return "link" if self._detail is not None and len(self._detail.links) > 1 else "scroll"

    def action_move(self, rows: int) -> None:
        """Go to the next link in this direction; scroll if there is no further link."""
        links = self.query_one("#links", OptionList)
        index = -1 if links.highlighted is None else links.highlighted + rows
        if 0 <= index < links.option_count:
            links.highlighted = index
            self._bring_into_view(index)
            self._link_reached = index
        else:
            self._scroll_to_line(self.scroll_y + rows)

    def action_move_pages(self, pages: int) -> None:
        self._scroll_to_line(self.scroll_y + pages * max(1, self.scrollable_content_region.height - 1))

    def action_newest(self) -> None:
        self._scroll_to_line(0)

    def action_oldest(self) -> None:
        self._scroll_to_line(self.max_scroll_y)

    def _scroll_to_line(self, line: float) -> None:
        self._link_reached = None
        self.scroll_to(y=line, animate=False, immediate=True, force=True)

    def watch_virtual_size(self) -> None:
        """Keep the link that a key went to in view when new figures push it down."""
        if self._link_reached is not None:
            self._bring_into_view(self._link_reached)

    def _bring_into_view(self, number: int) -> bool:
        """Scroll until the link is in view; return False if the link was in view already."""
        line = self.query_one("#links", OptionList).virtual_region.y + number
        height = self.scrollable_content_region.height
        top = max(min(self.scroll_y, line), line - height + 1)
        if not height or top == self.scroll_y:
            return False
        self.scroll_to(y=top, animate=False, immediate=True, force=True)
        return True

    @on(OptionList.OptionSelected)
    def follow_link(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        # If the link is out of view, only scroll to it: you do not want to follow a link that you cannot see.
        if self._detail is not None and not self._bring_into_view(event.option_index):
            self.post_message(LinkFollowed(self._detail.links[event.option_index]))
