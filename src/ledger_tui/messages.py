"""What the parts tell each other. Workers answer with these; one `@on` handler each changes the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textual.message import Message

from ledger_tui.client.stream import ReceivedEvent
from ledger_tui.resources.base import Action, Link, Resource
from ledger_tui.state.webhook_log import Listening
from ledger_tui.state.window import Page, Record, Want


class SessionChanged(Message):
    """The connection, the mode, or the rate limit is another."""


class ServerFailed(Message):
    """The embedded server did not start; there is nothing to show."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self.sentence = sentence


class PartFailed(Message):
    """A worker of a part of a view failed; `error` is a fault of the dashboard's own."""

    def __init__(self, error: BaseException | None) -> None:
        super().__init__()
        self.error = error


class PageLoaded(Message):
    def __init__(self, want: Want, page: Page) -> None:
        super().__init__()
        self.want = want
        self.page = page


class PageFailed(Message):
    """`newer_refused`: the server does not page upwards; `forbidden`: not to this credential."""

    def __init__(
        self, want: Want, sentence: str, *, newer_refused: bool = False, forbidden: bool = False
    ) -> None:
        super().__init__()
        self.forbidden = forbidden
        self.newer_refused = newer_refused
        self.want = want
        self.sentence = sentence


class RecordLoaded(Message):
    """One object was read by its id, to be shown in the detail."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record


class RecordFailed(Message):
    def __init__(self, record_id: str, sentence: str) -> None:
        super().__init__()
        self.record_id = record_id
        self.sentence = sentence


class ObjectFound(Message):
    """An object that is gone to was read: its screen can be shown."""

    def __init__(self, kind: str, record: Record, *, by_link: bool) -> None:
        super().__init__()
        self.kind = kind
        self.record = record
        self.by_link = by_link


class ObjectNotFound(Message):
    """There is nothing to go to; `sentence` says why."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self.sentence = sentence


class NamesLoaded(Message):
    """Names and currencies of accounts became known; what shows them is drawn again."""


class AccountsRead(Message):
    """Accounts were read to find one by its name."""


class EventsReceived(Message):
    """Events came over the line, in the order they happened."""

    def __init__(self, received: Sequence[ReceivedEvent]) -> None:
        super().__init__()
        self.received = received


class ListeningChanged(Message):
    """The line on which events are heard stands, or it does not."""

    def __init__(self, listening: Listening) -> None:
        super().__init__()
        self.listening = listening


class DeliveriesLoaded(Message):
    """The endpoints and their newest deliveries; `problem` says why they are not known."""

    def __init__(self, endpoints: Sequence[Record], deliveries: Sequence[Record], problem: str = "") -> None:
        super().__init__()
        self.endpoints = endpoints
        self.deliveries = deliveries
        self.problem = problem


class FigureLoaded(Message):
    """A figure of the overview; a text is the sentence that says why there is none."""

    def __init__(self, name: str, figure: Any) -> None:
        super().__init__()
        self.name = name
        self.figure = figure


class WhoamiLoaded(Message):
    """What the server says of the credential in use, and of what its project may hold."""

    def __init__(self, whoami: Record | None, billing: Record | None, problem: str) -> None:
        super().__init__()
        self.whoami = whoami
        self.billing = billing
        self.problem = problem


class TokensRequested(Message):
    """Tokens were asked for; `problem` is empty when they came."""

    def __init__(self, problem: str) -> None:
        super().__init__()
        self.problem = problem


class TokensChanged(Message):
    """The pair of tokens in use is another, or none."""


class LinkFollowed(Message):
    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link


class CreateRequested(Message):
    """The form of the view's resource is asked for."""


class EditRequested(Message):
    """The form that changes an object is asked for."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record


class MoreLoaded(Message):
    """What a detail shows beyond its record was read; a ClientError is why it was not."""

    def __init__(self, record: Record, more: Any) -> None:
        super().__init__()
        self.record = record
        self.more = more


class ActionRequested(Message):
    """Something shall be done with an object."""

    def __init__(self, resource: Resource, action: Action, record: Record) -> None:
        super().__init__()
        self.resource = resource
        self.action = action
        self.record = record


class ActionDone(Message):
    """It was done; `record` is the object as the server has it now, `secret` what it shows once."""

    def __init__(self, wanted: ActionRequested, record: Record, secret: str | None = None) -> None:
        super().__init__()
        self.wanted = wanted
        self.record = record
        self.secret = secret


class ActionFailed(Message):
    """It was not done, and why; `unanswered` where nobody knows whether it was."""

    def __init__(self, wanted: ActionRequested, sentence: str, *, unanswered: bool = False) -> None:
        super().__init__()
        self.wanted = wanted
        self.sentence = sentence
        self.unanswered = unanswered


class BackRequested(Message):
    """There is nothing more to close in a view."""


class FieldChanged(Message):
    """Something else stands in a field of a form; `entry` is its widget's id."""

    def __init__(self, entry: str | None) -> None:
        super().__init__()
        self.entry = entry


class FormSent(Message):
    """The server made or changed the object."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record


class FormRefused(Message):
    """What is wrong, by the field's name; the name "" is for the form as a whole."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__()
        self.errors = errors


class FormAlreadySent(Message):
    """The idempotency key was used up by an earlier try whose answer was lost; `otherwise` is what of it may
    be otherwise than it was sent now."""

    def __init__(self, original: str | None, otherwise: str) -> None:
        super().__init__()
        self.original = original
        self.otherwise = otherwise


class FormHeldBack(Message):
    """It was asked whether to send what was typed, and the answer was no."""


class FormInFlight(Message):
    """What was typed has left for the server, or the rate limit still holds it back."""

    def __init__(self, in_flight: bool) -> None:
        super().__init__()
        self.in_flight = in_flight


class FormUnanswered(Message):
    """No answer tells whether it was done; `sentence` says why."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self.sentence = sentence


class Created(Message):
    """A form was finished."""

    def __init__(
        self, record: Record | None, sentence: str, secret: str | None = None, *, edited: bool = False
    ) -> None:
        super().__init__()
        self.record = record  # None where it is not known: an earlier try made it
        self.sentence = sentence
        self.secret = secret  # what is shown once
        self.edited = edited  # it was there before


class ExportProgressed(Message):
    """An export has written so many rows; `total` is how many there are, if the server tells."""

    def __init__(self, rows: int, total: int | None) -> None:
        super().__init__()
        self.rows = rows
        self.total = total


class ExportEnded(Message):
    """With `rows` it is done and `sentence` is the file; else `sentence` is why not (`there`: it exists)."""

    def __init__(self, rows: int | None, sentence: str, *, there: bool = False) -> None:
        super().__init__()
        self.rows = rows
        self.sentence = sentence
        self.there = there


class SignInRequested(Message):
    """There is no token to show to the server: somebody has to sign in."""


class SignInEnded(Message):
    """The server gave tokens, or `sentence` says why not. The answer is never shown."""

    def __init__(self, answer: Record | None, sentence: str) -> None:
        super().__init__()
        self.answer = answer
        self.sentence = sentence


class ServerEnded(Message):
    """The dashboard's own server is gone; `sentence` is what it said last."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self.sentence = sentence
