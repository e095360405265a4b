"""What the main screen does for the command line, the themes and the user's own commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.content import Content
from textual.message import Message
from textual.screen import Screen

from ledger_tui.app.navigation import Navigation
from ledger_tui.client.errors import LedgerError, NotOffered
from ledger_tui.client.session import Mode
from ledger_tui.features.past.machine import MomentAsked
from ledger_tui.features.test_helpers import PART, HelperRequested
from ledger_tui.formats.text import literal
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.registry import BY_KIND
from ledger_tui.settings.config import BadConfig, config_file
from ledger_tui.settings.own_commands import OwnCommand, environment, run
from ledger_tui.settings.private_files import write_private
from ledger_tui.ui.dialogs import ChooseScreen, confirm
from ledger_tui.ui.view import Context

if TYPE_CHECKING:
    from ledger_tui.app.command_line import Command, Offer


@dataclass
class ReconnectRequested(Message):
    """The user asks for another server, by its profile, or for another key for this one."""

    profile: str | None = field(default=None, kw_only=True)
    key: str | None = field(default=None, kw_only=True)


@dataclass
class SaveProfileRequested(Message):
    """The user asks to save the connection as a profile."""

    name: str


class OwnCommands:
    """Runs the user's own commands with the selected record."""

    def __init__(self, screen: Screen[Any], navigation: Navigation, context: Context) -> None:
        self._screen = screen
        self._navigation = navigation
        self._context = context

    def ask(self, name: str) -> None:
        """Run a command of the config file with the selected record; where money is live, ask first."""
        command, view = self._context.commands[name], self._navigation.view
        record = view.selected
        if record is None or (command.screens and view.place.kind not in command.screens):
            self._screen.notify(
                f"{name} is for {' and '.join(command.screens) or 'a record'}: select one first."
            )
            return
        session = self._context.session
        variables = environment(record, view.place.kind, session.url)
        if session.mode is Mode.TEST:
            self._start(command, variables)
            return
        text = f"Run {name} with {literal(record.get('id', ''))}?\n\n{literal(command.run)}"
        confirm(self._screen.app, text, None, session.mode, lambda: self._start(command, variables))

    def _start(self, command: OwnCommand, variables: Mapping[str, str]) -> None:
        self._screen.app.run_worker(self._run(command, variables), group="own-command", exit_on_error=False)

    async def _run(self, command: OwnCommand, variables: Mapping[str, str]) -> None:
        self._screen.notify(await run(command, variables, self._context.key_variables), markup=False)


# Of use only as keys, or the command line itself; a screen's own name is a command.
_NOT_OFFERED = ("move", "open", "newest", "oldest", "show.", "command_line")


class ThemeChoice:
    """Chooses a theme and keeps it in the config file; `themes` has a few words on each."""

    def __init__(self, screen: Screen[Any], themes: Mapping[str, str]) -> None:
        self._screen = screen
        self._themes = themes

    def choose(self) -> None:
        """Preview each highlighted theme; enter keeps it, and esc restores the old one."""
        before = self._screen.app.theme
        names = [*self._themes]
        about = self._themes.items()
        lines = [Content.assemble(f"{name:<17} ", (text, "$muted")) for name, text in about]

        def preview(number: int) -> None:
            self._screen.app.theme = names[number]

        def chosen(number: int | None) -> None:
            if number is None:
                self._screen.app.theme = before
            else:
                self.keep(names[number])

        at = names.index(before) if before in names else 0
        self._screen.app.push_screen(ChooseScreen("Themes", lines, at, preview), chosen)

    def keep(self, name: str) -> None:
        """Use a theme, also at the next start."""
        self._screen.app.theme = name
        from ledger_tui.settings.config_edit import set_theme

        try:
            set_theme(config_file(), name)
        except (BadConfig, OSError) as error:
            self._screen.notify(
                f"The theme could not be saved. It applies until you quit. ({literal(error)})",
                severity="warning",
                markup=False,
            )


class CommandLine:
    """Opens the command line and runs what was typed; `show_help` shows the keys."""

    def __init__(
        self,
        screen: Screen[Any],
        navigation: Navigation,
        context: Context,
        themes: ThemeChoice,
        show_help: Callable[[], None],
    ) -> None:
        self._screen = screen
        self._navigation = navigation
        self._context = context
        self._themes = themes
        self._show_help = show_help

    def open(self, line: str = "") -> None:
        """Ask for a command; `line` is the beginning of it."""
        from ledger_tui.app.command_line import Choices, CommandScreen

        context, actions = self._context, [*self._actions(), *self._recent()]
        helpers = None if PART in context.session.missing_parts else self._navigation.snapshot_names
        now_ms = round(context.session.present_time * 1000)
        choices = Choices(context.profiles, [*context.themes], context.names, helpers, now_ms)
        # They would cover what is typed. Textual removes them only from the screen on top: still this one.
        self._screen.app.clear_notifications()
        self._screen.app.push_screen(CommandScreen(choices, actions, self._navigation, line), self._run)

    def _actions(self) -> Iterator[Offer]:
        """Yield what has a key here, except screens, which are commands."""
        from ledger_tui.app.command_line import action_offer

        app, seen = self._screen.app, set()
        for node, binding, enabled, _tip in self._screen.active_bindings.values():
            name = binding.id or ""
            if enabled and name and binding.action not in seen and not name.startswith(_NOT_OFFERED):
                seen.add(binding.action)
                run = partial(app.run_action, binding.action, node)
                yield action_offer(name, binding.description, app.get_key_display(binding), run)

    def _recent(self) -> Iterator[Offer]:
        """Yield the objects that were opened lately."""
        from ledger_tui.app.command_line import Offer

        for recent in self._context.recent:
            name = f"{BY_KIND[recent.kind].singular.capitalize()} {recent.label}".rstrip()
            yield Offer(name, recent.record_id, partial(self._navigation.open_recent, recent))

    async def _run(self, command: Command | None) -> None:
        if command is None:
            return
        match command.kind:
            case "run":
                if command.run is not None and isawaitable(done := command.run()):
                    await done
            case "screen":
                await self._navigation.go(command.argument)
                view = self._navigation.view
                if isinstance(view, ResourceView):
                    view.set_filters(dict(command.filters))
            case "object":
                await self._navigation.open_object(command.argument)
            case "profile":
                self._screen.post_message(ReconnectRequested(profile=command.argument))
            case "key":
                from ledger_tui.app.command_line import KeyScreen

                self._screen.app.push_screen(KeyScreen(), self._use_key)
            case "save":
                self._screen.post_message(SaveProfileRequested(command.argument))
            case "theme":
                self._themes.keep(command.argument)
            case "helper":
                if command.helper is not None:
                    self._screen.post_message(HelperRequested(command.helper))
            case "at":
                self._screen.post_message(MomentAsked(command.ms))
            case "date":
                if isinstance(view := self._navigation.view, ResourceView):
                    view.record_list.go_to_date(command.argument.replace(" ", "T"))
            case "prove":
                self._screen.app.run_worker(self._prove(), group="prove", exit_on_error=False)
            case "help":
                self._show_help()
            case "quit":
                await self._screen.app.action_quit()

    async def _prove(self) -> None:
        """Save the proof of the selected transaction or event to a file beside the exports."""
        from ledger_tui.resources.proofs import NO_LOG, read_proof

        record_id = str((self._navigation.view.selected or {}).get("id"))
        kind = {"txn": "transactions", "evt": "events"}.get(record_id[:3])
        if kind is None:
            self._screen.notify("Choose a transaction or an event first: those have a proof.")
            return
        file = Path(f"{record_id}.tlog-proof")
        try:
            proof = await read_proof(self._context.api, kind, record_id)
            if proof is None:
                self._screen.notify(NO_LOG)
                return
            await asyncio.to_thread(write_private, file, proof.text)
        except NotOffered:
            self._screen.notify(NO_LOG)
        except (LedgerError, OSError) as error:
            self._screen.notify(f"Not saved: {literal(error)}", severity="error", markup=False)
        else:
            said = f"Saved {file}; `ledger-engine check-proof` checks it against the event's body."
            self._screen.notify(said, markup=False)

    def _use_key(self, key: str | None) -> None:
        if key is not None:
            self._screen.post_message(ReconnectRequested(key=key))
