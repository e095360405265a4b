"""The main screen: the status bar, the tabs, one view, and the key bar at the bottom."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingsMap
from textual.message import Message
from textual.widgets import Input

from ledger_client.errors import LedgerError
from ledger_tui.app import actions, tracing
from ledger_tui.app.jump import choose_id
from ledger_tui.app.navigation import Navigation, ScreenTabs, load_the_rest
from ledger_tui.app.themes import choose_theme
from ledger_tui.client import past
from ledger_tui.client.lists import learn_accounts_until
from ledger_tui.client.names import AccountName
from ledger_tui.client.records import Record
from ledger_tui.client.session import LINE_TO_NOW, ConnectionState, Mode
from ledger_tui.client.traffic import KEY_VARIABLE, as_curl
from ledger_tui.features.past.machine import TimeMachine
from ledger_tui.features.test_helpers import PART, HelperLineRequested
from ledger_tui.formats.text import literal
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.base import Form, Place, ResourceAction
from ledger_tui.resources.proofs import NO_LOG
from ledger_tui.resources.proofs import PART as LOG_PART
from ledger_tui.resources.registry import COMPARISON, PLACES, TEST_HELPERS, resource_of_id
from ledger_tui.resources.transactions import why_no_transfer
from ledger_tui.settings.config import LastPlace
from ledger_tui.ui.dialogs import ShownOnceScreen
from ledger_tui.ui.handlers import asks, handles, while_running
from ledger_tui.ui.help import HelpScreen, use_elsewhere
from ledger_tui.ui.key_bar import KeyBar
from ledger_tui.ui.keys import FIRST_COMPARING, FIRST_IN_PAST, GLOBAL_KEYS, PAST_KEYS, SUMMED, first_in_view
from ledger_tui.ui.layer import Layer
from ledger_tui.ui.status_bar import StatusBar, connection
from ledger_tui.ui.view import (
    ActionRequested,
    BulkRequested,
    Context,
    LinkFollowed,
    Location,
    LocationOpened,
    NamesLoaded,
    TokensChanged,
    View,
)

if TYPE_CHECKING:
    from ledger_tui.forms.outcomes import Created
    from ledger_tui.forms.submission import Submission


class FirstViewShown(Message):
    """The dashboard shows its first view. Textual can end the application from now on."""


_ON_SCREENS = {"compare": ("accounts",), "group": SUMMED}  # actions that work only on these screens
_COMPARED = range(2, 6)  # how many accounts can be compared: two to five
_TICK_SECONDS = 0.5
_LOAD_SECONDS = 1.0  # from the start to the import of the other views; by then the first screen is drawn


class Dashboard(Layer[None]):
    """The main screen, which lies below all dialogs, with the views and the state that they share."""

    BINDINGS = [*GLOBAL_KEYS, *PAST_KEYS]
    BLANK = True

    def __init__(
        self,
        context: Context,
        first: Place = PLACES[0],
        own_keys: Sequence[Binding] = (),
        resume: LastPlace | None = None,
    ) -> None:
        super().__init__()
        self._resume = resume
        self._bindings = BindingsMap.merge([self._bindings, BindingsMap(own_keys)])
        self._first = first
        self.context = context
        self._tabs = ScreenTabs()
        self._session = context.session
        self._status = StatusBar(context.session)
        # what the status bar last showed: the connection's state, and the requests left in the rate limit
        self._connection_shown: tuple[str, int | None] = ("", None)
        self.navigation = Navigation(first, self._tabs, self._status, context)
        self._past = TimeMachine(lambda: self.view.see_moment(), self._status, context)
        self._session.way_to_now = self._way_to_now

    def compose(self) -> ComposeResult:
        yield self._status
        yield self._tabs
        yield self._past
        yield self.navigation
        yield KeyBar()

    @property
    def view(self) -> View:
        """The view on screen."""
        return self.navigation.view

    def _way_to_now(self) -> str:
        """Return the sentence that tells the user how to return from the past to now."""
        escape = self.active_bindings.get("escape")
        is_direct = escape is not None and escape.binding.action == "past('now')"
        return "Press esc to return to now." if is_direct else LINE_TO_NOW

    @property
    def broken_endpoint(self) -> str | None:
        """The id of the selected webhook endpoint if this endpoint fails; otherwise None.

        If a failed delivery is selected instead of an endpoint, this is the id of the delivery's endpoint.
        """
        return self.view.failing_endpoint if self.navigation.is_mounted else None

    @property
    def first_actions(self) -> Sequence[str]:
        """The actions that come first in the key bar and in the offers of an empty command line."""
        if self._session.moment_ms is not None:
            return FIRST_COMPARING if self._past.marks else FIRST_IN_PAST
        view = self.view if self.navigation.is_mounted else None
        if not isinstance(view, ResourceView):
            return ()
        acts = [action.name for action in view.resource.actions]
        return first_in_view(view.place.kind, acts, is_open=view.opened, has_marks=bool(view.model.marks))

    def key_text(self, binding: Binding) -> str:
        """Return the description of a key in the key bar."""
        match binding.action:
            case "app.repair":
                has_ended = self._session.state is ConnectionState.ENDED
                return "restart the server" if has_ended else "repair the receiver"
            case "step(-1)":
                return "past" if self._session.moment_ms is None else "prev"
            case "step(1)":
                return "next"
            case "past('now')":
                return "now"
            case "past('a')":
                return "from here"
            case "past('b')":
                return "to"
            case "past('play')":
                return "pause" if self._past.playing else "play"
            case "take_back":
                return "undo"
            case "command_line":
                return self.view.lines_offered
            case _:
                return binding.description

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if (action, parameters) == ("show", (TEST_HELPERS.kind,)):
            return PART not in self._session.missing_parts or None
        if action == "past":  # in an input, the keys of the time machine are letters of the typed line
            return self._session.moment_ms is not None and not isinstance(self.focused, Input)
        if action in _ON_SCREENS and self.view.place.kind not in _ON_SCREENS[action]:
            return False
        if action == "take_back":
            can_undo = self.navigation.is_mounted and self.navigation.undo_request is not None
            return True if can_undo and not self._session.forbids_changes else None
        possible = self._is_possible(action, parameters)
        return super().check_action(action, parameters) if possible is None else possible or None

    def _is_possible(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action that exists on all screens is possible now.

        Return None for an action that has no condition here, and for every action until the views are
        mounted.
        """
        if not self.navigation.is_mounted:
            return None
        match action, *parameters:
            case "step", int(step):
                offered = past.PART not in self._session.missing_parts
                return offered and (step < 0 or self._session.moment_ms is not None)
            case "travel", int(step):
                return self.context.history.leads(step)
            case "trace", *_:
                return tracing.is_possible(self.view)
            case "prove", *_:
                has_log = LOG_PART not in self._session.missing_parts
                return has_log and bool(actions.proof_kind(self.view.selected_id))
            case "raw" | "copy_id", *_:
                return self.view.selected is not None
            case "ids", *_:
                return self.view.selected is not None or any(True for _text in self.view.shown_texts())
            case "export", *_:
                return isinstance(self.view, ResourceView) or self.view.place is COMPARISON
            case "compare", *_:
                return len(self._marked_accounts) in _COMPARED
            case _:
                return None

    @property
    def _marked_accounts(self) -> list[Record]:
        """The marked rows of the screen of accounts."""
        view = self.view
        return view.model.marked if isinstance(view, ResourceView) and view.place.kind == "accounts" else []

    async def action_show(self, kind: str) -> None:
        await self.navigation.go(kind)

    def action_step(self, direction: int) -> None:
        self._past.step(direction)

    def action_past(self, what: str) -> None:
        """Do the action of a key of the time machine: `now`, `play`, `compare`, or the mark `a` or `b`."""
        match what:
            case "now":
                self._past.go(None)
            case "play":
                self._past.play()
            case "compare":
                self.navigation.post_message(LinkFollowed(self._past.comparison()))
            case _:
                self._past.mark(what)
                self.refresh_bindings()  # the bar now shows the key of the comparison

    async def action_travel(self, step: int) -> None:
        await self.navigation.travel(step)

    async def on_mount(self) -> None:
        self.set_interval(_TICK_SECONDS, self._tick)
        await self.navigation.go(self._first.kind)
        if self._resume is not None:
            await self.navigation.resume(self._resume)
        self.set_timer(_LOAD_SECONDS, self._load_the_rest)
        self.post_message(FirstViewShown())

    @while_running
    def _load_the_rest(self) -> None:
        self.app.run_worker(load_the_rest, group="load", thread=True, exit_on_error=False)

    @while_running
    def _tick(self) -> None:
        session = self._session
        connection_state = connection(session).plain, session.remaining
        # During a wait, `connection_state` includes the seconds, so the status bar is redrawn each second.
        if connection_state != self._connection_shown:
            self._connection_shown = connection_state
            self._status.refresh()
            self.view.session_changed()
        if session.state not in (ConnectionState.STARTING, ConnectionState.CONNECTING):
            self.view.tick()
        if self.context.tokens.tokens.due_in == 0:
            self._refresh_tokens()

    @asks("tokens", exclusive=False)
    async def _refresh_tokens(self) -> None:
        if await self.context.tokens.refresh_when_due():
            self.post_message(TokensChanged())

    @handles(TokensChanged)
    def tokens_changed(self) -> None:
        self.view.changed()

    def session_changed(self) -> None:
        """Redraw the status bar and the frame. The frame looks different in live mode and in the past."""
        self.set_class(self._session.mode is Mode.LIVE, "-live")
        self.set_class(self._session.moment_ms is not None, "-past")
        self._status.refresh()
        self.view.session_changed()

    @handles(NamesLoaded)
    def names_loaded(self) -> None:
        self.view.names_loaded()

    # ------------------------------------------------------------------ dialogs

    def action_create(self) -> None:
        view = self.navigation.resource_view
        inside = view.resource.form_inside if view.opened else None
        if (form := inside or view.resource.form) is not None:
            self._open_form(form, view.selected)

    def on_key(self, event: events.Key) -> None:
        """Show why the pressed key does nothing here.

        The reason can be the rights of the credential, the state of the object, or the screen.
        """
        active = self.active_bindings.get(event.key)
        if active is None and (sentence := use_elsewhere(event.key, self.context.chosen_keys)):
            self.view.hint(sentence)
        if active is None or active.enabled:
            return
        if active.binding.action == "transfer" and not self._session.forbids_changes:
            # The key is grey because only one account was known in this currency. Look again: another program
            # may have created a second account.
            self.action_transfer()
        elif why := self._why_not(active.binding):
            effect = actions.effect_of(self.navigation, active.binding)
            self.view.hint(f"{effect}\n{why}".lstrip())

    def _why_not(self, binding: Binding) -> str:
        """Return the reason why a greyed key does nothing now; "" if there is none."""
        action = binding.action
        if past.PART in self._session.missing_parts and action.startswith("step"):
            return past.NOT_OFFERED
        if action == "take_back":
            return self._session.why_no_change or actions.why_no_undo(self.navigation)
        if action == "prove":
            return actions.CHOOSE_PROVEN if LOG_PART not in self._session.missing_parts else NO_LOG
        if action == "trace":
            return tracing.why_not(self.view)
        why = self._session.why_no_change if action.startswith(actions.CHANGES) else ""
        return why or actions.WHY_NOT.get(action, "") or self.view.why_not(binding)

    def action_take_back(self) -> None:
        actions.take_back(self.navigation)

    def action_transfer(self) -> None:
        view, names = self.navigation.resource_view, self.context.names
        form, record = view.resource.transfer, view.selected
        if form is None:
            return
        source = names.get(form.prefill(record, view.model.filters).get("account"))
        if source is None or names.search("", 1, source.is_partner_of):
            self._open_form(form, record)
        else:
            self._look_for_partner(form, record, source)

    @asks("jump")
    async def _look_for_partner(self, form: Form, record: Record | None, source: AccountName) -> None:
        """Open the form of a transfer, or show that no other account can take the money of `source`."""
        has_partner = True
        with suppress(LedgerError):
            has_partner = await learn_accounts_until(
                self.context.api, self.context.names, "", source.is_partner_of
            )
        if has_partner:
            self.call_later(self._open_form, form, record)
        else:
            self.notify(why_no_transfer(source), markup=False)

    def action_edit(self) -> None:
        view, record = self.navigation.resource_view, self.view.record_being_read()
        if record is not None and (form := view.resource.edit(record, self.context.names)):
            view.model.hold()
            self._open_form(form, record)

    def _open_form(self, form: Form, record: Record | None) -> None:
        # Imported here and not at the top, like most dialogs, because the first paint needs no dialog.
        from ledger_tui.forms.form_screen import FormScreen
        from ledger_tui.forms.questions import named
        from ledger_tui.forms.submission import Submission

        view = self.navigation.resource_view
        prefill = dict(form.prefill(record, view.model.filters))
        if form.method == "POST" and self.context.names.get(prefill.get("account")) is None:
            prefill.pop("account", None)  # the form shows an account by its name, and the name is not known
        submission = Submission(view.resource, form, prefill, self.context)
        edits = record is not None and form.method == "PATCH"
        about = named(view.resource, record or {}, self.context.names) if edits else ""
        closed = partial(self._form_closed, submission, undo_action=form.way_back)
        self.app.clear_notifications()  # they would cover the form
        self.app.push_screen(FormScreen(submission, self.context, about), closed)

    def _form_closed(
        self, submission: Submission, created: Created | None, undo_action: ResourceAction | None = None
    ) -> None:
        if created is None:
            return
        view = self.navigation.resource_view
        record = created.record or {}
        of_kind = resource_of_id(str(record.get("id", "")))
        actions.offer_undo(
            self.navigation,
            undo_action if of_kind else None,
            of_kind or view.resource,
            record,
            created.sentence,
        )
        sentence = created.sentence + actions.undo_text(self.navigation)
        is_new = created.record is not None and not created.edited
        is_hidden = is_new and view.model.hides(record)
        self.notify(sentence + " · hidden by the filter" * is_hidden, markup=False)
        if created.edited and created.record is not None:
            if not view.show_changed(created.record, submission.sent_at):
                view.poll_rows_soon()
        else:
            view.show_created(created.record)
        if created.secret is not None:
            self.app.push_screen(ShownOnceScreen(created.sentence, created.secret))

    @handles(ActionRequested)
    def ask_before_acting(self, message: ActionRequested) -> None:
        actions.ask_action(self.navigation, message)

    @handles(BulkRequested)
    def act_on_all(self, message: BulkRequested) -> None:
        from ledger_tui.features.bulk import act_on_all

        resource, navigation = self.navigation.resource_view.resource, self.navigation
        end = partial(actions.offer_undo, navigation, None, resource, {})
        act_on_all(navigation.resource_view, message.action, message.records, end)

    def action_program(self, variable: str) -> None:
        """Show the selected record in the program that is the value of the environment variable
        `variable`.
        """
        if (record := self.view.record_being_read()) is not None:
            from ledger_tui.features.raw import show_in_program

            if problem := show_in_program(self.app, variable, record, self.context.key_variables):
                self.notify(problem, severity="warning", markup=False)

    def action_export(self) -> None:
        from ledger_tui.features.compare import ComparisonView
        from ledger_tui.features.export import export_list

        if isinstance(self.view, ComparisonView):
            self.view.export()
        else:
            export_list(self.view)

    @handles(HelperLineRequested)
    def begin_helper_line(self, message: HelperLineRequested) -> None:
        actions.open_command_line(self.navigation, message.line)

    def action_command_line(self) -> None:
        actions.open_command_line(self.navigation)

    def action_themes(self) -> None:
        choose_theme(self.navigation)

    def action_own_command(self, name: str) -> None:
        actions.ask_own_command(self.navigation, name)

    # ------------------------------------------------------------------ copying and looking

    def action_copy_id(self) -> None:
        record = self.view.record_being_read()
        if record is not None:
            record_id = literal(record.get("id", ""))
            self.app.copy_to_clipboard(record_id)
            self.notify(f"Copied {record_id}", markup=False)

    def action_compare(self) -> None:
        """Compare the marked accounts."""
        ids = ",".join(str(record["id"]) for record in self._marked_accounts)
        self.navigation.post_message(LocationOpened(Location(COMPARISON.kind, {"accounts": ids})))

    def action_copy_curl(self) -> None:
        """Copy a curl command that repeats the request for the shown data.

        In the request log, the command repeats the selected request.
        """
        self.app.copy_to_clipboard(as_curl(self.view.shown_exchange()))
        self.notify(f"Copied as curl; it reads the key from {KEY_VARIABLE}", markup=False)

    def action_group(self) -> None:
        """Show the sums of the shown list of postings."""
        from ledger_tui.features.groups import show_groups

        show_groups(self.navigation.resource_view)

    def action_help(self) -> None:
        # Notifications would cover the keys. Clear them before the help opens, because Textual clears only
        # the notifications of the topmost screen.
        self.app.clear_notifications()
        self.app.push_screen(
            HelpScreen(self.active_bindings.values(), self.context.chosen_keys, self._why_not)
        )

    def action_raw(self) -> None:
        record = self.view.record_being_read()
        if record is not None:
            from ledger_tui.features.raw import RawScreen

            self.app.push_screen(RawScreen("JSON", record))

    def action_ids(self) -> None:
        choose_id(self.navigation)

    def action_prove(self) -> None:
        actions.prove(self.navigation)

    async def action_trace(self) -> None:
        await tracing.trace(self.navigation)
