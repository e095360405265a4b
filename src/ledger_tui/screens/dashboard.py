"""The dashboard: status on top, the screens' tabs, the view of one resource, the keys at the bottom."""

from __future__ import annotations

from urllib.parse import quote

from textual import work
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import ContentSwitcher

from ledger_tui.actions import GLOBAL_KEYS
from ledger_tui.client.api import Api, new_idempotency_key
from ledger_tui.client.curl import KEY_VARIABLE, as_curl
from ledger_tui.client.errors import ClientError
from ledger_tui.hearing import hears, while_running
from ledger_tui.messages import (
    Acted,
    ActFailed,
    ActWanted,
    BackWanted,
    Created,
    CreateWanted,
    LinkFollowed,
    NamesCame,
)
from ledger_tui.resources.registry import BY_KIND, RESOURCES
from ledger_tui.screens.confirm import ConfirmScreen
from ledger_tui.screens.form import FormScreen
from ledger_tui.screens.help import HelpScreen
from ledger_tui.state.names import AccountNames
from ledger_tui.state.session import Link, Mode, Session
from ledger_tui.state.text import literal
from ledger_tui.state.traffic import Exchange
from ledger_tui.widgets.key_bar import KeyBar
from ledger_tui.widgets.resource_view import ResourceView
from ledger_tui.widgets.status_bar import StatusBar
from ledger_tui.widgets.tabs import ScreenTabs

_TICK_SECONDS = 0.5


class Dashboard(Screen[None]):
    """Holds one view per resource and shows one of them."""

    BINDINGS = GLOBAL_KEYS

    def __init__(self, api: Api, session: Session, names: AccountNames) -> None:
        super().__init__()
        self._api = api
        self._session = session
        self._names = names
        self._came_from: list[str] = []

    def compose(self) -> ComposeResult:
        first = RESOURCES[0]
        yield StatusBar(self._session)
        yield ScreenTabs()
        with ContentSwitcher(initial=first.kind):
            yield ResourceView(first, self._api, self._session, self._names)
        yield KeyBar()

    async def on_mount(self) -> None:
        self.set_interval(_TICK_SECONDS, self._tick)
        await self.action_show(RESOURCES[0].kind)

    @property
    def view(self) -> ResourceView:
        """The view on screen."""
        shown = self.query_one(ContentSwitcher).visible_content
        assert isinstance(shown, ResourceView)
        return shown

    @while_running
    def _tick(self) -> None:
        session = self._session
        if session.waiting_seconds or session.link is Link.LOST:
            self.query_one(StatusBar).refresh()  # the seconds count down
        if session.link not in (Link.STARTING, Link.CONNECTING):
            self.view.tick()

    def session_changed(self) -> None:
        """The status line tells at once, and the whole frame turns in live mode."""
        self.set_class(self._session.mode is Mode.LIVE, "-live")
        self.query_one(StatusBar).refresh()

    @hears(NamesCame)
    def names_came(self) -> None:
        self.view.names_came()

    # ------------------------------------------------------------------ moving between screens

    async def action_show(self, kind: str) -> None:
        self._came_from.clear()
        await self._show(kind)

    async def _show(self, kind: str) -> ResourceView:
        switcher = self.query_one(ContentSwitcher)
        # A view is made when it is first looked at: the first paint makes one.
        if not switcher.query(f"#{kind}"):
            await switcher.mount(ResourceView(BY_KIND[kind], self._api, self._session, self._names))
        switcher.current = kind
        self.query_one(ScreenTabs).shown = kind
        view = self.view
        view.enter()
        return view

    @hears(LinkFollowed)
    async def follow_link(self, message: LinkFollowed) -> None:
        link = message.link
        if link.resource not in BY_KIND:
            return
        here = self.view.resource.kind
        view = await self._show(link.resource)
        if here != link.resource:
            self._came_from.append(here)
        if link.record_id is not None:
            view.open_id(link.record_id)
        else:
            view.set_filters(dict(link.filters))

    @hears(BackWanted)
    async def go_back(self) -> None:
        """To the screen a link was followed from; else out of the filter."""
        left = self.view
        if self._came_from:
            await self._show(self._came_from.pop())
        if left.filters:
            left.set_filters({})

    # ------------------------------------------------------------------ dialogs

    @hears(CreateWanted)
    def open_form(self) -> None:
        view = self.view
        if view.resource.form is not None:
            prefill = view.resource.form.prefill(view.selected, view.filters)
            self.app.push_screen(
                FormScreen(view.resource, view.resource.form, prefill, self._api, self._session, self._names),
                self._form_closed,
            )

    def _form_closed(self, created: Created | None) -> None:
        if created is None:
            return
        self.notify(created.sentence, markup=False)
        self.view.action_follow()

    @hears(ActWanted)
    def ask_before_acting(self, message: ActWanted) -> None:
        action, record = message.action, message.record
        if not action.destructive:
            self._act(message)
            return
        record_id = literal(record.get("id"))
        question = f"{action.label.capitalize()} {message.resource.singular} {record_id}?"
        typed = record_id if self._session.mode is not Mode.TEST else None

        def answered(yes: bool | None) -> None:
            if yes:
                self._act(message)

        self.app.push_screen(ConfirmScreen(question, typed), answered)

    @work(group="act", exit_on_error=False)
    async def _act(self, wanted: ActWanted) -> None:
        action = wanted.action
        path = f"{wanted.resource.path}/{quote(str(wanted.record.get('id')), safe='')}{action.suffix}"
        key = new_idempotency_key() if action.creates else None
        try:
            answer = await self._api.write(action.method, path, None, key)
        except ClientError as error:
            self.post_message(ActFailed(wanted, literal(error)))
        else:
            self.post_message(Acted(wanted, answer.record))

    @hears(Acted)
    def acted(self, message: Acted) -> None:
        record_id = literal(message.wanted.record.get("id"))
        self.notify(f"{message.wanted.action.done} {record_id}", markup=False)
        if message.record.get("id") == message.wanted.record.get("id"):
            self.query_one(f"#{message.wanted.resource.kind}", ResourceView).show_changed(message.record)

    @hears(ActFailed)
    def act_failed(self, message: ActFailed) -> None:
        label = message.wanted.action.label
        self.notify(f"Could not {label}: {message.sentence}", severity="error", markup=False)

    def action_copy_id(self) -> None:
        record = self.view.selected
        if record is not None:
            record_id = literal(record.get("id", ""))
            self.app.copy_to_clipboard(record_id)
            self.notify(f"Copied {record_id}", markup=False)

    def action_copy_curl(self) -> None:
        """The request that reads what is shown."""
        url = self._session.url + self.view.shown_path()
        self.app.copy_to_clipboard(as_curl(Exchange("GET", url, None, None, None, 0.0, None)))
        self.notify(f"Copied as curl; it reads the key from {KEY_VARIABLE}", markup=False)

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(self.active_bindings))
