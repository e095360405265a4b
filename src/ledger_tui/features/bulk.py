"""A dialog for one action on several objects. It runs the action on one object after the other, and reports
each failure.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, ProgressBar, Static

from ledger_client.errors import LedgerError
from ledger_tui.client.api import new_idempotency_key
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.client.session import Mode
from ledger_tui.formats.money import format_amount
from ledger_tui.formats.text import literal
from ledger_tui.forms.outcomes import in_words, uncertain
from ledger_tui.forms.questions import named
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.base import Resource, ResourceAction, currency_of, words_for
from ledger_tui.resources.webhooks import known_by, subject
from ledger_tui.ui.dialogs import YES_OR_NO, Dialog
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.view import Context

_NAMED = 5  # the number of objects that the question names


def bulk_question(
    resource: Resource, action: ResourceAction, records: Sequence[Record], left_out: int, names: AccountNames
) -> str:
    """Return a question such as `Void 3 invoices?`, with sums by currency and the names of the first objects.

    `left_out` is the number of marked objects whose state does not allow the action.
    """
    begins = action.asks or action.label.capitalize()
    lines = [f"{begins} {_number_text(len(records), resource)}?"]
    sums: Counter[str] = Counter()
    for record in records:
        currency = currency_of(record, names)
        if isinstance(record.get("amount"), int) and currency is not None:
            sums[currency] += record["amount"]
    if sums:
        lines.append("in all " + ", ".join(f"{format_amount(s, c)} {literal(c)}" for c, s in sums.items()))
    lines.append("")
    for record in records[:_NAMED]:
        facts = " · ".join(known_by(subject(record) or record, names))
        lines.append(facts or literal(record.get("id")))
    if len(records) > _NAMED:
        lines.append(f"and {len(records) - _NAMED:,} more")
    if action.effect:
        lines += ["", f"For each: {action.effect}"]
    if left_out:
        objects = "object is left out: its" if left_out == 1 else "objects are left out: their"
        lines += ["", f"{left_out:,} more marked {objects} state does not allow this."]
    return "\n".join(lines)


def _number_text(number: int, resource: Resource) -> str:
    """Return `1 invoice`, `3 invoices`, `2 deliveries`."""
    singular = resource.singular
    plural = (
        f"{singular[:-1]}ies" if singular.endswith("y") and singular[-2] not in "aeiou" else f"{singular}s"
    )
    return f"{number:,} {singular if number == 1 else plural}"


class BulkScreen(Dialog[list[Record]]):
    """Asks once, then runs the action on each object. Returns the changed objects in their new state.

    `question` names the change and the number of objects. With `asks_number` the user must type this number
    to confirm.
    """

    is_question = True

    BINDINGS = [
        Binding("enter", "typed", "confirm", show=True, priority=True),
        Binding("y", "yes", "yes", show=True),
        Binding("escape,n", "close", "no", show=True),
        Binding("ctrl+c", "screen.close", show=False),
    ]

    def __init__(
        self,
        resource: Resource,
        action: ResourceAction,
        records: Sequence[Record],
        question: str,
        context: Context,
        *,
        asks_number: bool,
    ) -> None:
        session = context.session
        super().__init__("bulk", "Confirm", session.mode)
        self._resource = resource
        self._action = action
        self._records = records
        self._text = question
        self._api, self._names = context.api, context.names
        self._session = session
        self._asks_number = asks_number
        self._began = False
        self._stopping = False
        self._attempts = 0
        self._failures: list[str] = []
        self.may_have_changes = False  # whether a request has changed an object, or may have changed one
        self._changed_records: list[Record] = []
        self.done_ids: set[str] = set()  # the ids of the objects on which the action succeeded
        # If the action creates objects, each request carries the idempotency key of its record. So a request
        # that is sent again creates no second object.
        self._keys = {id(record): new_idempotency_key() for record in records}

    @property
    def has_results(self) -> bool:
        """Whether the dashboard knows the result of at least one request."""
        return self._attempts > 0

    def content(self) -> ComposeResult:
        asked, objects, *notes = self._text.split("\n\n")
        yield Static(Content(f"{asked}\n\n{objects}"), id="bulk-question")  # one row for each object
        yield Static(Content("".join(f"\n{note}\n" for note in notes).rstrip("\n")))
        if self._asks_number:
            number = str(len(self._records))
            yield Static(Content.assemble("\nType their number, ", (number, "bold"), ", then press enter."))
            yield Input(compact=True)
        yield ProgressBar(total=len(self._records), show_eta=False)
        yield self.notes
        with VerticalScroll(id="bulk-failures", can_focus=False):
            yield Static(id="failures")

    def on_mount(self) -> None:
        self.query_one(ProgressBar).display = False
        self.query_one("#bulk-failures").display = False

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
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
        for question in self.query(Input):
            question.disabled = True
        self.query_one(ProgressBar).display = True
        self._began = True
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
    text = bulk_question(resource, action, records, left_out, context.names)
    ends_access = action.name == "revoke" and any(map(context.tokens.is_own, records))
    # Outside test mode the user types the number of objects if the action cannot be undone.
    asks_number = ends_access or (action.final and context.session.mode is not Mode.TEST)
    if ends_access:
        text += "\n\nThis dashboard uses one of these keys and will lose access."
        # The key in use comes last: after it is revoked, the server refuses every further change.
        records = sorted(records, key=context.tokens.is_own)

    def done(changed_records: list[Record] | None) -> None:
        for record in changed_records or ():
            view.show_changed(record)
        if changed_records is not None and screen.has_results:
            if screen.may_have_changes:
                end(screen.result)
            # The objects that failed or were not tried stay marked for another try.
            tried_again = {str(record.get("id")) for record in records} - screen.done_ids
            view.table.unmark(view.model.marks.keys() - tried_again)
            view.poll_soon()

    screen = BulkScreen(resource, action, records, text, context, asks_number=asks_number)
    view.app.push_screen(screen, done)
