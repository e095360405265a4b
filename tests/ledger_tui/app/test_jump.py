"""The ids of a record are offered once, also ids in its details, and its own id comes last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from ledger_tui.app.jump import ids_of
from ledger_tui.client.records import Record
from ledger_tui.ui.view import View


class Reading:
    """The parts of a view that shows a record with one more line of details."""

    def __init__(self, record: Record | None) -> None:
        self.record = record

    def record_being_read(self) -> Record | None:
        return self.record

    def shown_texts(self) -> Iterator[tuple[str, str]]:
        yield "events", "evt_1 of acc_1, and txn_1"


def test_the_own_id_comes_last_and_each_id_once_by_its_first_place() -> None:
    record = {"id": "txn_1", "account": "acc_1", "lines": ["acc_1", "txn_1"], "project": "prj_1"}
    assert [tuple(found) for found in ids_of(cast(View, Reading(record)))] == [
        ("account", "acc_1"),
        ("project", "prj_1"),
        ("events", "evt_1"),
        ("id", "txn_1"),
    ]


def test_without_a_record_the_details_alone_have_ids() -> None:
    assert [found.record_id for found in ids_of(cast(View, Reading(None)))] == ["evt_1", "acc_1", "txn_1"]
