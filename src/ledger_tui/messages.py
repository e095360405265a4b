"""What the parts tell each other. Workers answer with these; one `@on` handler each changes the state."""

from __future__ import annotations

from collections.abc import Mapping

from textual.message import Message

from ledger_tui.resources.base import Action, Link, Resource
from ledger_tui.state.window import Page, Record, Want


class SessionChanged(Message):
    """The connection, the mode, or the rate limit is another."""


class ServerFailed(Message):
    """The embedded server did not start; there is nothing to show."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self.sentence = sentence


class PageCame(Message):
    def __init__(self, want: Want, page: Page) -> None:
        super().__init__()
        self.want = want
        self.page = page


class PageFailed(Message):
    def __init__(self, want: Want, sentence: str) -> None:
        super().__init__()
        self.want = want
        self.sentence = sentence


class RecordCame(Message):
    """One object was read by its id, to be shown in the detail."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record


class RecordFailed(Message):
    def __init__(self, record_id: str, sentence: str) -> None:
        super().__init__()
        self.record_id = record_id
        self.sentence = sentence


class NamesCame(Message):
    """Names and currencies of accounts became known; what shows them is drawn again."""


class LinkFollowed(Message):
    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link


class CreateWanted(Message):
    """The form of the view's resource is asked for."""


class ActWanted(Message):
    """Something shall be done with an object."""

    def __init__(self, resource: Resource, action: Action, record: Record) -> None:
        super().__init__()
        self.resource = resource
        self.action = action
        self.record = record


class Acted(Message):
    """It was done; `record` is the object as the server has it now."""

    def __init__(self, wanted: ActWanted, record: Record) -> None:
        super().__init__()
        self.wanted = wanted
        self.record = record


class ActFailed(Message):
    def __init__(self, wanted: ActWanted, sentence: str) -> None:
        super().__init__()
        self.wanted = wanted
        self.sentence = sentence


class BackWanted(Message):
    """There is nothing more to close in a view."""


class FormSent(Message):
    """The server made the object."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record


class FormRefused(Message):
    """What is wrong, by the field's name; the name "" is for the form as a whole."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__()
        self.errors = errors


class FormWasSentBefore(Message):
    """The idempotency key was used up by an earlier try whose answer was lost."""

    def __init__(self, original: str | None) -> None:
        super().__init__()
        self.original = original


class Created(Message):
    """A form was finished."""

    def __init__(self, kind: str, record_id: str | None, sentence: str) -> None:
        super().__init__()
        self.kind = kind
        self.record_id = record_id
        self.sentence = sentence
