"""How the list and the detail share the screen, as the user chose it and the config file keeps it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

DETAIL_COLUMNS = 47
LEAST_COLUMNS = 24  # of either pane


@dataclass
class PaneChoice:
    """The user's choice, which holds for all screens: `split` is None while the width decides."""

    split: bool | None = None
    detail_width: int = DETAIL_COLUMNS
