"""Navigation between screens and objects, forward and back; also the tabs, and the view class of each
screen.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from textual import events
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ledger_client.errors import LedgerError
from ledger_tui.client.lists import learn_accounts_until, learn_users_until
from ledger_tui.client.names import AccountName, AccountNames, UserName
from ledger_tui.client.records import Record, records_of
from ledger_tui.formats.text import literal
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.base import Link, Place, Resource, Via
from ledger_tui.resources.difference import DIFFERENCE
from ledger_tui.resources.filtering import filter_line
from ledger_tui.resources.registry import (
    BY_KIND,
    COMPARISON,
    OVERVIEW,
    PLACE_OF_KIND,
    PLACES,
    RESOURCES,
    TRACE,
    resource_of_id,
    short_id,
)
from ledger_tui.settings.config import LastPlace
from ledger_tui.ui.handlers import asks, handles, while_running
from ledger_tui.ui.status_bar import StatusBar
from ledger_tui.ui.view import (
    ActionRequested,
    BackRequested,
    Context,
    LinkFollowed,
    Location,
    LocationOpened,
    ObjectFound,
    Switcher,
    View,
    recent_of,
)


class ScreenTabs(Widget):
    """The line of tabs: each screen with its key and its name; the current screen is highlighted."""

    shown: reactive[str] = reactive("")

    def render(self) -> Content:
        for tight in range(3):
            line = self._line(tight)
            if line.cell_length <= self.size.width:
                break
        return line

    def on_click(self, event: events.Click) -> None:
        end = 0
        for place, tab in zip(PLACES, self._tabs, strict=True):
            end += tab.cell_length
            if event.x < end:
                self.screen.call_later(self.screen.run_action, f"show({place.kind!r})")
                return

    def _line(self, tight: int) -> Content:
        """Return the tabs.

        If `tight` is 0, all names are in full. If `tight` is 1, only the current screen's name is in full. If
        `tight` is 2, all names are short, and no space precedes a tab.
        """
        self._tabs = [self._tab(place, tight) for place in PLACES]
        return Content("").join(self._tabs)

    def _tab(self, place: Place, tight: int) -> Content:
        here = place.kind == self.shown
        name = place.title if tight == 0 or (tight == 1 and here) else place.short
        space = " " if tight < 2 else ""
        return Content.assemble(
            (f"{space}{place.key} ", "bold $tab-text on $tab" if here else "bold $accent"),
            (f"{name} ", "bold $tab-text on $tab" if here else "$muted"),
        )


# The screens that have a view class of their own: the module in `features`, and the class.
_VIEWS = {
    "overview": ("overview.view", "Overview"),
    "token": ("token", "TokenView"),
    "trace": ("trace.view", "TraceView"),
    "test_helpers": ("test_helpers", "HelpersView"),
    "comparison": ("compare", "ComparisonView"),
    "flows": ("flows", "FlowsView"),
    "events": ("events", "EventsView"),
    "webhook_endpoints": ("endpoints", "EndpointsView"),
    "requests": ("requests", "RequestsView"),
}


def load_the_rest() -> None:
    """Import the rarer views and the first dialogs in advance, off the event loop."""
    views = (f"features.{module}" for module, _name in _VIEWS.values())
    for name in (*views, "forms.form_screen", "app.command_line"):
        import_module(f"ledger_tui.{name}")


def make_view(place: Place, context: Context) -> View:
    """Return a new view of a screen."""
    if place.kind not in _VIEWS:
        assert isinstance(place, Resource)
        return ResourceView(place, context)
    module, name = _VIEWS[place.kind]
    view = getattr(import_module(f"ledger_tui.features.{module}"), name)(place, context)
    assert isinstance(view, View)
    return view


def breadcrumb(location: Location, names: AccountNames) -> str:
    """Return a short description of a location: `Invoice INV-000001`, `Transactions account:Till`,
    `Overview`.
    """
    place = PLACE_OF_KIND[location.kind]
    if location.record is not None:
        singular = place.singular.capitalize() if isinstance(place, Resource) else place.title
        return f"{singular} {literal(_name(location.kind, location.record))}"
    if isinstance(place, Resource) and location.filters:
        filters = {param: short_id(names.name(value)) for param, value in location.filters.items()}
        return f"{place.title} {literal(filter_line(filters, place.filters))}".rstrip()
    return place.title


def _name(kind: str, record: Mapping[str, Any]) -> str:
    """Return the name that people use for an object.

    For an object without a name, return its request line, its type or the end of its id.
    """
    if label := recent_of(kind, record).label:
        return label
    if isinstance(path := record.get("path"), str):
        return f"{record.get('method', '')} {path}".strip()
    kind_of = record.get("type") or record.get("event_type")
    return kind_of if isinstance(kind_of, str) else short_id(str(record.get("id", "")))


_NO_CHANGE = "Nothing to undo: you have changed nothing yet."
# The dashboard cannot continue a trace or a comparison after a restart, and it cannot continue a trace after
# a test helper has replaced the ledger. In these cases it shows this screen.
_INSTEAD_OF_TRACE = "accounts"
_JUMP = "jump"  # the group of workers that read the object to go to


class Navigation(Switcher):
    """Contains a view for each visited screen, and shows one of them.

    `tabs` highlights the shown screen, and `status` shows the places where the user followed links.
    """

    def __init__(self, first: Place, tabs: ScreenTabs, status: StatusBar, context: Context) -> None:
        super().__init__(make_view(first, context), initial=first.kind)
        self._tabs = tabs
        self._status = status
        self.context = context
        self._trail: list[Location] = []  # where the user followed links; esc goes back to the last place
        self.undo_request: ActionRequested | None = None  # the action that undoes the last change, if any
        self.why_no_undo = _NO_CHANGE  # why no action undoes the last change, if `undo_request` is None

    @property
    def view(self) -> View:
        """The view on screen."""
        content = self.visible_content
        assert isinstance(content, View)
        return content

    @property
    def resource_view(self) -> ResourceView:
        """The view on screen, which must be a `ResourceView`. Only such a view opens forms and the dialogs of
        lists.
        """
        view = self.view
        assert isinstance(view, ResourceView)
        return view

    async def go(self, kind: str) -> None:
        """Change to a screen as its number key does: esc does not lead back to the former screen."""
        if kind != self.view.place.kind:
            self.leave()
        self._trail.clear()
        for view in self.query(ResourceView):
            view.by_link = False
        self.workers.cancel_group(self, _JUMP)
        await self.show_place(kind)

    async def show_place(self, kind: str) -> View:
        """Change to a screen. Its view is created when the screen is first shown, because the first paint
        needs only one view.
        """
        if not self.query(f"#{kind}"):
            view = make_view(PLACE_OF_KIND[kind], self.context)
            view.display = False  # while the former view is shown
            await self.mount(view)
        if self.current != kind:
            self.view.end_hint()
        self.current = kind
        under = BY_KIND[kind].under if kind in BY_KIND else None
        self._tabs.shown = under or kind
        self._status.trail = tuple(breadcrumb(each, self.context.names) for each in self._trail)
        view = self.view
        view.enter()
        return view

    @handles(LinkFollowed)
    async def follow_link(self, message: LinkFollowed) -> None:
        link = message.link
        if link.resource not in BY_KIND:
            return
        if link.via is not None:
            self._find_via(link, link.via)
            return
        if link.record_id is not None:
            self._go_to_object(BY_KIND[link.resource], link.record_id, by_link=True)
            return
        is_difference = link.resource == self.view.place.kind == DIFFERENCE.kind
        if is_difference and self.location == Location(link.resource, dict(link.filters)):
            self.notify("This is the comparison of these moments.")
            return
        # If one comparison replaces another, do not add the replaced comparison to the trail: esc then leads
        # out of the comparisons at once.
        if not is_difference:
            self._trail.append(self.location)
        self.leave()
        view = await self.show_place(link.resource)
        assert isinstance(view, ResourceView)
        if is_difference:
            view.open(False)
        view.set_filters(dict(link.filters))

    @handles(LocationOpened)
    async def open_location(self, message: LocationOpened) -> None:
        """Go to a location as if the user had followed a link: esc leads back."""
        self._trail.append(self.location)
        self.leave()
        await self._go_to(message.location)

    async def open_trace(self, kind: str, record: Record) -> None:
        """Trace an object, event, delivery or request; esc leads back to its row."""
        if isinstance(self.view, ResourceView):
            self.view.model.hold()
        self._trail.append(self.location)
        self.leave()
        view = await self.show_place(TRACE.kind)
        view.show_traced(kind, record)

    @handles(BackRequested)
    async def go_back(self) -> None:
        """Go back to where the user followed the last link.

        If there is no such link, the effect depends on the present screen:
        - From a screen without a list, go back in the history, or to the overview if there is no history.
        - From a list that belongs to another screen, go to that screen.
        - On any other list, stay on the screen and clear the filter.

        Also clear the filter of a list that the user leaves by going back.
        """
        here = self.view
        if self._trail:
            await self._go_to(self._trail.pop())
        elif not isinstance(here, ResourceView):
            await self.travel(-1)
            if self.view is here:
                await self.go(OVERVIEW.kind)
        elif here.resource.under:
            await self.show_place(here.resource.under)
        elif here.model.filters:
            here.set_filters({})
        if here is not self.view and isinstance(here, ResourceView) and here.model.filters:
            here.set_filters({})

    # ------------------------------------------------------------------ back and forward

    @property
    def location(self) -> Location:
        """The current screen with its filter and its open object, as a place to return to."""
        view = self.view
        if not isinstance(view, ResourceView):
            return view.location
        filters = dict(view.model.filters)
        if not view.opened or not view.selected:
            return Location(view.place.kind, filters)
        record = view.selected
        return Location(view.place.kind, filters, str(record.get("id")), record, view.by_link)

    @property
    def last_place(self) -> LastPlace:
        """The user's current place, from which the next start or a reloaded page continues."""
        view = self.view
        if not isinstance(view, ResourceView):
            return LastPlace(view.place.kind if view.place not in (TRACE, COMPARISON) else _INSTEAD_OF_TRACE)
        record_id = (view.selected or {}).get("id")
        at = str(record_id) if record_id is not None and not view.model.window.following else None
        return LastPlace(view.place.kind, dict(view.model.filters), at, view.opened)

    async def resume(self, place: LastPlace) -> None:
        """Go to a saved place; ignore parts of it that no longer exist."""
        if place.kind not in PLACE_OF_KIND:
            return
        await self.go(place.kind)
        view = self.view
        if not isinstance(view, ResourceView):
            return
        params = {filter_.param for filter_ in view.resource.filters}
        view.set_filters({name: value for name, value in place.filters.items() if name in params})
        if place.record_id is not None and view.resource.has_object_path:
            if place.opened or view.resource.paging != "starting_after":
                await self.open_object(place.record_id, place.kind)
            else:
                self._find_row(view.resource, place.record_id)

    @asks(_JUMP)
    async def _find_row(self, resource: Resource, record_id: str) -> None:
        with suppress(LedgerError):
            path = resource.object_path(record_id)
            answer = await self.context.api.read(path, part=resource.object_part)
            self.call_later(self.show_row, resource.kind, answer.record)

    @while_running
    def show_row(self, kind: str, record: Record) -> None:
        """Put the cursor on the row of an object if the screen of this kind is still shown."""
        view = self.query_one(f"#{kind}", ResourceView)
        if view is self.view and not view.opened:
            view.record_list.open_at(record)

    def leave(self) -> None:
        """Add the current location to the history. Call this before the user leaves the location."""
        self.context.history.leave(self.location)

    async def travel(self, step: int) -> None:
        """Go one location back (-1) or forward (1) in the history."""
        history = self.context.history
        location = history.back(self.location) if step < 0 else history.forward(self.location)
        if location is not None:
            await self._go_to(location)

    async def _go_to(self, location: Location) -> None:
        view = await self.show_place(location.kind)
        if not isinstance(view, ResourceView):
            view.show_location(location)
            return
        if view.model.filters != location.filters:
            view.set_filters(dict(location.filters))
        if location.record is not None:
            view.open_record(dict(location.record), by_link=location.by_link and bool(self._trail))
        else:
            view.open(False)

    async def open_object(self, record_id: str, kind: str | None = None) -> None:
        """Go to the object with this id; warn the user if no screen shows such an object."""
        resource = BY_KIND.get(kind) if kind is not None else resource_of_id(record_id)
        if resource is None or not resource.has_object_path:
            self._warn(f"No screen shows {literal(record_id)}.")
            return
        self._go_to_object(resource, record_id)

    def _go_to_object(self, resource: Resource, record_id: str, *, by_link: bool = False) -> None:
        """Go to the screen of an object. If no loaded list contains the object, read the object first.

        If the server does not return the object, stay on the present screen and show the reason.
        """
        views = self.query(f"#{resource.kind}").results(ResourceView)
        at_hand = (row for view in views for _index, row in view.model.window.at_hand())
        row = next((row for row in at_hand if row.get("id") == record_id), None)
        if row is not None:
            self.post_message(ObjectFound(resource.kind, row, by_link=by_link))
        else:
            self._find(resource, record_id, by_link)

    @asks(_JUMP)
    async def _find(self, resource: Resource, record_id: str, by_link: bool) -> None:
        try:
            answer = await self.context.api.read(resource.object_path(record_id), part=resource.object_part)
        except LedgerError as error:
            id_text, sentence = literal(record_id), literal(error)
            self._warn(sentence if id_text in sentence else f"{id_text}: {sentence}")
        else:
            self.post_message(ObjectFound(resource.kind, answer.record, by_link=by_link))

    @asks(_JUMP)
    async def _find_via(self, link: Link, via: Via) -> None:
        """Look up the object of a link in a list, as `via` describes, and go to the object.

        If the list does not contain the object, stay on the present screen and show this reason.
        """
        try:
            part = next((each.part for each in RESOURCES if each.path == via.path), None)
            answer = await self.context.api.read(via.path, dict(via.query), part=part)
            rows = records_of(answer.record.get("data"))
        except LedgerError as error:
            self._warn(f"{link.label}: {literal(error)}")
            return
        row = next((each for each in rows if not via.where or each.get(via.where) == via.equals), None)
        if row is None:
            self._warn(f"{link.label}: not found.")
        elif via.named:
            if isinstance(target := row.get(via.named), str):
                self.post_message(LinkFollowed(Link(link.label, link.resource, target)))
            else:
                self._warn(f"{link.label}: none, because a command made the change.")
        elif BY_KIND[link.resource].has_object_path:
            self.post_message(ObjectFound(link.resource, row, by_link=True))
        else:  # a delivery is shown in the list of its endpoint
            filters = {via.where: via.equals}
            self.post_message(
                LocationOpened(Location(link.resource, filters, str(row.get("id")), row, by_link=True))
            )

    @handles(ObjectFound)
    async def show_object(self, message: ObjectFound) -> None:
        if message.by_link:
            self._trail.append(self.location)
        self.leave()
        view = await self.show_place(message.kind)
        assert isinstance(view, ResourceView)
        view.open_record(message.record, by_link=message.by_link)

    def _warn(self, sentence: str) -> None:
        self.notify(sentence, severity="warning", markup=False)

    def named(self, text: str) -> list[AccountName | UserName]:
        """Return known accounts and users with this text in their name, id or email, at most five of each."""
        return [*self.context.names.search(text), *self.context.names.users.search(text)]

    async def look_up(self, text: str) -> None:
        """Read accounts and users until one contains this text in its name."""
        api, names = self.context.api, self.context.names
        for read in (learn_accounts_until, learn_users_until):
            with suppress(LedgerError):  # the credential may be allowed to read only accounts, or only users
                await read(api, names, text)
            if self.named(text):
                return

    @property
    def snapshot_names(self) -> list[str]:
        """The names of the snapshots that the screen of the test helpers has read from the server."""
        views = (view for view in self.children if isinstance(view, View))
        return [name for view in views for name in view.snapshots]

    async def forget(self) -> None:
        """Drop all data, because a test helper has replaced the ledger. The current view then reads its data
        again.
        """
        self.workers.cancel_group(self, _JUMP)
        context = self.context
        for memory in (context.history, context.recent, context.names):
            memory.clear()
        self._trail.clear()
        self.undo_request, self.why_no_undo = None, _NO_CHANGE
        if self.view.place is TRACE:  # the traced object may no longer exist
            await self.show_place(_INSTEAD_OF_TRACE)
        for view in self.children:
            if isinstance(view, View):
                view.forget()
        self._status.trail = ()
