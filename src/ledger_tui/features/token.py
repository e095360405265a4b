"""Shows the credential in use, with its rights, limits and expiry, and signs the user in."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from ledger_client.errors import LedgerError, PermissionDenied
from ledger_tui.client.errors import NotOffered
from ledger_tui.client.oauth import OAuthApp, SignIn
from ledger_tui.client.records import Record
from ledger_tui.client.session import ConnectionState, Mode
from ledger_tui.client.tokens import EARLY_S, refusal_of
from ledger_tui.formats import plot
from ledger_tui.formats.text import fit, literal
from ledger_tui.resources.api_keys import scopes_of
from ledger_tui.resources.base import Cell, Place, Tone
from ledger_tui.resources.cells import text_of, time_of
from ledger_tui.ui.dialogs import Dialog
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.keys import TOKEN_KEYS, VIEW_KEYS
from ledger_tui.ui.view import Context, TokensChanged, View, toned_line

Lines = Sequence[Sequence[Cell]]
Draw = Callable[[int, int], Lines]
_LABEL_WIDTH = 14


class Panel(Widget):
    """A widget of lines. At each refresh, `draw` returns the lines for a width and a height."""

    DEFAULT_CSS = "Panel { width: 1fr; height: 1fr; padding: 0 1; }"

    def __init__(self, title: str, draw: Draw, *, id: str) -> None:
        super().__init__(id=id)
        self._title = title
        self._draw = draw

    def render(self) -> Content:
        width, height = self.content_size
        title = Content.styled(fit(self._title, width), "$muted underline")
        lines = [toned_line(cells).truncate(width, ellipsis=True) for cells in self._draw(width, height - 1)]
        return Content("\n").join([title, *lines[: max(0, height - 1)]])


def fact(label: str, *value: Cell) -> list[Cell]:
    """Return a line: a label, and a value that is aligned with the values of other lines."""
    return [Cell(fit(label, _LABEL_WIDTH - 1) + " ", "dim"), *value]


_KINDS = {"api_key": "API key", "access_token": "access token", "oauth_token": "OAuth token"}
_PLANS = {60: "free", 600: "pro", 6000: "enterprise"}  # docs/interface.md#rate-limits
_METER = 24


class TokenView(View, can_focus=True):
    """The screen of the credential in use. It shows at most the last four characters of a secret."""

    BINDINGS = [*TOKEN_KEYS, *VIEW_KEYS]

    def __init__(self, place: Place, context: Context) -> None:
        super().__init__(place, context)
        self.whoami: Record | None = None
        self.billing: Record | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="token-caption")
        with Horizontal(classes="upper"):
            yield Panel("credential", self._draw_credential, id="credential")
            yield Panel("limits", self._draw_limits, id="limits")
        yield Panel("tokens", self._draw_tokens, id="tokens")

    # ------------------------------------------------------------------ reading

    def poll(self) -> float:
        self._read()
        return self.context.session.pause_after(2) * 5

    @asks("whoami")
    async def _read(self) -> None:
        api = self.context.api
        try:
            whoami = (await api.read("/v1/whoami", part="whoami")).record
        except NotOffered:
            sentence = "This server does not describe credentials."
            self.call_later(self._take_whoami, None, None, sentence)
            return
        except LedgerError as error:
            self.call_later(self._take_whoami, None, None, literal(error))
            return
        try:
            billing = (await api.read("/v1/billing", part="billing")).record
        except (NotOffered, PermissionDenied):  # only an owner may read the usage
            billing = None
        except LedgerError as error:
            self.call_later(self._take_whoami, whoami, None, literal(error))
            return
        self.call_later(self._take_whoami, whoami, billing, "")

    @while_running
    def _take_whoami(self, whoami: Record | None, billing: Record | None, problem: str) -> None:
        """Show the credential in use and the project's quotas, or why they could not be read."""
        self.problem = problem
        self.whoami, self.billing = whoami, billing
        if whoami is not None:
            self.context.session.saw_livemode(whoami.get("livemode"))
            self.context.session.saw_scopes(whoami.get("scopes"))
        self.changed()

    # ------------------------------------------------------------------ tokens

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        tokens = self.context.tokens
        pair = tokens.tokens.pair
        if action == "back":
            return False
        if action == "exchange":
            is_allowed = tokens.key and not self.reading and not self.context.session.read_only
            return True if is_allowed else None
        if action == "rotate":
            return True if pair is not None and pair.refresh_token and not self.reading else None
        if action == "use_key":
            return True if pair is not None and tokens.key else None
        return True

    def why_not(self, binding: Binding) -> str:
        """Return the reason why the keystroke of `binding` cannot change the credential now."""
        tokens = self.context.tokens
        if binding.action == "exchange" and self.context.session.read_only:
            return self.context.session.why_no_change
        if self.reading:
            return "The last request is still running."
        if not tokens.key:
            return "This dashboard has no API key."
        if binding.action == "use_key":
            return "The API key is in use already."
        return "There is no refresh token; n exchanges the API key for tokens."

    def action_exchange(self) -> None:
        self._ask("exchange")

    def action_rotate(self) -> None:
        self._ask("refresh")

    def action_use_key(self) -> None:
        self.context.tokens.use_key()
        self.post_message(TokensChanged())
        self.credential_changed()

    def _ask(self, what: str) -> None:
        self.reading = True
        self.refresh_bindings()
        self._ask_server(what)

    @asks("tokens", exclusive=False)
    async def _ask_server(self, what: str) -> None:
        tokens = self.context.tokens
        try:
            await (tokens.exchange() if what == "exchange" else tokens.refresh())
        except LedgerError as error:
            self.call_later(self._tokens_requested, literal(refusal_of(error)))
        else:
            self.call_later(self._tokens_requested, "")

    @while_running
    def _tokens_requested(self, problem: str) -> None:
        self.reading = False
        if problem:
            self.notify(problem, severity="error", markup=False)
        else:
            self.notify("Tokens are in use instead of the key")
        self.post_message(TokensChanged())
        self.credential_changed()

    def credential_changed(self) -> None:
        """Read the data again, because another credential may have other rights."""
        self.next_poll_at = 0.0
        self.tick()
        self.changed()
        self.refresh_bindings()

    def draw(self) -> None:
        self.changed()

    # ------------------------------------------------------------------ drawing

    def tick(self) -> None:
        super().tick()
        self.query_one("#limits").refresh()  # the panel counts down seconds
        self.query_one("#tokens").refresh()

    def changed(self) -> None:
        self.query_one("#token-caption", Static).update(
            Content.assemble(
                (" Token status", "bold"), (f"  {self.problem}" if self.problem else "", "$muted")
            )
        )
        for panel in self.query(Panel):
            panel.refresh()
        super().changed()

    def shown_path(self) -> str:
        return "/v1/whoami"

    def shown_texts(self) -> Iterator[tuple[str, str]]:
        """Yield the ids of the credential, its project and its user."""
        for name in ("id", "project", "user"):
            yield name, str((self.whoami or {}).get(name, ""))

    def _value(self) -> Cell:
        tokens = self.context.tokens
        pair = tokens.tokens.pair
        value = pair.access_token if pair is not None else tokens.key
        if not value:
            return Cell("none", "dim")
        prefix = value[: value.rfind("_") + 1]
        return Cell(f"{literal(prefix)}…{literal(value[-4:])}", "strong")

    def _draw_credential(self, _width: int, _height: int) -> Lines:
        whoami = self.whoami or {}
        pair = self.context.tokens.tokens.pair
        kind = str(whoami.get("kind") or ("access_token" if pair is not None else "api_key"))
        mode = self.context.session.mode
        modes: dict[Mode, Cell] = {
            Mode.LIVE: Cell("◆ LIVE: real money", "warn"),
            Mode.TEST: Cell("test", "plain"),
            Mode.UNKNOWN: Cell("not known", "dim"),
        }
        lines = [
            fact("in use", self._value()),
            fact("kind", Cell(_KINDS.get(kind, literal(kind)))),
            fact("mode", modes[mode]),
            fact("role", text_of(whoami, "role")),
            fact("scopes", scopes_of(whoami) if self.whoami else Cell("–", "dim")),
            fact("project", text_of(whoami, "project", "dim")),
            fact("id", text_of(whoami, "id", "dim")),
            fact("since", time_of(whoami, "created")),
        ]
        if whoami.get("user") is not None:
            lines.insert(5, fact("acts for", text_of(whoami, "user")))
        return lines

    def _plan(self) -> Cell:
        plan = (self.whoami or {}).get("plan")
        if plan is not None:
            return Cell(literal(plan))
        # If the server refuses the credential, the limit is for unknown callers and belongs to no plan.
        if self.context.session.state is ConnectionState.REFUSED:
            return Cell("unknown", "dim")
        guess = _PLANS.get(self.context.session.limit or 0)
        return Cell(f"probably {guess}" if guess else "–", "dim")

    def _draw_limits(self, width: int, _height: int) -> Lines:
        session, whoami = self.context.session, self.whoami or {}
        lines: list[list[Cell]] = [fact("plan", self._plan())]
        if session.limit and session.remaining is not None:
            share = session.remaining / session.limit
            tone: Tone = "warn" if share < 0.1 else "accent"
            bar_text, empty = plot.meter(share, max(4, min(_METER, width - 16)))
            lines += [
                fact("this minute", Cell(f"{session.remaining:,} of {session.limit:,} left")),
                fact("", Cell(bar_text, tone), Cell(empty, "dim")),
                fact("resets in", Cell(f"{session.reset_seconds} s")),
            ]
        else:
            lines.append(fact("this minute", Cell("this server does not send its rate limit", "dim")))
        burst = whoami.get("burst")
        if isinstance(burst, int):
            lines.append(fact("burst", Cell(f"{burst:,} in a second")))
        object_count = (self.billing or {}).get("stored_objects")
        most = whoami.get("stored_objects_max")
        if isinstance(object_count, int):
            limit = f" of {most:,} objects" if isinstance(most, int) else " objects, no limit"
            lines.append(fact("stored", Cell(f"{object_count:,}{limit}")))
        hooks = whoami.get("webhook_endpoints_max")
        if self.whoami is not None:
            lines.append(fact("endpoints", Cell(f"up to {hooks}" if isinstance(hooks, int) else "no limit")))
        return lines

    def _draw_tokens(self, width: int, _height: int) -> Lines:
        token_manager = self.context.tokens
        tokens = token_manager.tokens
        if tokens.problem:
            advice = [] if self.context.session.read_only else [[Cell("n exchanges the key again.", "dim")]]
            return [[Cell(f"✕ {literal(tokens.problem)}", "bad")], *advice]
        if self.reading:
            return [[Cell("waiting for the server…", "dim")]]
        if tokens.pair is None:
            lines_shown = [Cell("Every request sends the API key itself.", "dim")]
            offer = "n exchanges it for an access token, which lasts an hour and is then renewed."
            return [lines_shown] if self.context.session.read_only else [lines_shown, [Cell(offer, "dim")]]
        share = tokens.left / tokens.pair.expires_in
        bar_text, empty = plot.meter(share, max(4, min(2 * _METER, width - 16)))
        tone: Tone = "accent" if tokens.left > EARLY_S else "warn"
        due = tokens.due_in
        renewal = "cannot be renewed" if due is None else f"renews itself in {_clock(due)}"
        times = {0: "not yet", 1: "once"}.get(tokens.rotations, f"{tokens.rotations} times")
        return [
            fact("access token", Cell(f"expires in {_clock(tokens.left)}", "strong")),
            fact("", Cell(bar_text, tone), Cell(empty, "dim")),
            fact("refresh token", Cell(renewal), Cell("   L does it now", "dim")),
            fact("rotated", Cell(times)),
        ]


def _clock(seconds: float) -> str:
    """Return seconds as minutes and seconds, such as `59:08`."""
    whole = int(seconds)
    return f"{whole // 60}:{whole % 60:02d}"


class SignInScreen(Dialog[Any]):
    """Signs the user in through the browser. Returns the new tokens, or None if the user cancels."""

    BINDINGS = [
        Binding("y", "copy", "copy the link", show=True),
        Binding("r", "again", "try again", show=True),
        Binding("escape", "cancel", "cancel", show=True),
    ]

    def __init__(self, app: OAuthApp) -> None:
        super().__init__("sign-in", "Sign in")
        self._oauth = app
        self.link = ""

    def content(self) -> ComposeResult:
        yield Static(id="sign-in-link")
        yield self.notes

    def on_mount(self) -> None:
        self.action_again()

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        return action != "again" or not self.working

    def action_again(self) -> None:
        self.begin("")
        self._sign_in()

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self.link)
        self.notify("Copied the link", markup=False)

    def action_cancel(self) -> None:
        self.workers.cancel_node(self)
        self.dismiss(None)

    @asks("sign-in")
    async def _sign_in(self) -> None:
        try:
            async with SignIn(self._oauth) as sign_in:
                self.link = sign_in.url
                self.call_later(self._show_link)
                if _has_windows():
                    await asyncio.to_thread(webbrowser.open, sign_in.url)
                answer = await sign_in.answer()
        except (LedgerError, OSError) as error:
            self.call_later(self._refused, literal(error))
        else:
            self.call_later(self.end, answer)

    def _show_link(self) -> None:
        text = Content.assemble(
            "This page opens in your browser; if it does not, open it yourself:\n\n",
            (literal(self.link), "$accent"),
        )
        self.query_one("#sign-in-link", Static).update(text)
        self.note("Waiting for you to sign in…")

    @while_running
    def _refused(self, sentence: str) -> None:
        self.rest(sentence, problem=True)


def _has_windows() -> bool:
    """Return whether the browser opens a window. A browser in the terminal would cover the dashboard."""
    values = (os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    return sys.platform == "darwin" or any(values)
