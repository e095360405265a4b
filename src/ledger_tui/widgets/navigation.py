"""Ways about the dashboard that every screen has: back and forward, ids, raw JSON, export, themes."""

from __future__ import annotations

from pathlib import Path

from textual import work
from textual.content import Content
from textual.screen import Screen

from ledger_tui.client.errors import ClientError
from ledger_tui.config import BadConfig, config_file
from ledger_tui.handlers import hears
from ledger_tui.messages import BackWanted, LinkFollowed, ObjectFound, ObjectMissed
from ledger_tui.resources.base import Resource
from ledger_tui.resources.filtering import filter_line
from ledger_tui.resources.registry import BY_KIND, PLACE_OF_KIND, resource_of_id
from ledger_tui.screens.choose import ChooseScreen
from ledger_tui.screens.raw import RawScreen
from ledger_tui.state.history import Recent, RecentObjects, Spot
from ledger_tui.state.raw import ids_in
from ledger_tui.state.text import literal
from ledger_tui.styles import ABOUT, THEMES
from ledger_tui.widgets.blank import Switcher
from ledger_tui.widgets.record_list import ListView
from ledger_tui.widgets.resource_view import ResourceView
from ledger_tui.widgets.tabs import ScreenTabs
from ledger_tui.widgets.view import Desk, View
from ledger_tui.widgets.views import make_view

_JUMP = "jump"  # the workers that look for an object to go to


class Exploring(Screen[None]):
    """The part of the dashboard that goes from place to place; its child composes them."""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk
        self._trail: list[Spot] = []  # where links were followed

    @property
    def view(self) -> View:
        """The view on screen."""
        shown = self.query_one(Switcher).visible_content
        assert isinstance(shown, View)
        return shown

    async def action_show(self, kind: str) -> None:
        if kind != self.view.place.kind:
            self.leave()
        self._trail.clear()
        for view in self.query(ResourceView):
            view.by_link = False
        self.workers.cancel_group(self, _JUMP)
        await self.show_place(kind)

    async def show_place(self, kind: str) -> View:
        """Change to a screen. A view is made when it is first looked at: the first paint makes one."""
        switcher = self.query_one(Switcher)
        if not switcher.query(f"#{kind}"):
            await switcher.mount(make_view(PLACE_OF_KIND[kind], self._desk))
        switcher.current = kind
        under = BY_KIND[kind].under if kind in BY_KIND else None
        self.query_one(ScreenTabs).shown = under or kind
        view = self.view
        view.enter()
        return view

    @hears(LinkFollowed)
    async def follow_link(self, message: LinkFollowed) -> None:
        link = message.link
        if link.resource not in BY_KIND:
            return
        if link.record_id is not None:
            self._go_to_object(BY_KIND[link.resource], link.record_id, by_link=True)
            return
        self._trail.append(self.spot)
        self.leave()
        view = await self.show_place(link.resource)
        assert isinstance(view, ResourceView)
        view.set_filters(dict(link.filters))

    @hears(BackWanted)
    async def go_back(self) -> None:
        """To where a link was followed; else out of the filter."""
        left = self.view
        if self._trail:
            await self._go_to(self._trail.pop())
        elif isinstance(left, ResourceView) and left.resource.under:
            await self.show_place(left.resource.under)
        elif isinstance(left, ResourceView) and left.filters:
            left.set_filters({})
        if left is not self.view and isinstance(left, ResourceView) and left.filters:
            left.set_filters({})

    # ------------------------------------------------------------------ back and forward

    @property
    def spot(self) -> Spot:
        """Where this is."""
        view = self.view
        filters = dict(view.filters) if isinstance(view, ListView) else {}
        if not isinstance(view, ResourceView) or not view.opened or not view.selected:
            return Spot(view.place.kind, filters)
        record = view.selected
        return Spot(view.place.kind, filters, str(record.get("id")), record, view.by_link)

    def leave(self) -> None:
        """Somewhere else is gone to: this spot can be come back to."""
        self._desk.history.leave(self.spot)

    async def action_travel(self, step: int) -> None:
        """Where one was before (-1), or where one went back from (1)."""
        history = self._desk.history
        spot = history.back(self.spot) if step < 0 else history.forward(self.spot)
        if spot is not None:
            await self._go_to(spot)

    async def _go_to(self, spot: Spot) -> None:
        view = await self.show_place(spot.kind)
        if not isinstance(view, ResourceView):
            return
        if view.filters != spot.filters:
            view.set_filters(dict(spot.filters))
        if spot.record is not None:
            view.open_record(dict(spot.record), by_link=spot.by_link and bool(self._trail))
        else:
            view.close()

    async def open_object(self, record_id: str, kind: str | None = None) -> None:
        """Go to an object by its id."""
        resource = BY_KIND.get(kind) if kind is not None else resource_of_id(record_id)
        if resource is None or not resource.has_object_path:
            self.notify(f"{literal(record_id)}: there is no screen for it.", severity="warning", markup=False)
            return
        self._go_to_object(resource, record_id)

    def _go_to_object(self, resource: Resource, record_id: str, *, by_link: bool = False) -> None:
        """Its screen is changed to when the object is there: until then, or if there is none, one stays."""
        views = self.query(f"#{resource.kind}").results(ResourceView)
        at_hand = (row for view in views for _index, row in view.window.at_hand())
        row = next((row for row in at_hand if row.get("id") == record_id), None)
        if row is not None:
            self.post_message(ObjectFound(resource.kind, row, by_link=by_link))
        else:
            self._find(resource, record_id, by_link)

    @work(group=_JUMP, exclusive=True, exit_on_error=False)
    async def _find(self, resource: Resource, record_id: str, by_link: bool) -> None:
        try:
            answer = await self._desk.api.read(resource.object_path(record_id))
        except ClientError as error:
            named, sentence = literal(record_id), literal(error)
            self.post_message(ObjectMissed(sentence if named in sentence else f"{named}: {sentence}"))
        else:
            self.post_message(ObjectFound(resource.kind, answer.record, by_link=by_link))

    @hears(ObjectFound)
    async def show_object(self, message: ObjectFound) -> None:
        if message.by_link:
            self._trail.append(self.spot)
        self.leave()
        view = await self.show_place(message.kind)
        assert isinstance(view, ResourceView)
        view.open_record(message.record, by_link=message.by_link)

    @hears(ObjectMissed)
    def stay(self, message: ObjectMissed) -> None:
        self.notify(message.sentence, severity="warning", markup=False)

    @property
    def recent(self) -> RecentObjects:
        """What was looked at lately."""
        return self._desk.recent

    async def open_recent(self, recent: Recent) -> None:
        await self.open_object(recent.record_id, recent.kind)

    # ------------------------------------------------------------------ what is shown

    def action_raw(self) -> None:
        record = self.view.selected
        if record is not None:
            self.app.push_screen(RawScreen("JSON", record))

    def action_ids(self) -> None:
        """Choose among the ids in the object, and go there."""
        record = self.view.selected
        own = record.get("id") if record is not None else None
        found = [each for each in ids_in(record, _has_screen) if each.record_id != own]
        if not found:
            self.notify("There is no other id in it.")
            return
        lines = [
            Content.assemble((literal(each.where), "$muted"), "  ", literal(each.record_id)) for each in found
        ]

        async def chosen(number: int | None) -> None:
            if number is not None:
                await self.open_object(found[number].record_id)

        self.app.push_screen(ChooseScreen("Jump to", lines), chosen)

    def action_export(self) -> None:
        view = self.view
        listed = view.resource.list_path(view.filters) if isinstance(view, ListView) else None
        if not isinstance(view, ListView) or listed is None:
            self.notify("There is no list here to export.")
            return
        # Rarely wanted, and not on the way to the first paint; so are the others below.
        from ledger_tui.client.export import Asked
        from ledger_tui.screens.export import ExportScreen

        path, params = listed
        resource = view.resource
        file = Path(f"{resource.kind}.csv")
        names = self._desk.names
        asked = Asked(path, resource.paging, params, resource.part, file, "csv", names=names)
        narrowed = filter_line(view.filters, resource.filters)
        what = f"{resource.title}, {literal(narrowed)}" if narrowed else f"All {resource.title.lower()}"
        total = len(view.window) if view.window.complete else view.window.total
        self.app.push_screen(ExportScreen(self._desk.api, asked, what, total), self._exported)

    def _exported(self, sentence: str | None) -> None:
        if sentence is not None:
            self.notify(sentence, markup=False)

    # ------------------------------------------------------------------ themes

    def action_themes(self) -> None:
        """Each theme as the eye rests on it; esc puts the old one back, enter keeps the new."""
        before = self.app.theme
        names = [theme.name for theme in THEMES]
        lines = [Content.assemble(theme.name.ljust(18), (ABOUT[theme.name], "$muted")) for theme in THEMES]

        def preview(number: int) -> None:
            self.app.theme = names[number]

        def chosen(number: int | None) -> None:
            if number is None:
                self.app.theme = before
            else:
                self._keep_theme(names[number])

        at = names.index(before) if before in names else 0
        self.app.push_screen(ChooseScreen("Themes", lines, at, preview), chosen)

    def _keep_theme(self, name: str) -> None:
        self.app.theme = name
        from ledger_tui.config_edit import set_theme

        try:
            set_theme(config_file(), name)
        except (BadConfig, OSError) as error:
            self.notify(f"The theme holds until you quit: {literal(error)}", severity="warning", markup=False)


def _has_screen(text: str) -> bool:
    resource = resource_of_id(text)
    return resource is not None and resource.has_object_path and " " not in text
