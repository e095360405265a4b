"""One record in full: facts in aligned lines, and links to what belongs to it."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ledger_tui.messages import LinkFollowed
from ledger_tui.resources.base import Detail, Section
from ledger_tui.state.text import fit
from ledger_tui.widgets.toned import toned, toned_line

_LABEL_WIDTH = 14


class DetailPane(VerticalScroll, can_focus=True):
    """Shows a `Detail`. Its links are a list to walk; enter follows one."""

    def __init__(self) -> None:
        super().__init__()
        self._detail: Detail | None = None
        self._note = ""
        self._drawn_last: tuple[Detail | None, str, int] | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="facts")
        yield OptionList(id="links", markup=False, compact=True)

    def show(self, detail: Detail | None, note: str = "") -> None:
        """Draw a record, or a sentence in place of one."""
        links_before = self._detail.links if self._detail else ()
        self._detail, self._note = detail, note
        self._draw()
        links = detail.links if detail else ()
        if links != links_before:
            options = self.query_one("#links", OptionList)
            options.clear_options()
            options.add_options(Option(Content(f"→ {link.label}")) for link in links)
            options.display = bool(links)
            options.highlighted = 0 if links else None

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
        (self.query_one("#links", OptionList) if self._detail and self._detail.links else self).focus()

    @on(OptionList.OptionSelected)
    def follow_link(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if self._detail is not None:
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
