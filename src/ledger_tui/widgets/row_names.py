"""The names of the accounts and users that the rows of a list give by their ids."""

from __future__ import annotations

from contextlib import suppress

from textual import work

from ledger_tui.client.errors import ClientError
from ledger_tui.client.lists import learn_account, learn_users_until
from ledger_tui.messages import NamesLoaded
from ledger_tui.resources.base import Resource
from ledger_tui.state.arranged_window import ArrangedWindow
from ledger_tui.state.window import Record
from ledger_tui.widgets.blank import Stack
from ledger_tui.widgets.paged_table import PagedTable
from ledger_tui.widgets.view import Context


class RowNames(Stack):
    """The part of a list that reads names; `RecordList` has the rows."""

    resource: Resource
    window: ArrangedWindow
    context: Context
    _users_asked_for = False

    @property
    def table(self) -> PagedTable:
        return self.query_one(PagedTable)

    def learn_names(self, selected: Record | None) -> None:
        """Read the names of the accounts in the visible rows and the selected one, where unknown."""
        top = self.table.top
        rows = [*self.window.rows_between(top, top + self.table.height_in_rows), selected or {}]
        unknown = self.context.names.unknown(id_ for row in rows for id_ in self.resource.account_ids(row))
        if unknown:
            self._look_up(unknown)
        if self.resource.names_users and not self._users_asked_for:
            self._users_asked_for = True
            self._learn_users()

    @work(group="users", exclusive=True, exit_on_error=False)
    async def _learn_users(self) -> None:
        """Read the newest users, once, to show their names in place of their ids."""
        with suppress(ClientError):
            await learn_users_until(self.context.api, self.context.names, "")
            self.post_message(NamesLoaded())

    @work(group="names", exclusive=True, exit_on_error=False)
    async def _look_up(self, account_ids: list[str]) -> None:
        for account_id in account_ids:
            try:
                if await learn_account(self.context.api, self.context.names, account_id):
                    self.post_message(NamesLoaded())
            except ClientError:
                return

    def names_loaded(self) -> None:
        self.window.arrange_again()
        self.table.widen_columns()
        self.table.redraw()
