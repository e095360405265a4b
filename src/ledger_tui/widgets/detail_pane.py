"""One record in full: facts in aligned lines, and links to what belongs to it."""

from __future__ import annotations

from dataclasses import replace

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ledger_tui.actions import TABLE_KEYS
from ledger_tui.messages import LinkFollowed
from ledger_tui.resources.base import Detail, Section
from ledger_tui.state.text import fit
from ledger_tui.widgets.toned import toned, toned_line

_LABEL_WIDTH = 14
_HERE = {"newest": "its beginning", "oldest": "its end"}


def _as_here(binding: BindingType) -> BindingType:
    """A key of the table, by the name it goes by in a detail."""
    if not isinstance(binding, Binding):
        return binding
    return replace(binding, description=_HERE.get(binding.action, binding.description))


class _Links(OptionList, inherit_bindings=False):
    """The ways on from a detail. The keys that move are the pane's, which also scroll it."""

    BINDINGS = [Binding("enter", "select", "follow", show=False)]


class DetailPane(VerticalScroll, can_focus=True, inherit_bindings=False):
    """Shows a `Detail`. Its links are a list to walk; enter follows one."""

    BINDINGS = [_as_here(binding) for binding in TABLE_KEYS]

    def __init__(self) -> None:
        super().__init__()
        self._about = ""
        self._detail: Detail | None = None
        self._note = ""
        self._drawn_last: tuple[Detail | None, str, int] | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="facts")
        yield _Links(id="links", markup=False, compact=True)

    def show(self, detail: Detail | None, note: str = "", about: str = "") -> None:
        """Draw a record, or a sentence in place of one; of another one than before from its beginning."""
        links_before = self._detail.links if self._detail else ()
        self._detail, self._note = detail, note
        self._draw()
        links = detail.links if detail else ()
        options = self.query_one("#links", OptionList)
        if links != links_before:
            options.clear_options()
            options.add_options(Option(Content(f"→ {link.label}")) for link in links)
            options.display = bool(links)
        if links != links_before or about != self._about:
            options.highlighted = 0 if links else None
        if about != self._about:
            self._about = about
            self._look_at(0)

    def _draw(self) -> None:
        width = max(_LABEL_WIDTH + 10, self.scrollable_content_region.width)
        wanted = (self._detail, self._note, width)
        if wanted == self._drawn_last:  # a new text is a new layout of the whole screen
            return
        self._drawn_last = wanted
        text = _drawn(self._detail, width) if self._detail else Content.styled(self._note, "$muted")
        self.query_one("#facts", Static).update(text)

    def on_resize(self) -> None:
        self._draw()

    def focus_content(self) -> None:
        """Take the keys: the links if there are any, else the text (to scroll it)."""
        has_links = self._detail is not None and self._detail.links
        # What is focused is not scrolled to: the eye begins at the beginning.
        (self.query_one("#links", OptionList) if has_links else self).focus(scroll_visible=False)

    # ------------------------------------------------------------------ keys

    def action_move(self, rows: int) -> None:
        """To the next link in this direction; where there is none the text is scrolled."""
        links = self.query_one("#links", OptionList)
        wanted = -1 if links.highlighted is None else links.highlighted + rows
        if 0 <= wanted < links.option_count:
            links.highlighted = wanted
            self._bring_into_view(wanted)
        else:
            self._look_at(self.scroll_y + rows)

    def action_move_pages(self, pages: int) -> None:
        self._look_at(self.scroll_y + pages * max(1, self.scrollable_content_region.height - 1))

    def action_newest(self) -> None:
        self._look_at(0)

    def action_oldest(self) -> None:
        self._look_at(self.max_scroll_y)

    def _look_at(self, line: float) -> None:
        self.scroll_to(y=line, animate=False, immediate=True, force=True)

    def _bring_into_view(self, number: int) -> bool:
        """Scroll as far as a link asks for; False where it was in view already."""
        line = self.query_one("#links", OptionList).virtual_region.y + number
        height = self.scrollable_content_region.height
        top = max(min(self.scroll_y, line), line - height + 1)
        if not height or top == self.scroll_y:
            return False
        self._look_at(top)
        return True

    @on(OptionList.OptionSelected)
    def follow_link(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        # A link that is out of sight is shown first: nobody follows what he does not see.
        if self._detail is not None and not self._bring_into_view(event.option_index):
            self.post_message(LinkFollowed(self._detail.links[event.option_index]))


def _drawn(detail: Detail, width: int) -> Content:
    lines = [toned(detail.headline), Content("")]
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
        name = Content.styled(fit(label, _LABEL_WIDTH - 1) + " ", "$muted")
        # A long value goes on under itself, not under its label.
        for number, part in enumerate(toned(value).wrap(width - _LABEL_WIDTH)):
            lines.append(Content.assemble(name if number == 0 else " " * _LABEL_WIDTH, part))
    return [*lines, Content("")]
