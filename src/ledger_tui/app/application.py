"""The dashboard's Textual application, which connects the parts of the dashboard and owns the objects they
share.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.text import Text
from textual import events
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.color import Color
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widgets import Input
from textual.widgets.input import Selection
from textual.worker import Worker, WorkerState

from ledger_tui.app.actions import ReconnectRequested, SaveProfileRequested
from ledger_tui.app.connecting import (
    Connecting,
    ProfileSaved,
    ServerEnded,
    ServerFailed,
    SessionChanged,
    SignInRequested,
)
from ledger_tui.app.dashboard import Dashboard, FirstViewShown
from ledger_tui.app.screen_copy import ChangedCells, ScreenCopy
from ledger_tui.client.api import Api
from ledger_tui.client.names import AccountNames
from ledger_tui.client.session import ConnectionState, Session
from ledger_tui.client.traffic import Traffic, masked
from ledger_tui.features.test_helpers import PART
from ledger_tui.formats import times
from ledger_tui.formats.text import literal, plain
from ledger_tui.lists.arranging import check_lists
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.registry import OVERVIEW, PLACES
from ledger_tui.server.connection import ServerConnection
from ledger_tui.settings.config import LastPlace, Options
from ledger_tui.settings.saved import SavedChoices, save_last_place
from ledger_tui.ui.dialogs import LEAVE, QUIT, ConfirmScreen, Dialog
from ledger_tui.ui.handlers import KeyOrder, WorkerFailed, handles, while_running
from ledger_tui.ui.keymap import command_bindings, keymap, spelled
from ledger_tui.ui.keys import APP_KEYS
from ledger_tui.ui.styles import ABOUT, DEFAULT_THEME, THEME_OF_16_COLORS, THEMES, custom_themes, theme_named
from ledger_tui.ui.view import Context, NamesLoaded

if TYPE_CHECKING:
    from ledger_tui.features.tour import Tour


_SAVE_LAST_PLACE_SECONDS = 0.5
_NO_TEXT_FIELD = "Nothing was pasted, because no text field has the focus."
# The groups of workers that a key starts. While such a worker runs, the screen waits for the result of the
# key.
_GROUPS_OF_KEYS = frozenset({"act", "jump", "repair"})


class LedgerApp(App[int]):
    """The dashboard of one ledger server. Raises BadConfig for an unknown theme or key in the config."""

    TITLE = "Ledger"
    CSS_PATH = "../ui/styles/app.tcss"
    BINDINGS = APP_KEYS
    ENABLE_COMMAND_PALETTE = True
    NOTIFICATION_TIMEOUT = 8  # seconds; a message may name an object, an amount and the next key

    def __init__(self, options: Options) -> None:
        self.profile = options.profile
        self.options = options
        self._screen_copy = ScreenCopy()
        super().__init__()
        profile = options.profile
        self.session = Session(read_only=options.read_only or bool(profile and profile.read_only))
        self.traffic = Traffic()
        self.names = AccountNames()
        self.api = Api(self.session, self.traffic)
        self.connection = ServerConnection(self.api, self.session, options)
        if self.connection.own_server:
            self.session.missing_parts.add(PART)
        self.tokens = self.connection.token_manager
        self._connecting = Connecting(
            self, self.connection, self.api, self.session, self.names, options.config.notice
        )
        # the screen on which the last notification is shown, if this notification reports a problem
        self._screen_with_problem: Screen[Any] | None = None
        # when the user pressed ctrl+c on a screen without a dialog; -inf after any other key
        self._interrupted_at = -inf
        self._has_begun = False
        self._exit_when_begun: Callable[[], None] | None = None
        self.failure = ""
        # the user's place in the dashboard, as last saved; after the end, the place where the user quit
        self.last_place: LastPlace | None = None
        self.next_options: Options | None = None  # the server to connect to after this dashboard has ended
        self.keys = KeyOrder(self, self._dispatch)
        self._tour: Tour | None = None
        own_themes = custom_themes(options.config.themes, options.config_file)
        for theme in (*THEMES, *own_themes):
            self.register_theme(theme)
        self._themes = ABOUT | {theme.name: "your own, from the config file" for theme in own_themes}
        self.theme = theme_named(options.config.theme or DEFAULT_THEME, options.config_file, self._themes)
        check_lists(options.config.lists, options.config_file)
        saved_for = "" if options.shows_demo or self.is_web else options.connection
        # The tour, which runs only in a demo, presses keys that work only with the default settings of the
        # lists. So a demo ignores the settings of the lists in the config file.
        if options.shows_demo:
            self.saved = SavedChoices(saves=False)
        else:
            self.saved = SavedChoices(options.config.lists, options.config.panes, saved_for)
        times.chosen.style = options.config.times or times.TimeStyle.UTC
        own_keys = keymap(options.config.keys, options.config_file)
        self._command_keys = command_bindings(
            options.config.commands, options.config.keys, options.config_file
        )
        if options.tour_pace is None:
            self.set_keymap(own_keys)
        else:  # the tour presses the default keys, so ignore the keys in the config file
            self._command_keys = []

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Replace the last notification by a new one, because several notifications would cover the view."""
        self.clear_notifications()
        is_problem = severity != "information" and bool(self.screen_stack)
        self._screen_with_problem = self.screen if is_problem else None
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def pop_screen(self) -> AwaitComplete:
        """Close a dialog, and remove the warning that the dialog has shown."""
        if self._screen_with_problem is self.screen:
            self.clear_notifications()
        return super().pop_screen()

    async def on_event(self, event: events.Event) -> None:
        """Handle keys and pasted text in the order in which the user typed them; leave other events to
        Textual.
        """
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            if self._tour is not None and self._tour.playing:
                self._tour.stop()
            else:
                await self.keys.take(event)
        else:
            await super().on_event(event)

    async def _dispatch(self, event: events.Event) -> None:
        """Hand a key or pasted text to Textual. A field gets only the first pasted line that is not empty,
        without control characters.
        """
        if not isinstance(event, events.Key) or event.key != "ctrl+c":
            self._interrupted_at = -inf
        elif isinstance(self.focused, Input) and not self.focused.selection.is_empty:
            self._copy_selection(self.focused)
            return
        if isinstance(event, events.Paste) and isinstance(self.focused, Input):
            text = plain(event.text)
            lines = [line for line in text.splitlines() if line.strip()]
            if len(lines) > 1:
                sentence = f"Only the first of the {len(lines):,} pasted lines was taken."
                self.notify(sentence, severity="warning")
            event = events.Paste(lines[0] if lines else text)
        await super().on_event(event)

    def _copy_selection(self, field: Input) -> None:
        """Copy the selected text of a field and end the selection, so that the next ctrl+c does not copy.

        A field selects its text when it gets the focus, so the user may not have meant to copy.
        """
        field.action_copy()
        field.selection = Selection.cursor(field.selection.end)
        self.notify("Copied the selected text. Press ctrl+c again to leave.")

    def on_paste(self, event: events.Paste) -> None:
        """Warn that no widget has taken the pasted text."""
        if event.text:
            self.notify(_NO_TEXT_FIELD, severity="warning")

    def get_default_screen(self) -> Dashboard:
        config = self.options.config
        context = Context(
            self.api,
            self.session,
            self.names,
            self.traffic,
            self.tokens,
            saved=self.saved,
            profiles=[*config.profiles],
            themes=self._themes,
            commands=config.commands,
            key_variables=config.key_variables,
            chosen_keys=config.keys if self.options.tour_pace is None else {},
        )
        first = OVERVIEW if self.options.shows_demo else PLACES[0]
        return Dashboard(context, first, self._command_keys, self.options.resume)

    @property
    def dashboard(self) -> Dashboard:
        """The screen below any open dialogs."""
        screen = self.screen_stack[0]
        assert isinstance(screen, Dashboard)
        return screen

    def action_command_palette(self) -> None:
        """Open the command line, which is also the palette, unless a dialog is open."""
        if self.screen is self.dashboard:
            self.dashboard.action_command_line()

    def get_key_display(self, binding: Binding) -> str:
        """Return the key as it is written in the help, the key bar and the palette."""
        return spelled(binding.key)

    def get_css_variables(self) -> dict[str, str]:
        """Return the theme's variables; the profile can replace the colour of the label TEST or LIVE."""
        variables = super().get_css_variables()
        if self.profile is not None and self.profile.mode_color is not None:
            color = self.profile.mode_color
            text = Color.parse(color).get_contrast_text(1.0).hex
            for mode in ("mode-test", "mode-live"):
                variables |= {mode: color, f"{mode}-text": text}
            self.theme_variables = variables
        return variables

    # ------------------------------------------------------------------ the server

    def on_mount(self) -> None:
        self.session.on_change = self._post_session_changed
        if self.options.last_place_file:
            self.set_interval(_SAVE_LAST_PLACE_SECONDS, self._save_last_place)
        # Draw the screen first and connect then, because the server may answer late.
        self.call_after_refresh(self._connecting.connect)
        # The tour presses keys that change data, so it runs only in a demo.
        if self.options.tour_pace is not None and self.options.shows_demo:
            self._tour = self._make_tour(self.options.tour_pace)
            self.call_after_refresh(self._tour.start)

    def _make_tour(self, pace: float) -> Tour:
        from ledger_tui.features.tour import Tour

        return Tour(self, self.keys, self.session, self._is_reading, pace)

    @while_running
    def _save_last_place(self) -> None:
        """Save the user's place, so that the browser page begins at this place when it is reloaded."""
        if self._has_begun and (place := self.dashboard.navigation.last_place) != self.last_place:
            self.last_place = place
            save_last_place(Path(self.options.last_place_file), self.options.connection, place)

    def _is_reading(self) -> bool:
        """Return whether the screen still waits for data or for the result of a key."""
        asking = any(worker.is_running and worker.group in _GROUPS_OF_KEYS for worker in self.workers)
        match self.dashboard.view:
            case ResourceView() as view:
                return asking or not (view.model.window.loaded or view.model.problem)
            case view:
                return asking or view.unread

    def _post_session_changed(self) -> None:
        self.post_message(SessionChanged())

    @handles(ServerFailed)
    def server_failed(self, message: ServerFailed) -> None:
        self.failure = literal(message.sentence)
        self.exit(1, return_code=1)

    @handles(ServerEnded)
    def server_ended(self, message: ServerEnded) -> None:
        """Restart the dashboard's own server if the connection allows a restart without a question.

        Otherwise the status bar names the key that restarts the server.
        """
        restarts = self.connection.restarts_without_asking
        self.session.ended(literal(message.sentence))
        if restarts:
            self.notify("The server ended and is being restarted.", severity="warning")
            self._connecting.connect()
        self.refresh_bindings()

    def action_repair(self) -> None:
        """Restart the server if it has ended; otherwise repair the demo's selected receiver."""
        if self.session.state is ConnectionState.ENDED:
            self._connecting.connect()
        elif (endpoint := self.dashboard.broken_endpoint) is not None:
            self._connecting.repair(endpoint)

    @handles(SessionChanged)
    def session_changed(self) -> None:
        self.dashboard.session_changed()

    @handles(NamesLoaded)
    def names_loaded(self) -> None:
        self.dashboard.names_loaded()

    # ------------------------------------------------------------------ other connections

    @handles(ReconnectRequested)
    def reconnect(self, message: ReconnectRequested) -> None:
        """End this dashboard and start a new one, so that the new one contains no data of the former
        server.
        """
        if self.is_web:
            self.notify(
                "This page shows one server: start another --web with that profile.",
                severity="warning",
            )
            return
        config = replace(self.saved.in_config(self.options.config), theme=self.theme)
        if message.profile is not None:
            options = Options(
                profile=config.profiles[message.profile],
                read_only=self.options.read_only,
                config=config,
                config_file=self.options.config_file,
            )
        elif self.connection.own_server:
            self.notify("The dashboard's own server needs no other key.", severity="warning")
            return
        else:
            options = replace(self.options, key=message.key, config=config, tour_pace=None)
        self.next_options = options
        self.exit()

    @handles(SaveProfileRequested)
    def ask_to_save(self, message: SaveProfileRequested) -> None:
        if self.connection.own_server:
            self.notify("The dashboard's own server needs no profile.", severity="warning")
        else:
            self._connecting.save(message.name, self.options.profile)

    @handles(ProfileSaved)
    def profile_saved(self, message: ProfileSaved) -> None:
        """Add the saved profile to the profiles that the user can choose, so that no restart is needed."""
        config, profile = self.options.config, message.profile
        profiles = {**config.profiles, profile.name: profile}
        self.options = replace(self.options, config=replace(config, profiles=profiles))
        self.dashboard.context.profiles[:] = profiles
        self.notify(message.sentence, markup=False)

    # ------------------------------------------------------------------ signing in

    @handles(SignInRequested)
    def ask_to_sign_in(self) -> None:
        self.session.signed_out()
        self.action_sign_in()

    def action_sign_in(self) -> None:
        if self.connection.signs_in is not None:
            self._connecting.sign_in(self.connection.signs_in)

    @handles(Worker.StateChanged)
    def worker_ended(self, event: Worker.StateChanged) -> None:
        """Show an unexpected error of a worker instead of swallowing it."""
        if event.state is WorkerState.ERROR:
            self._show_fault(event.worker.error)

    @handles(WorkerFailed)
    def work_failed(self, message: WorkerFailed) -> None:
        self._show_fault(message.error)

    def _show_fault(self, error: BaseException | None) -> None:
        self.notify(f"unexpected {literal(masked(repr(error)))}", severity="error", markup=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "repair":
            has_ended = self.session.state is ConnectionState.ENDED
            return has_ended or (self.options.shows_demo and self.dashboard.broken_endpoint is not None)
        if action == "sign_in":
            return self.connection.signs_in is not None
        if action == "suspend_process":
            return self._can_suspend
        return True

    # ------------------------------------------------------------------ the terminal

    def use_16_colors_if_needed(self) -> None:
        """Use the theme of 16 colours if the terminal has only 16, unless the user has turned colours off."""
        if self.console.color_system == "standard" and not self.no_color:
            self.theme = THEME_OF_16_COLORS

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        # Textual's method would also write the cells that have not changed, and no setting prevents that.
        if isinstance(renderable, LayoutUpdate | ChopsUpdate):
            renderable = ChangedCells(renderable, self._screen_copy)
        super()._display(screen, renderable)

    def on_resize(self) -> None:
        self._screen_copy.forget()

    def refresh(self, *, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Write the whole screen, for example after another program used the terminal."""
        self._screen_copy.forget()
        return super().refresh(repaint=repaint, layout=layout, recompose=recompose)

    @property
    def _can_suspend(self) -> bool:
        """Whether the process can stop and leave the terminal to a shell. In a browser there is no shell."""
        return self._driver is not None and self._driver.can_suspend

    def action_suspend_process(self) -> None:
        """Restore the terminal and stop the process group, like ctrl+z in other programs; `fg` redraws the
        screen.

        Textual's own action stops this process alone. If `make run` started the dashboard, `make` would keep
        running, and the shell would wait for `make`. If no shell with job control could resume the group, the
        system ignores the signal, so the dashboard goes on.
        """
        if self._can_suspend:
            with self.suspend():
                textual_handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
                os.kill(0, signal.SIGTSTP)
                signal.signal(signal.SIGTSTP, textual_handler)

    # ------------------------------------------------------------------ the end

    async def action_quit(self) -> None:
        """Quit. If input in an open dialog would be lost, ask first. If the user presses the same key again
        instead of answering, quit.
        """
        question = self.screen if isinstance(self.screen, ConfirmScreen) else None
        loss = next((text for dialog in reversed(self._dialogs) if (text := dialog.unfinished)), "")
        if not loss or (question is not None and question.labels is QUIT):
            self.exit()
            return
        # If the open question asks whether to leave a form, answer no: the next question replaces it.
        if question is not None and question.labels is LEAVE:
            question.dismiss(False)
        self.push_screen(ConfirmScreen(f"Quit the dashboard? {loss}", labels=QUIT), self._quit_answered)

    @property
    def _dialogs(self) -> list[Dialog[Any]]:
        return [screen for screen in self.screen_stack if isinstance(screen, Dialog)]

    def _quit_answered(self, quits: bool | None) -> None:
        if quits:
            self.exit()

    def action_help_quit(self) -> None:
        """Handle ctrl+c on a screen without a dialog: show which keys quit. A second ctrl+c quits."""
        if self._interrupted_again():
            self.exit()
        else:
            self.notify("Press ctrl+c again to quit; q and ctrl+q quit too.")

    def _interrupted_again(self) -> bool:
        """Return whether the previous key was ctrl+c too, and its message is still on the screen."""
        before, self._interrupted_at = self._interrupted_at, time.monotonic()
        return self._interrupted_at - before < self.NOTIFICATION_TIMEOUT

    def exit(self, result: int | None = None, return_code: int = 0, message: Any = None) -> None:
        """End the application, and remember the user's place for the next start.

        Textual cannot end an application whose first screen is not mounted yet. In this case the application
        ends as soon as the dashboard shows its first view.
        """
        if self.is_running and not self._has_begun:
            self._exit_when_begun = partial(self.exit, result, return_code, message)
            return
        if self.is_running and self.screen_stack:
            self.last_place = self.dashboard.navigation.last_place
        super().exit(result, return_code, message)

    @handles(FirstViewShown)
    def _note_begin(self) -> None:
        self._has_begun = True
        if self._exit_when_begun is not None:
            self._exit_when_begun()

    def _fatal_error(self) -> None:
        # Replaces Textual's method. Textual's report prints the variables of every frame, which include keys
        # and the server's answers.
        error = sys.exc_info()[1] or self._exception
        self.bell()
        if error is not None:
            self._exit_renderables.append(Text(crash_report(error, self.connection.secrets), end=""))
        self._close_messages_no_wait()

    async def on_unmount(self) -> None:
        self.session.on_change = lambda: None
        self.saved.save_panes()
        await self.connection.close()


# The report shows only the last frames, and of each file only the last parts of the path, because the full
# path contains the name of the user's home folder.
_FRAMES_KEPT = 6
_PARTS_KEPT = 3


def crash_report(error: BaseException, secrets: list[str]) -> str:
    """Return lines for stderr: the stack, the kind of error and its message, with every secret masked.

    `secrets` are values to mask in addition to all text that looks like a secret.
    """
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES_KEPT:]
    lines = [f"  {_short(frame.filename)}:{frame.lineno} in {frame.name}" for frame in frames]
    # Mask the secrets in the message, because the message may quote the server's answer or the typed text.
    message = _without(str(error), secrets)
    head = "ledger-tui failed and ended. Changes that the server confirmed are stored."
    return "\n".join([head, *lines, f"{type(error).__name__}: {message}", ""])


def _without(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, "••••")
    return literal(masked(text))[:500]


def _short(file: str) -> str:
    return "/".join(Path(file).parts[-_PARTS_KEPT:])
