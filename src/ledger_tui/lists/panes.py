"""List and detail beside each other, or one of them: by the width, or as the user chose."""

from __future__ import annotations

from textual.widget import Widget

from ledger_tui.settings.config import DETAIL_COLUMNS, LEAST_COLUMNS, PaneChoice
from ledger_tui.ui.view import Row

WIDE_COLUMNS = 120  # from here on both are shown unless the user chose otherwise
WIDER_COLUMNS = 150  # from here on the detail is wide enough for ids in JSON
WIDER_DETAIL_COLUMNS = 60
STEP = 4


class Panes(Row):
    """A list and a detail. `wide` says whether both are shown."""

    def __init__(self, list_: Widget, detail: Widget, choice: PaneChoice) -> None:
        super().__init__()
        self._list = list_
        self._detail = detail
        self._choice = choice
        self.wide = False

    def compose(self) -> list[Widget]:
        return [self._list, self._detail]

    def lay_out(self, width: int, *, opened: bool) -> None:
        """Show both panes or one; `opened` says which one that is."""
        self.wide = self._choice.split if self._choice.split is not None else width >= WIDE_COLUMNS
        # Not by a style rule, which takes effect later: the next key needs a visible widget to focus.
        self._list.display = self.wide or not opened
        self._detail.display = self.wide or opened
        least, most = LEAST_COLUMNS, max(LEAST_COLUMNS, width - LEAST_COLUMNS)
        wanted = self._choice.detail_width
        if wanted == DETAIL_COLUMNS:  # the user has chosen none
            if width >= WIDER_COLUMNS:
                wanted = WIDER_DETAIL_COLUMNS
            elif self._choice.split and width < WIDE_COLUMNS:
                wanted = width // 2
        self._detail.styles.width = max(least, min(wanted, most)) if self.wide else "1fr"

    def cycle(self, *, opened: bool) -> bool:
        """Go on from list to both to detail, and return whether the detail is open then."""
        if self.wide:
            self._choice.split = False
            return True
        self._choice.split = not opened
        return False

    def resize(self, step: int, width: int) -> None:
        """Move the border between the panes by steps; to the right the list grows."""
        if self.wide:
            now = self._detail.outer_size.width or self._choice.detail_width
            self._choice.detail_width = max(LEAST_COLUMNS, min(now - step * STEP, width - LEAST_COLUMNS))
