"""The dialog for signing in with the browser: the link, the wait, and the error if it fails."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from dataclasses import dataclass
from typing import Any

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from ledger_tui.client.errors import ClientError
from ledger_tui.client.oauth import OAuthApp, SignIn
from ledger_tui.client.records import Record
from ledger_tui.formats.text import literal
from ledger_tui.ui.dialogs import Dialog
from ledger_tui.ui.handlers import handles
from ledger_tui.ui.keys import KeyBar


@dataclass
class SignInEnded(Message):
    """The server issued tokens, or `sentence` says why not. `answer` contains secrets and is never shown."""

    answer: Record | None
    sentence: str


class SignInScreen(Dialog[dict[str, Any] | None]):
    """Returns the token response, or None when cancelled."""

    BINDINGS = [
        Binding("y", "copy", "copy the link", show=True),
        Binding("r", "again", "try again", show=True),
        Binding("escape", "cancel", "cancel", show=True),
    ]

    def __init__(self, app: OAuthApp) -> None:
        super().__init__()
        self._oauth = app
        self.link = ""
        self._waits = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="sign-in") as box:
            box.border_title = "Sign in"
            yield Static(id="sign-in-link")
            yield Static(id="sign-in-note")
            yield KeyBar()

    def on_mount(self) -> None:
        self.action_again()

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        return action != "again" or not self._waits

    def action_again(self) -> None:
        self._waits = True
        self.refresh_bindings()
        self._sign_in()

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self.link)
        self.notify("Copied the link", markup=False)

    def action_cancel(self) -> None:
        self.workers.cancel_node(self)
        self.dismiss(None)

    @work(group="sign-in", exclusive=True, exit_on_error=False)
    async def _sign_in(self) -> None:
        try:
            async with SignIn(self._oauth) as sign_in:
                self.link = sign_in.url
                self.call_later(self._show_link)
                if _has_windows():
                    await asyncio.to_thread(webbrowser.open, sign_in.url)
                answer = await sign_in.answer()
        except (ClientError, OSError) as error:
            self.post_message(SignInEnded(None, literal(error)))
        else:
            self.post_message(SignInEnded(answer, ""))

    def _show_link(self) -> None:
        text = Content.assemble(
            "This page opens in your browser; if it does not, open it yourself:\n\n",
            (literal(self.link), "$accent"),
        )
        self.query_one("#sign-in-link", Static).update(text)
        self._note("\nWaiting for you to sign in…")

    @handles(SignInEnded)
    def end(self, message: SignInEnded) -> None:
        if message.answer is not None:
            self.dismiss(message.answer)
            return
        self._waits = False
        self._note(f"\n✕ {message.sentence}", "bold $error")
        self.refresh_bindings()

    def _note(self, text: str, style: str = "$muted") -> None:
        self.query_one("#sign-in-note", Static).update(Content.styled(text, style))


def _has_windows() -> bool:
    """Return whether a browser would open its own window; one in the terminal would cover the dashboard."""
    named = (os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    return sys.platform in ("darwin", "win32") or any(named)
