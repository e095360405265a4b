"""The screens of accounts and of their statements: balances, and the transactions that changed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from ledger_tui.client.api import Api
from ledger_tui.client.names import AccountNames
from ledger_tui.client.past import balances
from ledger_tui.client.records import Record, records_of
from ledger_tui.client.totals import moment
from ledger_tui.formats import plot
from ledger_tui.formats.money import format_amount
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import (
    Cell,
    Column,
    Detail,
    Fact,
    Field,
    Filter,
    Filters,
    Form,
    Link,
    More,
    RelatedView,
    Resource,
    Section,
)
from ledger_tui.resources.cells import currency_of, facts_of, money_of, text_of, time_of
from ledger_tui.resources.filtering import check_date
from ledger_tui.resources.links import to_events
from ledger_tui.resources.transactions import POSTING, TRANSFER

_DAYS = 30  # a statement that the user opens with its key covers the last 30 days
_ENDS = {"opening_balance": "Opening balance", "closing_balance": "Closing balance"}


def _money(record: Record, name: str, *, sign: bool = False) -> Cell:
    """Return an amount from a line of a statement; an empty cell if the line has no such amount."""
    return money_of(record, name, sign=sign) if name in record else Cell("", "dim")


def _statement_description(record: Record) -> Cell:
    end = _ENDS.get(str(record.get("id")))
    return Cell(end, "strong") if end else text_of(record, "description")


def _statement_detail(record: Record, _names: AccountNames) -> Detail:
    currency = text_of(record, "currency", "dim").text
    is_line = str(record.get("id")) not in _ENDS
    amount = _money(record, "amount", sign=True)
    balance = _money(record, "running_balance")
    facts = [
        Fact("date", time_of(record, "date")),
        Fact("balance", Cell(f"{balance.text} {currency}", balance.tone)),
    ]
    if not is_line:
        return Detail(_statement_description(record), (Section("", tuple(facts)),))
    facts.insert(1, Fact("description", _statement_description(record)))
    facts.append(Fact("transaction", text_of(record, "transaction", "dim")))
    link = Link("The transaction", "transactions", record_id=str(record.get("transaction")))
    return Detail(Cell(f"{amount.text} {currency}", amount.tone), (Section("", tuple(facts)),), (link,))


def _to_statement(record: Record | None, _filters: Filters) -> Link | None:
    if record is None:
        return None
    first_day = (datetime.now(UTC) - timedelta(days=_DAYS)).date().isoformat()
    return Link("Its statement", "statement", filters={"account": str(record.get("id")), "from": first_day})


TO_STATEMENT = RelatedView("statement", "statement", _to_statement)

STATEMENT = Resource(
    kind="statement",
    title="Statement",
    singular="statement",
    path="/v1/accounts/{account}/statement",
    columns=(
        Column("date (UTC)", 19, lambda r, _n: time_of(r, "date"), by="date", short=14),
        Column("description", 12, lambda r, _n: _statement_description(r), grow=1, easy=22),
        Column("amount", 12, lambda r, _n: _money(r, "amount", sign=True), align="right"),
        Column("balance", 12, lambda r, _n: _money(r, "running_balance"), align="right"),
        Column("cur", 3, lambda r, _n: text_of(r, "currency", "dim"), rank=1),
        Column("transaction", 30, lambda r, _n: text_of(r, "transaction", "dim"), rank=2),
    ),
    detail=_statement_detail,
    filters=(
        Filter("account", "account", "acc_…", account=True),
        Filter("from", "from", "2026-11-01", check_date),
        Filter("to", "to", "2026-11-20", check_date),
    ),
    form=POSTING,
    transfer=TRANSFER,
    has_object_path=False,
    part="statements",
    missing_text="This server has no statements; see the account's transactions instead.",
    empty="Choose an account first: s on an account.",
    under="accounts",
)


_HEIGHT = 5  # the number of lines of the plot
_POSTINGS = 100  # the number of transactions to plot


@dataclass(frozen=True)
class BalancePoints:
    """The balance after each of the latest transactions, oldest first, and the times of the transactions.

    `times` is None if the time of a transaction is unknown. `first` and `last` are the first and the last
    time as text.
    """

    balances: tuple[int, ...]
    times: tuple[float, ...] | None
    first: str
    last: str


async def read_balance_points(api: Api, account: Record) -> BalancePoints:
    """Return the account's balances after its latest transactions, with one request.

    If a transaction shows no `balance_after`, compute this balance: subtract the newer transactions from the
    present balance.
    """
    params = {"account": str(account.get("id")), "limit": str(_POSTINGS)}
    data = (await api.read("/v1/transactions", params)).record.get("data")
    return balance_points(account, records_of(data))


def balance_points(account: Record, newest_first: Sequence[Record]) -> BalancePoints:
    """Return the points to plot for an account, computed from its newest transactions."""
    moments = [moment(row.get("created")) for row in newest_first]
    times = tuple(at for at in reversed(moments) if at is not None)
    ends = [time_of(row, "created").text[:16] for row in newest_first]
    return BalancePoints(
        # Leave out the balance before the oldest transaction, because it lies before the plotted time.
        balances=tuple(reversed(balances(account, newest_first)[:-1])),
        times=times if times and len(times) == len(newest_first) else None,
        first=ends[-1] if ends else "",
        last=ends[0] if ends else "",
    )


@dataclass(frozen=True)
class _BalancePlot:
    points: BalancePoints
    currency: str | None

    def __call__(self, width: int) -> Sequence[Sequence[Cell]]:
        points = self.points
        high, low = (format_amount(end(points.balances), self.currency) for end in (max, min))
        # If the balance never changed, the line runs in the middle of the plot, next to the only label.
        labels = {0: high, _HEIGHT - 1: low} if high != low else {_HEIGHT // 2: high}
        margin = max(len(high), len(low))
        columns = max(8, width - margin - 2)
        lines = []
        for number, line in enumerate(plot.line(points.balances, columns, _HEIGHT, points.times)):
            label = labels.get(number, "").rjust(margin)
            lines.append((Cell(f"{label} ┤", "dim"), Cell(line, "accent")))
        if points.times is None:
            foot = f"its last {len(points.balances)} postings"
            return [*lines, (Cell(" " * (margin + 2) + foot, "dim"),)]
        # If the plot begins and ends on the same day, the day is shown once.
        last = points.last[11:] if points.last[:10] == points.first[:10] else points.last
        width_left = max(1, columns - len(points.first) - len(last))
        return [*lines, (Cell(" " * (margin + 2) + points.first + " " * width_left + last, "dim"),)]


def balance_sections(account: Record, points: BalancePoints, _names: AccountNames) -> tuple[Section, ...]:
    """Return the section with the plot; an account without a posting gets no plot."""
    if not points.balances:
        return (Section("", (Fact("postings", Cell("none yet", "dim")),)),)
    return (Section("balance", drawing=_BalancePlot(points, currency_of(account))),)


def _balance(record: Record, _names: AccountNames) -> Cell:
    balance = money_of(record, "balance")
    return balance._replace(tone="dim") if record.get("balance") == 0 else balance


def _detail(record: Record, names: AccountNames) -> Detail:
    account_id = str(record.get("id", ""))
    balance = _balance(record, names)
    metadata = record.get("metadata")
    pairs = metadata.items() if isinstance(metadata, dict) else ()
    return Detail(
        headline=Cell(literal(record.get("name") or account_id), "strong"),
        sections=(
            Section(
                "",
                (
                    Fact(
                        "balance", Cell(f"{balance.text} {literal(record.get('currency', ''))}", balance.tone)
                    ),
                    *facts_of(record, "created"),
                ),
            ),
            Section("metadata", tuple(Fact(literal(key), Cell(literal(value))) for key, value in pairs)),
        ),
        links=(
            Link("Its transactions", "transactions", filters={"account": account_id}),
            Link("Its invoices", "invoices", filters={"account": account_id}),
            *filter(None, [TO_STATEMENT.link(record, {})]),
            *to_events(record),
        ),
    )


def _from_selected(record: Record | None, _filters: Filters) -> Mapping[str, str]:
    return {"account": str(record.get("id"))} if record is not None else {}


ACCOUNTS = Resource(
    kind="accounts",
    key="1",
    title="Accounts",
    short="Accts",
    singular="account",
    path="/v1/accounts",
    id_prefix="acc_",
    columns=(
        Column("name", 14, lambda r, _n: text_of(r, "name"), grow=1),
        Column("balance", 12, _balance, align="right"),
        Column("cur", 3, lambda r, _n: text_of(r, "currency", "dim")),
        Column("created (UTC)", 19, lambda r, _n: time_of(r, "created"), by="created", rank=1),
        Column("id", 30, lambda r, _n: text_of(r, "id", "dim"), rank=2),
    ),
    detail=_detail,
    form=Form(
        title="New account",
        done="exists",
        fields=(
            Field("name", "Name", hint="such as Coffee beans, Berlin"),
            Field("currency", "Currency", "currency", hint="such as EUR"),
            Field("metadata", "Metadata", "metadata", required=False, hint="such as team=north; region=eu"),
        ),
    ),
    form_inside=replace(POSTING, prefill=_from_selected),
    transfer=replace(TRANSFER, prefill=_from_selected),
    more=More(read_balance_points, balance_sections, "balance"),
    related=(TO_STATEMENT,),
    changes=True,
    empty="No accounts yet.",
    invites="Press n to create the first.",
)
