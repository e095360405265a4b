"""The width of a table decides its columns and their widths."""

from collections.abc import Sequence
from dataclasses import replace

from ledger_tui.lists.paged_table import fit_columns
from ledger_tui.resources.base import Column
from ledger_tui.resources.transactions import TRANSACTIONS
from ledger_tui.resources.webhooks import EVENTS


def widths(width: int, columns: Sequence[Column] = TRANSACTIONS.columns) -> dict[str, int]:
    return {column.name: cells for column, cells in fit_columns(columns, width)}


def test_a_description_can_be_read_before_ids_are_shown() -> None:
    narrow, alone, wide = widths(73), widths(119), widths(160)
    assert narrow["description"] >= 24  # beside the detail at 120 columns
    assert "type" not in narrow  # the amount's sign says it
    assert narrow["created"] == 14  # the end of the time
    assert (alone["created"], alone["type"]) == (19, 8)
    assert "id" not in alone
    assert alone["description"] >= 24
    assert alone["balance after"] == 13
    assert wide["id"] == 30
    assert wide["description"] >= 24


def test_a_large_amount_leaves_the_time_in_its_place() -> None:
    columns = [replace(each, width=17) if each.name == "amount" else each for each in TRANSACTIONS.columns]
    assert widths(73, columns)["created"] == 14
    assert widths(73, columns)["description"] >= 8


def test_the_subject_of_an_event_gets_the_cells_of_the_date_beside_the_detail() -> None:
    beside, alone = widths(73, EVENTS.columns), widths(80, EVENTS.columns)
    assert (beside["time"], beside["about"]) == (8, 21)
    assert alone["time"] == 14
    assert alone["about"] >= 20
