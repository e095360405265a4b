"""A screen with a list: its filter, its window, and what fetches for it.

It knows the `Resource` it was given and nothing of accounts or transactions. Keys become actions,
actions become wants, a worker fetches, its message comes back, one handler changes the state.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode

from textual import work

from ledger_tui.client.errors import ClientError, Forbidden, Invalid, NotOffered
from ledger_tui.client.lists import fetch_page, learn_account
from ledger_tui.handlers import hears
from ledger_tui.messages import NamesCame, PageCame, PageFailed
from ledger_tui.resources.base import Resource
from ledger_tui.state.text import literal
from ledger_tui.state.window import Page, Record, Want, Window
from ledger_tui.widgets.filter_bar import FilterBar
from ledger_tui.widgets.paged_table import PagedTable, TableHeader
from ledger_tui.widgets.view import Desk, View

_REFUSED_PAUSES = 4  # what is refused is asked for again in so many of the usual pauses


class ListView(View):
    """Fetches the pages of one list as the eye moves over it."""

    def __init__(self, resource: Resource, desk: Desk) -> None:
        super().__init__(resource, desk)
        self.resource = resource
        self.window = Window()
        self.filters: dict[str, str] = {}
        self.remembered: list[Record] = []  # objects met one by one, shown where the server has no list
        self._poll_rows_next = False
        self._refused_as: int | None = None  # the credential that may not read this list

    @property
    def table(self) -> PagedTable:
        return self.query_one(PagedTable)

    @property
    def lacks_list(self) -> bool:
        """Whether the server was found not to have this list."""
        return self.resource.part in self.desk.session.lacking

    # ------------------------------------------------------------------ fetching

    def tick(self) -> None:
        if self._refused_as not in (None, self.desk.session.credentials):
            self._refused_as = None
            self.next_look_at = 0.0
        super().tick()

    def may_look(self) -> bool:
        return self.window.in_flight is None

    def look(self) -> float:
        if self.lacks_list:
            self.stand_in()
            return self.desk.session.poll_seconds
        want = None
        if self._poll_rows_next and self.resource.changes:
            want = self.window.want_again(self.table.top, self.table.height_in_rows)
        self._poll_rows_next = not self._poll_rows_next
        want = want or (None if self.resource.still else self.window.want_news()) or self._wanted_page()
        if want is not None:
            self._load(want)
        return self.desk.session.poll_seconds

    def _wanted_page(self) -> Want | None:
        return self.window.want(self.table.top, self.table.height_in_rows)

    def fetch(self) -> None:
        """Ask for the page the eye is waiting for, if there is one."""
        # A server that just said no is asked again in its time, not at every key.
        want = None if self.problem else self._wanted_page()
        if want is not None:
            self._load(want)

    @work(group="page", exclusive=True, exit_on_error=False)
    async def _load(self, want: Want) -> None:
        resource = self.resource
        listed = resource.list_path(self.filters)
        if listed is None:
            self.post_message(PageFailed(want, resource.empty))
            return
        path, params = listed
        try:
            page = await fetch_page(self.desk.api, path, resource.paging, params, want, resource.part)
        except NotOffered as error:
            # With an object's id in the path, 404 may be about the object.
            gone = literal(error) if path != resource.path else ""
            lacks = (
                resource.lacks
                or f"This server has no list of {resource.title.lower()}; / opens one by its id."
            )
            self.post_message(PageFailed(want, f"{lacks} ({gone})" if gone else lacks))
        except Invalid as error:
            refused = want.kind == "newer"  # `ending_before` is beyond the interface
            self.post_message(PageFailed(want, literal(error), newer_refused=refused))
        except ClientError as error:
            self.post_message(PageFailed(want, literal(error), forbidden=isinstance(error, Forbidden)))
        else:
            self.post_message(PageCame(want, page))

    @hears(PageCame)
    def take_page(self, message: PageCame) -> None:
        message.stop()
        moved_by = self.window.apply(message.want, message.page, self.table.top)
        if moved_by is None:
            return
        self.problem = ""
        if message.page.rows:
            self.desk.session.saw_livemode(message.page.rows[0].get("livemode"))
        if self.resource.kind == "accounts" and self.desk.names.learn(message.page.rows):
            self.post_message(NamesCame())
        if self.resource.kind == "users":
            self.desk.names.learn_users(message.page.rows)
        self.show_rows(moved_by)
        self.fetch()

    def show_rows(self, moved_by: int = 0) -> None:
        """The window holds new rows."""
        self.table.repaint(moved_by)
        self.changed()

    @hears(PageFailed)
    def take_failure(self, message: PageFailed) -> None:
        message.stop()
        if message.want != self.window.in_flight:
            return
        if message.newer_refused:
            self.window.no_newer()
            self.notify("This server cannot show what is above; f goes to the newest.", markup=False)
            self.fetch()
            return
        self.window.failed(message.want)
        self.problem = message.sentence
        session = self.desk.session
        self._refused_as = session.credentials if message.forbidden else None
        self.next_look_at = session.clock() + session.poll_seconds * (
            _REFUSED_PAUSES if message.forbidden else 1
        )
        if self.lacks_list:
            self.stand_in()
        self.changed()

    def stand_in(self) -> None:
        """There is no list: show the objects met one by one."""
        rows = self.stand_in_rows()
        if [*self.window.rows_between(0, len(self.window))] != rows:
            cursor, following = self.window.cursor, self.window.following
            self.window.reset()
            want = self.window.want(0, 1)
            assert want is not None
            self.window.apply(want, Page(rows, None))
            if not following:
                self.window.move(cursor)
            self.show_rows()

    def stand_in_rows(self) -> list[Record]:
        """What is shown where the server has no list, newest first."""
        return [*self.remembered]

    def remember(self, record: Record) -> None:
        """An object was read or made."""
        self.remembered = [record, *(r for r in self.remembered if r.get("id") != record.get("id"))]
        if self.lacks_list:
            self.stand_in()

    def worker_failed(self, group: str) -> None:
        if group == "page" and self.window.in_flight is not None:
            self.window.failed(self.window.in_flight)
        super().worker_failed(group)

    @hears(PagedTable.Fitted)
    def columns_fitted(self, message: PagedTable.Fitted) -> None:
        message.stop()
        self.query_one(TableHeader).columns = message.columns

    # ------------------------------------------------------------------ names of accounts

    def rows_in_sight(self) -> list[Record]:
        """The records on the screen."""
        top = self.table.top
        return [*self.window.rows_between(top, top + self.table.height_in_rows)]

    def at_rest(self) -> None:
        rows = [*self.rows_in_sight(), self.selected or {}]
        unknown = self.desk.names.unknown(id_ for row in rows for id_ in self.resource.account_ids(row))
        if unknown:
            self._look_up(unknown)

    @work(group="names", exclusive=True, exit_on_error=False)
    async def _look_up(self, account_ids: list[str]) -> None:
        for account_id in account_ids:
            try:
                if await learn_account(self.desk.api, self.desk.names, account_id):
                    self.post_message(NamesCame())
            except ClientError:
                return

    def names_came(self) -> None:
        self.table.make_room()
        self.table.redraw()

    # ------------------------------------------------------------------ the filter

    def action_filter(self) -> None:
        self.query_one(FilterBar).open(self.filters)

    @hears(FilterBar.Applied)
    def apply_filters(self, message: FilterBar.Applied) -> None:
        self.close_filter()
        # What the list is a list of (a statement's account) stays, unless another is named.
        kept = {name: value for name, value in self.filters.items() if f"{{{name}}}" in self.resource.path}
        self.set_filters(kept | message.params)

    @hears(FilterBar.Closed)
    def close_filter(self) -> None:
        self.query_one(FilterBar).display = False
        self.focus_content()

    @hears(FilterBar.Find)
    def find_in_rows(self, message: FilterBar.Find) -> None:
        """Go to the next row at hand whose shown cells contain a text, from the last on to the first."""
        wanted, bar, cursor = message.text.casefold(), self.query_one(FilterBar), self.window.cursor
        found = [
            index for index, row in self.window.at_hand() if wanted in self.table.text_of(row).casefold()
        ]
        told = literal(message.text)
        if not found:
            bar.tell(f"No loaded row matches “{told}”.", problem=True)
            return
        first = cursor + 1 if message.again else cursor
        self.window.hold()
        self.table.go_to(next((index for index in found if index >= first), found[0]))
        self.window.hold()  # also where it is the newest: what was found stays in sight
        more = "; enter goes to the next" if len(found) > 1 else ""
        bar.tell(f"{len(found):,} of {self.window.resident:,} loaded rows match “{told}”{more}")

    def set_filters(self, params: dict[str, str]) -> None:
        """Show the list anew, filtered by the server."""
        self.filters = params
        self.action_refresh()

    def action_refresh(self) -> None:
        self.desk.session.lacking.discard(self.resource.part or "")
        self.window.reset()
        self.problem = ""
        self.table.start_over()
        self.changed()
        self.fetch()

    def action_follow(self) -> None:
        self.window.follow()
        self.table.repaint()
        self.look_soon()
        self.changed()

    def look_soon(self) -> None:
        """Something was done: look at once."""
        self.next_look_at = 0.0
        self.tick()

    def shown_path(self) -> str:
        """The path of the list as it is filtered; its template while what it needs is not chosen."""
        path, params = self.resource.list_path(self.filters) or (self.resource.path, {})
        return path + (f"?{urlencode(params, quote_via=quote)}" if params else "")
