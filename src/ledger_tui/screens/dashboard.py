"""The dashboard: status on top, the screens' tabs, one screen's view, the keys at the bottom."""

from __future__ import annotations

from textual import work
from textual.app import ComposeResult

from ledger_tui.actions import GLOBAL_KEYS
from ledger_tui.client.api import new_idempotency_key
from ledger_tui.client.curl import KEY_VARIABLE, as_curl
from ledger_tui.client.errors import ClientError, NotOffered, Unreachable
from ledger_tui.handlers import hears, while_running
from ledger_tui.messages import (
    Acted,
    ActFailed,
    ActWanted,
    Created,
    CreateWanted,
    EditWanted,
    NamesCame,
    TokensChanged,
)
from ledger_tui.resources.base import Form
from ledger_tui.resources.confirmations import question
from ledger_tui.resources.registry import PLACES
from ledger_tui.screens.confirm import ConfirmScreen
from ledger_tui.screens.form import FormScreen
from ledger_tui.screens.help import HelpScreen
from ledger_tui.screens.shown_once import ShownOnceScreen
from ledger_tui.screens.submission import Submission
from ledger_tui.state.session import Link, Mode
from ledger_tui.state.text import literal
from ledger_tui.state.window import Record
from ledger_tui.widgets.blank import Switcher
from ledger_tui.widgets.key_bar import KeyBar
from ledger_tui.widgets.navigation import Exploring
from ledger_tui.widgets.resource_view import ResourceView
from ledger_tui.widgets.status_bar import StatusBar
from ledger_tui.widgets.tabs import ScreenTabs
from ledger_tui.widgets.view import Desk
from ledger_tui.widgets.views import load_rarer_views, make_view

_TICK_SECONDS = 0.5
_LOAD_SECONDS = 1.0  # after the start, when its own work is done


class Dashboard(Exploring):
    """Holds one view per screen and shows one of them."""

    BINDINGS = GLOBAL_KEYS
    BLANK = True

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._api = desk.api
        self._session = desk.session
        self._names = desk.names

    def compose(self) -> ComposeResult:
        yield StatusBar(self._session)
        yield ScreenTabs()
        with Switcher(initial=PLACES[0].kind):
            yield make_view(PLACES[0], self._desk)
        yield KeyBar()

    async def on_mount(self) -> None:
        self.set_interval(_TICK_SECONDS, self._tick)
        await self.action_show(PLACES[0].kind)
        self.set_timer(_LOAD_SECONDS, self._load_rarer_views)

    @work(group="load", thread=True, exit_on_error=False)
    def _load_rarer_views(self) -> None:
        load_rarer_views()

    @while_running
    def _tick(self) -> None:
        session = self._session
        if session.waiting_seconds or session.unanswered_seconds or session.link is Link.LOST:
            self.query_one(StatusBar).refresh()  # the seconds count
            self.view.session_changed()
        if session.link not in (Link.STARTING, Link.CONNECTING):
            self.view.tick()
        if self._desk.tokens.tokens.due_in == 0:
            self._refresh_tokens()

    @work(group="tokens", exit_on_error=False)
    async def _refresh_tokens(self) -> None:
        if await self._desk.tokens.refresh_when_due():
            self.post_message(TokensChanged())

    @hears(TokensChanged)
    def tokens_changed(self) -> None:
        self.view.changed()

    def session_changed(self) -> None:
        """The status line tells at once, and the whole frame turns in live mode."""
        self.set_class(self._session.mode is Mode.LIVE, "-live")
        self.query_one(StatusBar).refresh()
        self.view.session_changed()

    @hears(NamesCame)
    def names_came(self) -> None:
        self.view.names_came()

    # ------------------------------------------------------------------ dialogs

    @property
    def resource_view(self) -> ResourceView:
        """The view on screen, where it is one of a resource: those alone ask for forms."""
        view = self.view
        assert isinstance(view, ResourceView)
        return view

    @hears(CreateWanted)
    def open_form(self) -> None:
        view = self.resource_view
        if view.resource.form is not None:
            self._open_form(view.resource.form, view.selected)

    @hears(EditWanted)
    def open_edit_form(self, message: EditWanted) -> None:
        form = self.resource_view.resource.edit(message.record, self._names)
        if form is not None:
            self._open_form(form, message.record)

    def _open_form(self, form: Form, record: Record | None) -> None:
        view = self.resource_view
        prefill = form.prefill(record, view.filters)
        submission = Submission(view.resource, form, prefill, self._api, self._session, self._names)
        self.app.push_screen(FormScreen(submission, self._session, self._names), self._form_closed)

    def _form_closed(self, created: Created | None) -> None:
        if created is None:
            return
        self.notify(created.sentence, markup=False)
        view = self.resource_view
        if created.edited and created.record is not None:
            view.show_changed(created.record)
        else:
            view.action_follow()
            if created.record is not None:
                view.remember(created.record)
        if created.secret is not None:
            self.app.push_screen(ShownOnceScreen(created.sentence, created.secret))

    @hears(ActWanted)
    def ask_before_acting(self, message: ActWanted) -> None:
        action, record = message.action, message.record
        if not action.final:
            self._act(message)
            return
        record_id = literal(record.get("id"))
        asked = question(message.resource, action, record, self._names)
        if action.name == "revoke" and self._desk.tokens.is_own(record):
            asked += "\n\nIt is the key of this dashboard: it will see nothing more."
        typed = record_id if self._session.mode is not Mode.TEST else None

        def answered(yes: bool | None) -> None:
            if yes:
                self._act(message)

        self.app.push_screen(ConfirmScreen(asked, typed), answered)

    @work(group="act", exit_on_error=False)
    async def _act(self, wanted: ActWanted) -> None:
        action = wanted.action
        path = wanted.resource.object_path(wanted.record.get("id")) + action.suffix
        if action.target is not None:
            path = action.target(wanted.record)
        key = new_idempotency_key() if action.creates else None
        try:
            answer = await self._api.write(action.method, path, None, key, part=action.part)
        except NotOffered as error:
            sentence = f"this server does not offer it, or has no such object ({literal(error)})"
            self.post_message(ActFailed(wanted, sentence))
        except ClientError as error:
            lost = isinstance(error, Unreachable)
            self.post_message(ActFailed(wanted, literal(error), unanswered=lost))
        else:
            # A secret is taken out of the record at once: it is shown in one dialog and kept nowhere.
            record = dict(answer.record)
            secret = record.pop(action.shows_once, None) if action.shows_once else None
            self.post_message(Acted(wanted, record, secret if isinstance(secret, str) else None))

    @hears(Acted)
    def acted(self, message: Acted) -> None:
        wanted = message.wanted
        sentence = f"{wanted.action.done} {literal(wanted.record.get('id'))}"
        self.notify(sentence, markup=False)
        view = self.query_one(f"#{wanted.resource.kind}", ResourceView)
        if message.record.get("id") == wanted.record.get("id"):
            view.show_changed(message.record)
        if message.record.get("id") not in (None, wanted.record.get("id")):
            view.action_follow()  # another object was made, and it is on top
        elif view is self.view:
            view.look_soon()
        if message.secret is not None:
            note = ""
            if wanted.action.name == "roll" and self._desk.tokens.is_own(wanted.record):
                self._desk.tokens.replace_key(message.secret)
                note = "It was this dashboard's own key: the new one is in use already."
            self.app.push_screen(ShownOnceScreen(sentence, message.secret, note))

    @hears(ActFailed)
    def act_failed(self, message: ActFailed) -> None:
        said = f"Could not {message.wanted.action.label}: {message.sentence}"
        if message.unanswered:
            said = f"No answer ({message.sentence}): it may have been done. Look before you do it again."
        self.notify(said, severity="error", markup=False)

    def action_copy_id(self) -> None:
        record = self.view.selected
        if record is not None:
            record_id = literal(record.get("id", ""))
            self.app.copy_to_clipboard(record_id)
            self.notify(f"Copied {record_id}", markup=False)

    def action_copy_curl(self) -> None:
        """The request that reads what is shown; in the request log, the request itself."""
        self.app.copy_to_clipboard(as_curl(self.view.shown_exchange()))
        self.notify(f"Copied as curl; it reads the key from {KEY_VARIABLE}", markup=False)

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(self.active_bindings))
