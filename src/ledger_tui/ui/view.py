"""The base class of the views, one for each screen, and the state and the messages that the views share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import ContentSwitcher

from ledger_tui.client.api import Api
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.client.session import Session
from ledger_tui.client.tokens import TokenManager
from ledger_tui.client.traffic import SentRequest, Traffic, masked
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import Cell, Link, Place, Resource, ResourceAction
from ledger_tui.resources.deliveries import has_failed
from ledger_tui.resources.endpoints import FailingEndpoints
from ledger_tui.settings.own_commands import OwnCommand
from ledger_tui.settings.saved import SavedChoices
from ledger_tui.ui.handlers import WorkerFailed, handles, while_running
from ledger_tui.ui.keymap import spelled, split_keys
from ledger_tui.ui.keys import BY_ID

KEPT = 100  # the maximum number of places in the history
RECENT_KEPT = 50  # the maximum number of recently opened objects


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the dashboard: a screen, its filters, and the object that was open, if any.

    `record` is that object, as the screen showed it last. `by_link` is true if a link led the user to this
    place.
    """

    kind: str
    filters: Mapping[str, str] = field(default_factory=dict)
    record_id: str | None = None
    record: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    by_link: bool = field(default=False, compare=False)


class NavigationHistory:
    """A history like a browser's: going to a new place forgets the places ahead."""

    def __init__(self) -> None:
        self._behind: list[Location] = []
        self._ahead: list[Location] = []

    def leave(self, location: Location) -> None:
        """Remember the place that the user leaves for a new one, and forget the places ahead."""
        if not self._behind or self._behind[-1] != location:
            self._behind.append(location)
            del self._behind[:-KEPT]
        self._ahead.clear()

    def clear(self) -> None:
        """Forget all places."""
        self._behind.clear()
        self._ahead.clear()

    def leads(self, step: int) -> bool:
        """Return whether a place precedes (`step` is -1) or follows (1) the present place."""
        return bool(self._behind if step < 0 else self._ahead)

    def back(self, here: Location) -> Location | None:
        """Return the place before the present place `here`; None at the beginning of the history."""
        return self._step(self._behind, self._ahead, here)

    def forward(self, here: Location) -> Location | None:
        """Return the place that the last call of `back` left; None if no such place is known."""
        return self._step(self._ahead, self._behind, here)

    @staticmethod
    def _step(source: list[Location], target: list[Location], here: Location) -> Location | None:
        while source:
            location = source.pop()
            if location != here:
                target.append(here)
                return location
        return None


@dataclass(frozen=True, slots=True)
class Recent:
    """An object that the user has opened, with its name in `label`."""

    kind: str
    record_id: str
    label: str


def recent_of(kind: str, record: Mapping[str, Any]) -> Recent:
    """Return an object, with its name, number, customer, description or email as the label.

    If the object has none of these, the label is "".
    """
    names = (record.get(field) for field in ("name", "number", "customer", "description", "email"))
    label = next((name for name in names if isinstance(name, str) and name), "")
    return Recent(kind, str(record.get("id", "")), label)


class RecentObjects:
    """The objects that the user opened last, the latest first."""

    def __init__(self) -> None:
        self._recent: OrderedDict[str, Recent] = OrderedDict()

    def saw(self, recent: Recent) -> None:
        self._recent.pop(recent.record_id, None)
        self._recent[recent.record_id] = recent
        while len(self._recent) > RECENT_KEPT:
            self._recent.popitem(last=False)

    def clear(self) -> None:
        """Forget all objects."""
        self._recent.clear()

    def __iter__(self) -> Iterator[Recent]:
        return iter(reversed(self._recent.values()))


# Containers that draw nothing themselves. Textual draws a container even if other widgets cover it
# completely, and to draw the container would cost as much as to draw the whole screen. With `BLANK`, Textual
# takes blank lines instead.
class ScreenRow(Horizontal):
    BLANK = True


class Stack(Vertical):
    BLANK = True


class Switcher(ContentSwitcher):
    BLANK = True


@dataclass
class ObjectFound(Message):
    """An object to navigate to was read, and its screen can be shown."""

    kind: str
    record: Record
    by_link: bool = field(kw_only=True)


class TokensChanged(Message):
    """The pair of tokens in use was replaced or removed."""


class NamesLoaded(Message):
    """Names and currencies of accounts were read; widgets that show them must redraw."""


@dataclass
class LocationOpened(Message):
    """The user wants to go to a location; esc will lead back from it."""

    location: Location


@dataclass
class LinkFollowed(Message):
    """The user wants to go where the link leads."""

    link: Link


@dataclass
class ActionRequested(Message):
    """The user asks for an action on an object."""

    resource: Resource
    action: ResourceAction
    record: Record


@dataclass
class BulkRequested(Message):
    """The user wants an action on marked objects. The state of each record in `records` allows the action."""

    action: ResourceAction
    records: Sequence[Record]


class BackRequested(Message):
    """The user wants to go back to an earlier place; the view has nothing left to close or clear first."""


# While the user holds a key down, the cursor passes rows too fast to draw the detail of each row or to read
# the account of each row. When the cursor has not moved for this time, `View.at_rest` draws the detail and
# reads the account of one row.
_REST_SECONDS = 0.06


@dataclass(frozen=True)
class Context:
    """The state that all screens share, for one server and one credential."""

    api: Api
    session: Session
    names: AccountNames
    traffic: Traffic
    tokens: TokenManager
    history: NavigationHistory = field(default_factory=NavigationHistory)
    recent: RecentObjects = field(default_factory=RecentObjects)
    saved: SavedChoices = field(default_factory=SavedChoices)
    failing: FailingEndpoints = field(default_factory=FailingEndpoints)
    profiles: list[str] = field(default_factory=list)  # the names of the profiles
    commands: Mapping[str, OwnCommand] = field(default_factory=dict)
    key_variables: Collection[str] = ()  # environment variables that own commands must not get
    chosen_keys: Mapping[str, str] = field(default_factory=dict)  # the config file's keys, by binding id
    # the names of the themes, each with a short description
    themes: Mapping[str, str] = field(default_factory=dict)

    def key_of(self, binding_id: str) -> str:
        """Return the first key of a binding as the user sees it, also if the config file chooses the key."""
        keys = self.chosen_keys.get(binding_id, BY_ID[binding_id].key)
        return spelled(split_keys(keys)[0])


class View(Widget):
    """The view of one screen, below the tabs."""

    BLANK = True  # draws nothing itself, like `ScreenRow`
    # The commands that the key bar suggests, next to the key that opens the command line.
    lines_offered = "flows"

    def __init__(self, place: Place, context: Context) -> None:
        super().__init__(id=place.kind)
        self.place = place
        self.context = context
        self.next_poll_at = 0.0
        self.problem = ""  # why the data could not be read
        self.reading = False
        self._moment = context.session.moment_ms  # the moment of the drawn data; None for the present
        self._rest: Timer | None = None
        self._hint = ""  # the last message about a key that did nothing here

    def on_mount(self) -> None:
        self._rest = self.set_interval(_REST_SECONDS, self._at_rest, pause=True)

    @property
    def selected(self) -> Record | None:
        """The record that keys act on."""
        return None

    @property
    def selected_id(self) -> str:
        """The id of the selected record; "" if no record is selected."""
        return str((self.selected or {}).get("id", ""))

    def record_being_read(self) -> Record | None:
        """Return the record that the user was reading when a key was pressed, even if another record has just
        taken its place.
        """
        return self.selected

    @property
    def failing_endpoint(self) -> str | None:
        """The id of the webhook endpoint whose failed delivery is selected."""
        record = self.selected
        if record is None or record.get("object") != "delivery" or not has_failed(record):
            return None
        return str(record.get("endpoint"))

    @property
    def unread(self) -> bool:
        """Whether some figures of the view have not been read yet."""
        return False

    @property
    def snapshots(self) -> list[str]:
        """The names of the server's snapshots. Only the screen of the test helpers reads them."""
        return []

    def shown_texts(self) -> Iterator[tuple[str, str]]:
        """Yield the texts shown for the selected record, each with its label."""
        return iter(())

    def why_not(self, _binding: Binding) -> str:
        """Return the reason why an inactive key does nothing now; "" if the view has no reason to show."""
        return ""

    def hint(self, sentence: str) -> None:
        """Show why a key did nothing here, until the user leaves this screen."""
        self._hint = sentence
        self.notify(sentence, markup=False)

    def end_hint(self) -> None:
        """Remove the last hint, unless another message has replaced it."""
        if self._hint and any(each.message == self._hint for each in self.app._notifications):
            self.app.clear_notifications()
        self._hint = ""

    @property
    def location(self) -> Location:
        """The place that the view shows, as a place to return to."""
        return Location(self.place.kind)

    def show_location(self, location: Location) -> None:
        """Show the place `location` again."""

    def show_traced(self, kind: str, record: Record) -> None:
        """Trace an object. Only the screen of the trace implements this."""

    def enter(self) -> None:
        """Read the data and take the focus, because this view is now shown."""
        self.next_poll_at = 0.0
        self.see_moment()
        self.focus_content()

    def see_moment(self) -> None:
        """Read the data of the shown moment, unless the drawn data already belongs to this moment."""
        if self._moment != self.context.session.moment_ms:
            self._moment = self.context.session.moment_ms
            self.moment_changed()

    def moment_changed(self) -> None:
        """Read the data again, because another moment is shown."""
        self.forget()
        self.tick()

    def forget(self) -> None:
        """Drop the data, because it belongs to another ledger or moment."""
        self.next_poll_at = 0.0

    def focus_content(self) -> None:
        """Take the focus."""
        self.focus()

    # ------------------------------------------------------------------ polling

    def tick(self) -> None:
        """Poll the server if the next poll is due and the rate limit allows it.

        The dashboard calls this about twice a second while the view is on screen.
        """
        session = self.context.session
        if session.clock() >= self.next_poll_at and not session.waiting_seconds and self.may_poll():
            self.next_poll_at = session.clock() + self.poll()

    def may_poll(self) -> bool:
        """Return whether no request is running."""
        return not self.reading

    def poll(self) -> float:
        """Begin to read the current data. Return the number of seconds until the next poll."""
        return self.context.session.poll_seconds

    def action_refresh(self) -> None:
        """Read the data again, and redraw the screen, because another program may have written on it."""
        self.app.refresh()
        self.next_poll_at = 0.0
        self.tick()

    def poll_soon(self) -> None:
        """Poll as soon as the rate limit allows it, because the user has changed something."""
        self.next_poll_at = 0.0
        self.tick()

    def action_back(self) -> None:
        self.post_message(BackRequested())

    # ------------------------------------------------------------------ results

    @handles(WorkerFailed)
    def work_failed(self, message: WorkerFailed) -> None:
        """Show an unexpected error of a worker, so that the screen does not wait for ever."""
        message.stop()
        self.failed(f"unexpected {literal(masked(repr(message.error)))}")

    def failed(self, problem: str) -> None:
        """Show why a worker failed, and no longer wait for its result."""
        self.problem, self.reading = problem, False
        self.draw()

    def draw(self) -> None:
        """Draw the data again, or the reason why it could not be read."""

    def changed(self) -> None:
        """Take note of a change: `at_rest` draws it `_REST_SECONDS` after the last change.

        A view that overrides this may also redraw one line at once.
        """
        if self._rest is not None:
            self._rest.reset()
            self._rest.resume()

    @while_running
    def _at_rest(self) -> None:
        assert self._rest is not None  # the timer calls this
        self._rest.pause()
        self.at_rest()

    def at_rest(self) -> None:
        """Draw anything larger than a line. A timer calls this `_REST_SECONDS` after the last change."""

    def names_loaded(self) -> None:
        """Redraw, because names and currencies of accounts were read."""

    def session_changed(self) -> None:
        """Redraw, because the connection or the rights of the credential have changed."""

    # ------------------------------------------------------------------ dialogs, which the main screen opens

    async def action_create(self) -> None:
        await self.screen.run_action("create")

    async def action_transfer(self) -> None:
        await self.screen.run_action("transfer")

    async def action_edit(self) -> None:
        await self.screen.run_action("edit")

    async def action_program(self, variable: str) -> None:
        await self.screen.run_action(f"program({variable!r})")

    # ------------------------------------------------------------------ copying

    def shown_path(self) -> str:
        """Return the path and query of the request that read the shown data."""
        return ""

    def shown_exchange(self) -> SentRequest:
        """Return the request that copy-as-curl copies."""
        return SentRequest("GET", self.context.session.url + self.shown_path(), None, None, None, 0.0, None)


# The one place that defines the style of each tone.
TONE_STYLES = {
    "plain": "$foreground",
    "dim": "$muted",
    "strong": "bold",
    "plus": "$plus",
    "minus": "$minus",
    "warn": "bold $warning",
    "bad": "bold $error",
    "accent": "$accent",
}


def toned(cell: Cell) -> Content:
    """Return a cell as styled text."""
    return Content.styled(cell.text, TONE_STYLES[cell.tone])


def toned_line(cells: Iterable[Cell]) -> Content:
    """Return cells side by side as styled text."""
    return Content("").join([toned(cell) for cell in cells])
