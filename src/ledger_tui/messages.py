"""Messages between widgets. Workers post their results as messages, and a handler each changes the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual.message import Message

from ledger_tui.resources.base import Action, Link, Resource
from ledger_tui.state.history import Location
from ledger_tui.state.trace import Trace
from ledger_tui.state.webhook_log import Listening
from ledger_tui.state.window import Page, Record, Want

if TYPE_CHECKING:
    from ledger_tui.client.stream import ReceivedEvent


class SessionChanged(Message):
    """The connection, the mode or the rate limit has changed."""


class Begun(Message):
    """The dashboard has its first view, and can be ended from now on."""


class ServerFailed(Message):
    """The embedded server did not start, so there is nothing to show."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self.sentence = sentence


class PartFailed(Message):
    """A worker of a widget failed; `error` is an unexpected error in the dashboard's code."""

    def __init__(self, error: BaseException | None) -> None:
        super().__init__()
        self.error = error


class PageLoaded(Message):
    def __init__(self, want: Want, page: Page) -> None:
        super().__init__()
        self.want = want
        self.page = page


class PageFailed(Message):
    """`newer_refused`: the server does not page upwards; `forbidden`: the credential may not read it."""

    def __init__(
        self, want: Want, sentence: str, *, newer_refused: bool = False, forbidden: bool = False
    ) -> None:
        super().__init__()
        self.forbidden = forbidden
        self.newer_refused = newer_refused
        self.want = want
        self.sentence = sentence


class RecordLoaded(Message):
    """An object was read by its id, to be shown in the detail pane."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record


class RecordFailed(Message):
    def __init__(self, record_id: str, sentence: str) -> None:
        super().__init__()
        self.record_id = record_id
        self.sentence = sentence


class ObjectFound(Message):
    """An object to navigate to was read, and its screen can be shown."""

    def __init__(self, kind: str, record: Record, *, by_link: bool) -> None:
        super().__init__()
        self.kind = kind
        self.record = record
        self.by_link = by_link


class RowFound(Message):
    """The object whose row the cursor is to stand on was read."""

    def __init__(self, kind: str, record: Record) -> None:
        super().__init__()
        self.kind = kind
        self.record = record


class ObjectNotFound(Message):
    """The object to navigate to could not be read; `sentence` says why."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self.sentence = sentence


class NamesLoaded(Message):
    """Names and currencies of accounts were read; whatever shows them is to be redrawn."""


class AccountsRead(Message):
    """Accounts were read by a search for a name."""


class EventsReceived(Message):
    """Events arrived on the stream, in the order they happened."""

    def __init__(self, received: Sequence[ReceivedEvent]) -> None:
        super().__init__()
        self.received = received


class ListeningChanged(Message):
    """The event stream was connected or disconnected."""

    def __init__(self, listening: Listening) -> None:
        super().__init__()
        self.listening = listening


class TraceLoaded(Message):
    """A trace, or a part of it so far, was read; None when it could not be, for the reason in `problem`."""

    def __init__(self, trace: Trace | None, problem: str = "") -> None:
        super().__init__()
        self.trace = trace
        self.problem = problem


class DeliveriesLoaded(Message):
    """The endpoints and their newest deliveries were read; `problem` says why when they were not."""

    def __init__(self, endpoints: Sequence[Record], deliveries: Sequence[Record], problem: str = "") -> None:
        super().__init__()
        self.endpoints = endpoints
        self.deliveries = deliveries
        self.problem = problem


class FigureLoaded(Message):
    """A figure of the overview was read; when `figure` is a text, it says why there is none."""

    def __init__(self, name: str, figure: Any) -> None:
        super().__init__()
        self.name = name
        self.figure = figure


class WhoamiLoaded(Message):
    """The credential in use and its project's quotas were read; `problem` says why when they were not."""

    def __init__(self, whoami: Record | None, billing: Record | None, problem: str) -> None:
        super().__init__()
        self.whoami = whoami
        self.billing = billing
        self.problem = problem


class TokensRequested(Message):
    """A request for tokens has ended; `problem` is empty when it succeeded."""

    def __init__(self, problem: str) -> None:
        super().__init__()
        self.problem = problem


class TokensChanged(Message):
    """The pair of tokens in use was replaced or removed."""


class LocationOpened(Message):
    """The user goes to a screen with its filters and an object, and comes back with esc."""

    def __init__(self, location: Location) -> None:
        super().__init__()
        self.location = location


class LinkFollowed(Message):
    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link


class CreateRequested(Message):
    """The user asks for the form that creates an object of the view's resource."""


class EditRequested(Message):
    """The user asks for the form that changes an object."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record


class MoreLoaded(Message):
    """The rest of a detail, beyond its record, was read; `more` is a ClientError when that failed."""

    def __init__(self, record: Record, more: Any) -> None:
        super().__init__()
        self.record = record
        self.more = more


class ActionRequested(Message):
    """The user asks for an action on an object."""

    def __init__(self, resource: Resource, action: Action, record: Record) -> None:
        super().__init__()
        self.resource = resource
        self.action = action
        self.record = record


class ActionDone(Message):
    """An action succeeded; `record` is the object as the server has it now, `secret` is shown once."""

    def __init__(self, wanted: ActionRequested, record: Record, secret: str | None = None) -> None:
        super().__init__()
        self.wanted = wanted
        self.record = record
        self.secret = secret


class ActionFailed(Message):
    """An action failed; with `unanswered` no answer came, so that it may have succeeded."""

    def __init__(self, wanted: ActionRequested, sentence: str, *, unanswered: bool = False) -> None:
        super().__init__()
        self.wanted = wanted
        self.sentence = sentence
        self.unanswered = unanswered


class BackRequested(Message):
    """The user goes back, and the view has nothing left to close."""


class FieldChanged(Message):
    """The value of a form's field has changed; `entry` is its widget's id."""

    def __init__(self, entry: str | None) -> None:
        super().__init__()
        self.entry = entry


class FormSent(Message):
    """The server created or changed the object."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record


class FormRefused(Message):
    """The values of a form are wrong: the errors by field name, "" for the form as a whole."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__()
        self.errors = errors


class FormAlreadySent(Message):
    """An earlier request with this idempotency key succeeded, but its answer was lost.

    `otherwise` says how the earlier request may differ from what was sent now.
    """

    def __init__(self, original: str | None, otherwise: str) -> None:
        super().__init__()
        self.original = original
        self.otherwise = otherwise


class FormHeldBack(Message):
    """The user did not confirm that the form is to be sent."""


class FormInFlight(Message):
    """The form's request was sent, or still waits for the rate limit."""

    def __init__(self, in_flight: bool) -> None:
        super().__init__()
        self.in_flight = in_flight


class FormUnanswered(Message):
    """No answer came, so that the request may have succeeded; `sentence` says why."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self.sentence = sentence


class Created(Message):
    """A form has created or changed an object."""

    def __init__(
        self, record: Record | None, sentence: str, secret: str | None = None, *, edited: bool = False
    ) -> None:
        super().__init__()
        self.record = record  # None when unknown: an earlier request created it
        self.sentence = sentence
        self.secret = secret  # shown once
        self.edited = edited  # changed, not created


class ExportProgressed(Message):
    """An export has written `rows` rows; `total` is how many there are, if the server says."""

    def __init__(self, rows: int, total: int | None) -> None:
        super().__init__()
        self.rows = rows
        self.total = total


class ExportEnded(Message):
    """An export has ended: `sentence` is the file, or says why it failed when `rows` is None.

    `there`: it failed because the file exists.
    """

    def __init__(self, rows: int | None, sentence: str, *, there: bool = False) -> None:
        super().__init__()
        self.rows = rows
        self.sentence = sentence
        self.there = there


class SignInRequested(Message):
    """There is no token to send: the user has to sign in."""


class SignInEnded(Message):
    """The server issued tokens, or `sentence` says why not. `answer` contains secrets and is never shown."""

    def __init__(self, answer: Record | None, sentence: str) -> None:
        super().__init__()
        self.answer = answer
        self.sentence = sentence


class ReconnectRequested(Message):
    """The user asks for another server, by its profile, or for another key for this one."""

    def __init__(self, *, profile: str | None = None, key: str | None = None) -> None:
        super().__init__()
        self.profile = profile
        self.key = key


class SaveProfileRequested(Message):
    """The user asks to save the connection as a profile."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class ServerEnded(Message):
    """The dashboard's own server has ended; `sentence` is its last line of output."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self.sentence = sentence
