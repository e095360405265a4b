"""A dialog for one action on several objects. It runs the action on one object after the other, and reports
each failure.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Log, ProgressBar, Static

from ledger_client.errors import LedgerError
from ledger_tui.client.api import new_idempotency_key
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.client.session import Mode
from ledger_tui.formats.money import format_amount
from ledger_tui.formats.text import fit, literal
from ledger_tui.forms.outcomes import in_words, uncertain
from ledger_tui.forms.questions import named, way_back_sentence
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.base import Resource, ResourceAction
from ledger_tui.resources.cells import currency_of
from ledger_tui.resources.webhooks import known_by, subject
from ledger_tui.resources.words import words_for
from ledger_tui.ui.dialogs import DIALOG_WIDTH, FRAME, YES_OR_NO, Dialog
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.view import Context


class BulkQuestion(NamedTuple):
    """The question about an action on several objects.

    `head` is like `Void 3 invoices?`, with the sums by currency on a second line. `objects` describes each
    object in a line, and `notes` holds the consequences.
    """

    head: str
    objects: list[str]
    notes: list[str]


def bulk_question(
    resource: Resource,
    action: ResourceAction,
    records: Sequence[Record],
    left_out: int,
    names: AccountNames,
    way_back: str = "",
) -> BulkQuestion:
    """Return the question about an action on these objects.

    `left_out` is the number of marked objects whose state does not allow the action. `way_back` says how the
    user can undo the action on one object.
    """
    begins = action.asks or action.label.capitalize()
    head = f"{begins} {_number_text(len(records), resource)}?"
    sums: Counter[str] = Counter()
    for record in records:
        currency = currency_of(record, names)
        if isinstance(record.get("amount"), int) and currency is not None:
            sums[currency] += record["amount"]
    if sums:
        head += "\nin all " + ", ".join(f"{format_amount(s, c)} {literal(c)}" for c, s in sums.items())
    objects = [_described(resource, record, names) for record in records]
    # A set of keys, in the order of the records: several events can have the same receiver.
    cautions = dict.fromkeys(line for record in records for line in action.caution(record).splitlines())
    notes = ["\n".join(cautions)] if cautions else []
    notes += [f"For each: {action.effect}\n{way_back}".rstrip()] if action.effect else []
    if left_out:
        words = "object is left out: its" if left_out == 1 else "objects are left out: their"
        notes.append(f"{left_out:,} more marked {words} state does not allow this.")
    return BulkQuestion(head, objects, notes)


def _described(resource: Resource, record: Record, names: AccountNames) -> str:
    """Return the line about an object: a delivery's event and receiver; otherwise facts or the id."""
    if isinstance(record.get("event_type"), str):
        return named(resource, record, names)
    return " · ".join(known_by(subject(record) or record, names)) or literal(record.get("id"))


def _number_text(number: int, resource: Resource) -> str:
    """Return `1 invoice`, `3 invoices`, `2 deliveries`."""
    singular = resource.singular
    plural = (
        f"{singular[:-1]}ies" if singular.endswith("y") and singular[-2] not in "aeiou" else f"{singular}s"
    )
    return f"{number:,} {singular if number == 1 else plural}"


class ObjectLines(Log, can_focus=False):
    """A line for each object of a question. It draws only the visible lines.

    After each scroll it calls `tell_scroll`.
    """

    def __init__(self, lines: Sequence[str], tell_scroll: Callable[[], None]) -> None:
        super().__init__(auto_scroll=False)
        self._texts = lines
        self._tell_scroll = tell_scroll

    def on_mount(self) -> None:
        width = min(DIALOG_WIDTH, self.app.size.width) - FRAME - 1  # without the scroll bar
        self.write("\n".join(fit(text, width).rstrip() for text in self._texts))

    def on_resize(self) -> None:
        self.call_after_refresh(self._tell_scroll)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._tell_scroll()

    @property
    def overflows(self) -> bool:
        """Whether the lines need more rows than the widget has."""
        return self.max_scroll_y > 0

    @property
    def position(self) -> str:
        """The numbers of the visible lines, such as `1 to 6 of 14`."""
        first = round(self.scroll_y) + 1
        last = min(len(self._texts), first + self.scrollable_content_region.height - 1)
        return f"{first:,} to {last:,} of {len(self._texts):,}"


class BulkScreen(Dialog[list[Record]]):
    """Asks once, then runs the action on each object. Returns the changed objects in their new state.

    The question lists all objects. With `asks_number` the user must type their number to confirm.
    """

    is_question = True

    BINDINGS = [
        Binding("enter", "typed", "confirm", show=True, priority=True),
        Binding("y", "yes", "yes", show=True),
        Binding("escape,n", "close", "no", show=True),
        Binding("down", "scroll('down')", "more objects", show=True),
        Binding("up", "scroll('up')", show=False),
        Binding("pagedown", "scroll('page_down')", show=False),
        Binding("pageup", "scroll('page_up')", show=False),
    ]

    def __init__(
        self,
        resource: Resource,
        action: ResourceAction,
        records: Sequence[Record],
        question: BulkQuestion,
        context: Context,
        *,
        asks_number: bool,
    ) -> None:
        session = context.session
        super().__init__("bulk", "Confirm", session.mode)
        self._resource = resource
        self._action = action
        self._records = records
        self._question = question
        self._api, self._names = context.api, context.names
        self._session = session
        self._asks_number = asks_number
        self._began = False
        self._stopping = False
        self._attempts = 0
        self._failures: list[str] = []
        self.may_have_changes = False  # whether a request has changed an object, or may have changed one
        self._changed_records: list[Record] = []
        self.sent_at = 0.0  # when the first request was sent
        self.done_ids: set[str] = set()  # the ids of the objects on which the action succeeded
        # If the action creates objects, each request carries the idempotency key of its record. So a request
        # that is sent again creates no second object.
        self._keys = {id(record): new_idempotency_key() for record in records}

    @property
    def asks_text(self) -> bool:
        return self._asks_number

    @property
    def has_results(self) -> bool:
        """Whether the dashboard knows the result of at least one request."""
        return self._attempts > 0

    def content(self) -> ComposeResult:
        yield Static(Content(f"{self._question.head}\n"), id="bulk-head")
        yield ObjectLines(self._question.objects, self._show_position)
        with Vertical(id="bulk-below"):
            yield Static(id="bulk-position")
            with Vertical(id="bulk-consequences"):
                yield Static(Content("".join(f"\n{note}\n" for note in self._question.notes).rstrip("\n")))
                if self._asks_number:
                    verb = (self._action.asks or self._action.label).lower()
                    number, objects = len(self._records), _number_text(len(self._records), self._resource)
                    rest = f" to {verb} these {objects}, then press enter."
                    yield Static(Content.assemble("\nType ", (str(number), "bold"), rest))
                    yield Input(compact=True)
            yield ProgressBar(total=len(self._records), show_eta=False)
            yield self.notes
            with VerticalScroll(id="bulk-failures", can_focus=False):
                yield Static(id="failures")

    def on_mount(self) -> None:
        self.query_one(ProgressBar).display = False
        self.query_one("#bulk-failures").display = False
        self.query_one("#bulk-position").display = False

    @while_running
    def _show_position(self) -> None:
        """Show which objects are visible, if the list of objects does not fit."""
        lines, line = self.query_one(ObjectLines), self.query_one("#bulk-position", Static)
        line.update(Content.styled(f"{lines.position} · ↑ ↓ PgUp PgDn show the others", "$muted"))
        if line.display != lines.overflows:
            line.display = lines.overflows
            self.refresh_bindings()

    def action_scroll(self, way: str) -> None:
        """Scroll the list of objects."""
        getattr(self.query_one(ObjectLines), f"scroll_{way}")(animate=False)

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        if action == "scroll":
            return self.query_one(ObjectLines).overflows
        if action == "yes":
            return not self._asks_number and not self._began
        return action != "typed" or (self._asks_number and not self._began)

    @property
    def answers(self) -> str:
        return "" if self._asks_number or self._began else YES_OR_NO

    def key_text(self, binding: Binding) -> str:
        """Return the description of a key: while the action runs, esc stops the action."""
        if binding.action != "close" or not self._began:
            return binding.description
        return "stop" if self.working else "close"

    # ------------------------------------------------------------------ running

    def action_typed(self) -> None:
        if self.query_one(Input).value.strip() == str(len(self._records)):
            self.action_yes()
        else:
            self.note("The number does not match.", problem=True)

    def action_yes(self) -> None:
        self.query_one("#bulk-consequences").display = False
        self.query_one(ProgressBar).display = True
        self._began, self.sent_at = True, self._session.clock()
        self.begin(f"0 of {len(self._records)}; esc stops after the current request.")
        self._act()

    def action_close(self) -> None:
        """Close the dialog. While the action runs, stop the action after the current object instead."""
        if not self.working:
            self.dismiss(self._changed_records)
        else:
            self._stopping = True
            self.note("Stopping after the current request…")

    @asks("act", exclusive=False)
    async def _act(self) -> None:
        for record in self._records:
            if self._stopping:
                break
            self.call_later(self._show_progress, record, *await self._act_on(record))
            await asyncio.sleep(self._session.look_pause)
        self.call_later(self._end)

    async def _act_on(self, record: Record) -> tuple[Record | None, str]:
        """Run the action on one object. Return the object's new state, and the reason for a failure or "".

        The state is None if the server's answer does not contain the object.
        """
        action = self._action
        path = self._resource.action_path(action, record)
        key = self._keys[id(record)] if action.creates else None
        try:
            answer = await self._api.write(action.method, path, None, key, part=action.part)
        except LedgerError as error:
            words = words_for(self._resource, record, self._names)
            unknown = uncertain(error)
            self.may_have_changes |= bool(unknown)
            return None, unknown or in_words(error, self._names, record.get("id"), words)
        self.may_have_changes = True
        same = answer.record.get("id") == record.get("id")
        return (dict(answer.record) if same else None), ""

    @while_running
    def _show_progress(self, record: Record, changed_record: Record | None, problem: str) -> None:
        self._attempts += 1
        if problem:
            self._failures.append(f"✕ {named(self._resource, record, self._names)}: {problem}")
            failures = self.query_one("#bulk-failures")
            failures.display = True
            self.query_one("#failures", Static).update(Content("\n".join(self._failures)))
            failures.scroll_end(animate=False)
        else:
            self.done_ids.add(str(record.get("id")))
            self._changed_records += [changed_record] if changed_record is not None else []
        self.query_one(ProgressBar).update(progress=self._attempts)
        if not self._stopping:
            self.note(f"{self._attempts} of {len(self._records)}; esc stops after the current request.")

    @property
    def result(self) -> str:
        """A text with the numbers of changed objects, of failures, and of objects that were not tried."""
        successes = self._attempts - len(self._failures)
        left = len(self._records) - self._attempts
        parts = [f"{self._action.done}: {successes}"]
        if self._failures:
            parts.append(f"failed: {len(self._failures)}")
        if left:
            parts.append(f"not tried: {left}")
        return ", ".join(parts)

    @while_running
    def _end(self) -> None:
        if self._failures:
            self.rest(f"{self.result}. esc closes.", problem=True)
        else:
            self.notify(self.result, markup=False)
            self.dismiss(self._changed_records)


def act_on_all(
    view: ResourceView, action: ResourceAction, records: Sequence[Record], end: Callable[[str], None]
) -> None:
    """Ask once, then run the action on these objects of the view, one after the other.

    Afterwards call `end` with a sentence about the result, unless the action certainly changed nothing.
    """
    resource, context = view.resource, view.context
    left_out = len(view.model.marks) - len(records)
    # The key `u` cannot undo a change of several objects, so the question names only a way back that is an
    # action with a key of its own.
    has_key = action.way_back is None or action.way_back in resource.actions
    way_back = (
        way_back_sentence(resource, action, context.key_of, context.session.missing_parts) if has_key else ""
    )
    asked = bulk_question(resource, action, records, left_out, context.names, way_back)
    ends_access = action.name == "revoke" and any(map(context.tokens.is_own, records))
    # The user types the number of objects if the dashboard would lose its own key. Outside test mode the user
    # also types it for any lasting effect; in test mode only if nobody can undo a change of several objects.
    has_no_way_back = action.final and action.way_back is None and len(records) > 1
    asks_number = ends_access or has_no_way_back or (action.final and context.session.mode is not Mode.TEST)
    if ends_access:
        asked.notes.append("This dashboard uses one of these keys and will lose access.")
        # The key in use comes last: after it is revoked, the server refuses every further change.
        records = sorted(records, key=context.tokens.is_own)

    def done(changed_records: list[Record] | None) -> None:
        for record in changed_records or ():
            view.show_changed(record, screen.sent_at)
        if changed_records is not None and screen.has_results:
            if screen.may_have_changes:
                end(screen.result)
            # The objects that failed or were not tried stay marked for another try.
            tried_again = {str(record.get("id")) for record in records} - screen.done_ids
            view.table.unmark(view.model.marks.keys() - tried_again)
            view.detail.outdate()
            view.poll_rows_soon()

    screen = BulkScreen(resource, action, records, asked, context, asks_number=asks_number)
    view.app.push_screen(screen, done)
