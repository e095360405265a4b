"""A list beside the detail of one of its objects, with what that shows beyond the record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from textual import work

from ledger_tui.client.errors import ClientError
from ledger_tui.handlers import hears
from ledger_tui.messages import MoreCame
from ledger_tui.resources.base import Detail, Resource
from ledger_tui.state.window import Record
from ledger_tui.widgets.detail_pane import DetailPane
from ledger_tui.widgets.record_list import ListView
from ledger_tui.widgets.view import Desk

_MORE_KEPT = 50
# Below this limit what a detail shows beyond its record is read only when the detail is opened.
_GENEROUS_LIMIT = 600


class DetailView(ListView):
    """Shows the row under the cursor in full, or an object whose row is not at hand."""

    def __init__(self, resource: Resource, desk: Desk) -> None:
        super().__init__(resource, desk)
        self.pinned: Record | None = None
        self.opened = False
        self.wide = False
        self._more: dict[str, tuple[Record, Any]] = {}

    @property
    def selected(self) -> Record | None:
        return self.pinned or self.window.current

    def _show_detail(self) -> None:
        pane = self.query_one(DetailPane)
        record = self.selected
        if record is None:
            waits = not self.window.loaded and not self.problem
            pane.show(None, "" if waits else self.problem or self.resource.empty)
        else:
            pane.show(self._detail(record), about=str(record.get("id")))

    def _detail(self, record: Record) -> Detail:
        detail = self.resource.detail(record, self.desk.names)
        more = self.resource.more
        known = self._more.get(str(record.get("id")))
        if more is None or known is None:
            return detail
        sections = more.sections(record, known[1], self.desk.names)
        return replace(detail, sections=(detail.sections[0], *sections, *detail.sections[1:]))

    def _read_more(self) -> None:
        record = self.selected
        if record is None or self.resource.more is None or not (self.opened or self.wide):
            return
        known = self._more.get(str(record.get("id")))
        if known is not None and known[0] == record:
            return
        limit = self.desk.session.limit
        if self.opened or limit is None or limit >= _GENEROUS_LIMIT:
            self._load_more(record)

    @work(group="more", exclusive=True, exit_on_error=False)
    async def _load_more(self, record: Record) -> None:
        assert self.resource.more is not None
        try:
            more = await self.resource.more.load(self.desk.api, record)
        except ClientError as error:
            more = error
        self.post_message(MoreCame(record, more))

    @hears(MoreCame)
    def take_more(self, message: MoreCame) -> None:
        message.stop()
        self._more[str(message.record.get("id"))] = (message.record, message.more)
        while len(self._more) > _MORE_KEPT:
            del self._more[next(iter(self._more))]
        self._show_detail()
