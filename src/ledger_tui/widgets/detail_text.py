"""A detail as text: a headline, then sections of aligned facts and drawings."""

from __future__ import annotations

from textual.content import Content

from ledger_tui.resources.base import Detail, Section
from ledger_tui.state.text import fit
from ledger_tui.widgets.toned import toned, toned_line

LABEL_WIDTH = 14


def drawn(detail: Detail, width: int) -> Content:
    """Return a detail as text of this width."""
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
        name = Content.styled(fit(label, LABEL_WIDTH - 1) + " ", "$muted")
        # A long value continues below itself, not below its label.
        for number, part in enumerate(toned(value).wrap(width - LABEL_WIDTH)):
            lines.append(Content.assemble(name if number == 0 else " " * LABEL_WIDTH, part))
    return [*lines, Content("")]
