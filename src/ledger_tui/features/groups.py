"""Shows the sums of a list's rows in groups: by type, day, account or the beginning of the description."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.formats.money import format_amount
from ledger_tui.formats.text import fit, literal
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.base import Cell, Tone
from ledger_tui.resources.cells import currency_of
from ledger_tui.ui.dialogs import Dialog
from ledger_tui.ui.view import toned_line

_WORDS = 2  # descriptions with the same first two words form a group
_MONEY = 16
_NAME_LEAST = 8


def _beginning(record: Record, _names: AccountNames) -> str:
    """Return the first words of the description, without numbers, because numbers differ from row to row."""
    words = [word for word in str(record.get("description") or "").split() if not any(map(str.isdigit, word))]
    return " ".join(words[:_WORDS]).rstrip(",:;") or "–"


BY: Sequence[tuple[str, Callable[[Record, AccountNames], str]]] = (
    ("type", lambda record, _names: str(_kind(record))),
    ("day", lambda record, _names: str(record.get("created") or record.get("date") or "–")[:10]),
    ("account", lambda record, names: names.name(str(record.get("account", "–")))),
    ("description", _beginning),
)


def _kind(record: Record) -> str:
    """Return `credit` or `debit`. A line of a statement has a signed amount instead of a type."""
    amount = record.get("amount")
    return str(record.get("type") or ("debit" if isinstance(amount, int) and amount < 0 else "credit"))


def groups_of(records: Iterable[Record], by: str, names: AccountNames) -> list[Record]:
    """Return a row for each group and currency, and a row for the sum of each currency.

    A row contains `count`, `credit`, `debit` and `net`. Days are sorted newest first; other groups are sorted
    by currency, and within a currency the largest amounts come first. The rows for the sums come last.
    """
    key_of = dict(BY)[by]
    groups: dict[tuple[str, str], Record] = {}
    totals: dict[str, Record] = {}
    for record in records:
        amount = record.get("amount")
        if not isinstance(amount, int):
            continue
        currency = currency_of(record, names) or "?"
        new = {"count": 0, "credit": 0, "debit": 0, "net": 0}
        group = groups.setdefault(
            (key_of(record, names), currency), {by: key_of(record, names), "currency": currency, **new}
        )
        total = totals.setdefault(currency, {by: "sum", "currency": currency, **new})
        for row in (group, total):
            row["count"] += 1
            row[_kind(record)] = row.get(_kind(record), 0) + abs(amount)
            row["net"] = row["credit"] - row["debit"]
    rows = sorted(groups.values(), key=lambda row: (row["currency"], -row["credit"] - row["debit"]))
    if by == "day":
        rows.sort(key=lambda row: row["day"], reverse=True)
    return [*rows, *totals.values()]


class GroupsScreen(Dialog[None]):
    """The sums of rows in groups; `g` changes the grouping, `^e` writes the sums to a file."""

    BINDINGS = [
        Binding("g,tab", "next", "by something else", show=True, priority=True),
        Binding("ctrl+e", "export", "export", show=True, priority=True),
        Binding("escape,q", "dismiss", "close", show=True),
    ]

    def __init__(self, view: ResourceView, records: Sequence[Record], what: str) -> None:
        super().__init__("groups", "Sums")
        self._view = view
        self._records = records
        self._what = what
        self._at = 0

    def content(self) -> ComposeResult:
        yield Static(id="groups-head")
        with VerticalScroll(id="groups-scroll"):
            yield Static(id="groups-rows")

    def on_mount(self) -> None:
        self._draw()
        self.set_focus(self.query_one("#groups-scroll"))

    def on_resize(self) -> None:
        self._draw()

    @property
    def rows(self) -> list[Record]:
        return groups_of(self._records, self._by, self._view.context.names)

    @property
    def _by(self) -> str:
        return BY[self._at][0]

    def action_next(self) -> None:
        self._at = (self._at + 1) % len(BY)
        self._draw()

    def action_export(self) -> None:
        from ledger_tui.features.export import export_rows

        export_rows(
            self._view, self.rows, f"{self._view.resource.kind}-by-{self._by}.csv", f"Sums by {self._by}"
        )

    def _draw(self) -> None:
        width = max(40, self.query_one("#groups-scroll").scrollable_content_region.width)
        money = min(_MONEY, (width - _NAME_LEAST - 8 - 5) // 3 - 1)
        name = max(_NAME_LEAST, width - 8 - 3 * (money + 1) - 5)
        head = [Cell(fit(f"by {self._by}", name), "strong"), Cell(fit("count", 8, "right"), "dim")]
        head += [Cell(" " + fit(title, money, "right"), "dim") for title in ("credit", "debit", "net")]
        note = Content.styled(f"{self._what}\n", "$muted")
        self.query_one("#groups-head", Static).update(Content.assemble(note, "\n", toned_line(head)))
        lines = [self._line(row, name, money) for row in self.rows]
        self.query_one("#groups-rows", Static).update(
            Content("\n").join(lines or [Content("No amounts here.")])
        )

    def _line(self, row: Record, name: int, money: int) -> Content:
        is_sum = row[self._by] == "sum"
        net: Tone = "minus" if row["net"] < 0 else "plus"
        cells = [
            Cell(fit(literal(row[self._by]), name), "strong" if is_sum else "plain"),
            Cell(fit(f"{row['count']:,}", 8, "right"), "dim"),
        ]
        for title in ("credit", "debit", "net"):
            text = format_amount(row[title], row["currency"], sign=title == "net")
            cells.append(Cell(" " + fit(text, money, "right"), net if title == "net" else "plain"))
        return toned_line([*cells, Cell(f" {row['currency']}", "dim")])


def show_groups(view: ResourceView) -> None:
    """Show the sums of the marked rows, or of all loaded rows if none is marked."""
    marks = view.model.marked
    records = marks or [record for _index, record in view.model.window.at_hand()]
    whole = "all" if view.model.window.complete and not marks else "the marked" if marks else "the loaded"
    what = f"{view.resource.title}, {whole} {len(records):,}"
    view.app.push_screen(GroupsScreen(view, records, what))
