"""The lines of an invoice: rows of a description, a quantity and a unit amount, with their sum below."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from ledger_tui.messages import FieldChanged
from ledger_tui.resources.invoice_lines import (
    TypedLine,
    column_at_fault,
    dump_lines,
    load_lines,
    sum_as_typed,
)

_HEADINGS = (("description", "description"), ("quantity", "quantity"), ("unit-amount", "unit amount"))


class _Row(Horizontal):
    """One line; the order of its inputs is that of `TypedLine`."""

    def __init__(self, line: TypedLine) -> None:
        super().__init__(classes="line")
        self._line = line

    def compose(self) -> ComposeResult:
        for (name, _text), value in zip(_HEADINGS, self._line, strict=True):
            yield Input(value, compact=True, classes=name)

    @property
    def line(self) -> TypedLine:
        inputs = [*self.query(Input)]
        return TypedLine(*(each.value for each in inputs)) if inputs else self._line


class LinesField(Vertical):
    """Starts without rows, as an amount may be given instead. `currency` is called at each drawing."""

    BINDINGS = [
        Binding("down", "step(1)", "the line below", show=False),
        Binding("up", "step(-1)", "the line above", show=False),
    ]

    def __init__(self, value: str, hint: str, currency: Callable[[], str | None], *, id: str) -> None:
        super().__init__(id=id)
        self._lines = load_lines(value)
        self._hint = hint
        self._currency = currency

    def compose(self) -> ComposeResult:
        with Horizontal(classes="line", id="line-headings"):
            for name, text in _HEADINGS:
                yield Static(text, classes=name)
        yield from map(_Row, self._lines)
        yield Static(id="lines-sum")

    def on_mount(self) -> None:
        self.show_sum()

    @property
    def rows(self) -> Iterable[_Row]:
        return self.query(_Row)

    @property
    def value(self) -> str:
        """The rows as the form sends them; "" when all are empty."""
        return dump_lines(row.line for row in self.rows)

    @property
    def has_rows(self) -> bool:
        return any(True for _row in self.rows)

    def show_sum(self) -> None:
        """Show the sum of the rows, in the currency of the account chosen now."""
        self.query_one("#line-headings").display = self.has_rows
        text = (
            sum_as_typed((row.line for row in self.rows), self._currency()) if self.has_rows else self._hint
        )
        self.query_one("#lines-sum", Static).update(Content.styled(text, "$muted"))

    @on(Input.Changed)
    def row_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._changed()

    def _changed(self) -> None:
        self.show_sum()
        self.post_message(FieldChanged(self.id))

    # ------------------------------------------------------------------ rows

    async def add_row(self) -> None:
        """Add a row below the focused one, or at the end, and focus it."""
        here = self._focused_row()
        row = _Row(TypedLine())
        await self.mount(row, **({"after": here} if here is not None else {"before": "#lines-sum"}))
        self._changed()
        row.query(Input).first().focus()

    async def remove_row(self) -> None:
        """Remove the focused row and focus the one beside it; after the last, the next field."""
        here, rows = self._focused_row(), [*self.rows]
        if here is None:
            return
        at = rows.index(here)
        beside = next(iter([*rows[at + 1 :], *rows[:at][::-1]]), None)
        if beside is not None:
            beside.query(Input).first().focus()
        else:
            self.screen.focus_previous()
        await here.remove()
        self._changed()

    def _focused_row(self) -> _Row | None:
        return next((row for row in self.rows if row.has_focus_within), None)

    def focus_fault(self) -> bool:
        """Focus the first input with an invalid value; return False if there is none."""
        currency = self._currency()
        for row in self.rows:
            if row.line.blank or currency is None:
                continue
            column = column_at_fault(row.line, currency)
            if column is not None:
                [*row.query(Input)][column].focus()
                return True
        return False

    def action_step(self, step: int) -> None:
        """Focus the same column of another row."""
        here, rows = self._focused_row(), [*self.rows]
        if here is None or not 0 <= rows.index(here) + step < len(rows):
            return
        column = [each.has_focus for each in here.query(Input)].index(True)
        [*rows[rows.index(here) + step].query(Input)][column].focus()
