"""The command line and the themes of the main screen."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual import work
from textual.content import Content
from textual.screen import Screen

from ledger_tui.config import BadConfig, config_file
from ledger_tui.messages import ReconnectRequested, SaveProfileRequested
from ledger_tui.own_commands import OwnCommand, environment, run
from ledger_tui.screens.choose import ChooseScreen
from ledger_tui.screens.confirm import ConfirmScreen
from ledger_tui.state.session import Mode
from ledger_tui.state.text import literal
from ledger_tui.widgets.navigation import Navigation
from ledger_tui.widgets.resource_view import ResourceView
from ledger_tui.widgets.view import Context

if TYPE_CHECKING:
    from ledger_tui.resources.command_line import Command


class Commanded(Screen[None]):
    """A screen with a command line, which goes to other screens, servers and themes."""

    navigation: Navigation
    _view_context: Context

    @abstractmethod
    def action_help(self) -> None:
        """Show the keys."""

    # ------------------------------------------------------------------ the user's own commands

    def action_own_command(self, name: str) -> None:
        """Run a command of the config file with the selected record; where money is live, ask first."""
        command, view = self._view_context.commands[name], self.navigation.view
        record = view.selected
        if record is None or (command.screens and view.place.kind not in command.screens):
            self.notify(f"{name} is for {' and '.join(command.screens) or 'a record'}: select one first.")
            return
        session = self._view_context.session
        variables = environment(record, view.place.kind, session.url)
        if session.mode is Mode.TEST:
            self._run_own(command, variables)
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._run_own(command, variables)

        text = f"Run {name} with {literal(record.get('id', ''))}?\n\n{literal(command.run)}"
        self.app.push_screen(ConfirmScreen(text, None, session.mode), answered)

    @work(group="own-command", exit_on_error=False)
    async def _run_own(self, command: OwnCommand, variables: Mapping[str, str]) -> None:
        self.notify(await run(command, variables), markup=False)

    # ------------------------------------------------------------------ the command line

    def action_command_line(self) -> None:
        from ledger_tui.resources.command_line import Choices
        from ledger_tui.screens.command_line import CommandScreen

        context = self._view_context
        choices = Choices(context.profiles, [*context.themes], context.names)
        self.app.push_screen(CommandScreen(choices), self._run_command)

    async def _run_command(self, command: Command | None) -> None:
        if command is None:
            return
        match command.kind:
            case "screen":
                await self.navigation.go(command.argument)
                view = self.navigation.view
                if isinstance(view, ResourceView):
                    view.set_filters(dict(command.filters))
            case "object":
                await self.navigation.open_object(command.argument)
            case "profile":
                self.post_message(ReconnectRequested(profile=command.argument))
            case "key":
                from ledger_tui.screens.command_line import KeyScreen

                self.app.push_screen(KeyScreen(), self._use_key)
            case "save":
                self.post_message(SaveProfileRequested(command.argument))
            case "theme":
                self._keep_theme(command.argument)
            case "help":
                self.action_help()
            case "quit":
                await self.app.action_quit()

    def _use_key(self, key: str | None) -> None:
        if key is not None:
            self.post_message(ReconnectRequested(key=key))

    # ------------------------------------------------------------------ themes

    def action_themes(self) -> None:
        """Preview each highlighted theme; enter keeps it, and esc restores the old one."""
        before = self.app.theme
        names = [*self._view_context.themes]
        about = self._view_context.themes.items()
        lines = [Content.assemble(f"{name:<17} ", (text, "$muted")) for name, text in about]

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
            self.notify(
                f"The theme could not be saved and lasts until you quit: {literal(error)}",
                severity="warning",
                markup=False,
            )
