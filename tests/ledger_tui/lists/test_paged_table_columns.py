"""The width of a table decides its columns and their widths."""

from ledger_tui.lists.paged_table import fit_columns
from ledger_tui.resources.transactions import TRANSACTIONS


def widths(width: int) -> dict[str, int]:
    return {column.name: cells for column, cells in fit_columns(TRANSACTIONS.columns, width)}


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
