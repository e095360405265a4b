"""One screen of the dashboard, whatever it shows: it is entered, looks again now and then, has keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

from textual.binding import Binding
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import Worker, WorkerState

from ledger_tui.client.api import Api
from ledger_tui.client.tokens import TokenManager
from ledger_tui.handlers import handles, while_running
from ledger_tui.messages import BackRequested, PartFailed
from ledger_tui.resources.base import Place
from ledger_tui.state.history import History, RecentObjects
from ledger_tui.state.names import AccountNames
from ledger_tui.state.session import Session
from ledger_tui.state.text import literal
from ledger_tui.state.traffic import Exchange, Traffic, masked
from ledger_tui.state.window import Record

# Held-down keys pass rows faster than a detail is worth drawing or an account worth asking for.
_REST_SECONDS = 0.06


@dataclass(frozen=True)
class Context:
    """What every screen works with: one server, seen with one credential."""

    api: Api
    session: Session
    names: AccountNames
    traffic: Traffic
    tokens: TokenManager
    history: History = field(default_factory=History)
    recent: RecentObjects = field(default_factory=RecentObjects)


class View(Widget):
    """A screen. Its workers answer with messages."""

    BLANK = True  # see widgets/blank.py

    def __init__(self, place: Place, context: Context) -> None:
        super().__init__(id=place.kind)
        self.place = place
        self.context = context
        self.next_look_at = 0.0
        self._rest: Timer | None = None

    def on_mount(self) -> None:
        self._rest = self.set_interval(_REST_SECONDS, self._at_rest, pause=True)

    @property
    def selected(self) -> Record | None:
        """The record the keys act on."""
        return None

    @property
    def paused(self) -> bool:
        """Whether what comes in waits until it is asked for."""
        return False

    def shown_texts(self) -> Iterator[tuple[str, str]]:
        """What stands on the screen of the selected record, each text with its label."""
        return iter(())

    def key_text(self, binding: Binding) -> str:
        """What the key bar calls a key of this screen as things are."""
        return binding.description

    def enter(self) -> None:
        """This view is shown now."""
        self.next_look_at = 0.0
        self.focus_content()

    def focus_content(self) -> None:
        """Take the keys."""
        self.focus()

    # ------------------------------------------------------------------ looking again

    def tick(self) -> None:
        """Called about twice a second while shown: look again when it is time, within the rate limit."""
        session = self.context.session
        if session.clock() >= self.next_look_at and not session.waiting_seconds and self.may_look():
            self.next_look_at = session.clock() + self.look()

    def may_look(self) -> bool:
        """Whether nothing is on its way already."""
        return True

    def look(self) -> float:
        """Ask the server how things are now; returns after how many seconds to do so again."""
        return self.context.session.poll_seconds

    def action_refresh(self) -> None:
        self.next_look_at = 0.0
        self.tick()

    def action_back(self) -> None:
        self.post_message(BackRequested())

    # ------------------------------------------------------------------ what comes in

    @handles(Worker.StateChanged)
    def worker_ended(self, event: Worker.StateChanged) -> None:
        """A fault of our own in a worker is told; it must not leave the screen waiting for ever."""
        event.stop()
        if event.state is WorkerState.ERROR:
            self._show_fault(event.worker.error)

    @handles(PartFailed)
    def part_failed(self, message: PartFailed) -> None:
        message.stop()
        self._show_fault(message.error)

    def _show_fault(self, error: BaseException | None) -> None:
        self.failed(f"unexpected {literal(masked(repr(error)))}")

    @abstractmethod
    def failed(self, problem: str) -> None:
        """Show that a worker failed; nothing more comes of it."""

    def changed(self) -> None:
        """Something shown is another; what costs more than a line is drawn when the eye rests."""
        if self._rest is not None:
            self._rest.reset()
            self._rest.resume()

    @while_running
    def _at_rest(self) -> None:
        if self._rest is not None:
            self._rest.pause()
        self.at_rest()

    def at_rest(self) -> None:
        """The eye stays where it is for a moment."""

    def names_loaded(self) -> None:
        """Names and currencies are known that were not."""

    def session_changed(self) -> None:
        """The way to the server, or what this credential may do, is another."""

    # ------------------------------------------------------------------ telling of it

    def shown_path(self) -> str:
        """The path, with its query, that reads what is shown."""
        return ""

    def shown_exchange(self) -> Exchange:
        """The request that copy-as-curl copies."""
        return Exchange("GET", self.context.session.url + self.shown_path(), None, None, None, 0.0, None)
