"""The screen of the changes between two moments.

For an account, the sums of its postings by kind explain the whole difference of its balance.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ledger_tui.client.api import Api
from ledger_tui.client.lists import postings_between
from ledger_tui.client.names import AccountNames
from ledger_tui.client.past import NOT_OFFERED, PART, balance_change
from ledger_tui.client.records import Record
from ledger_tui.formats import plot
from ledger_tui.formats.money import format_amount
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import Cell, Column, Detail, Fact, Filter, Link, More, Resource, Section
from ledger_tui.resources.cells import currency_of, money_of, text_of, time_of
from ledger_tui.resources.filtering import check_date
from ledger_tui.resources.links import KIND_OF_OBJECT

_BAR = 8
_EXPLANATION = "where it comes from"
# the beginning of the description of a posting that pays an invoice
_PAYMENT = re.compile(r"Invoice \S+: ")
# fields that the detail of a change shows in another section, or that no user needs
_SHOWN_ELSEWHERE = frozenset({"id", "object", "livemode", "created", "status", "balance"})


def kind_of(transaction: Record) -> str:
    """Return the kind of a posting in the words of the explanation, such as "transfers in"."""
    credit = transaction.get("type") == "credit"
    if transaction.get("reverses") is not None:
        return "reversals"
    if transaction.get("transfer") is not None:
        return "transfers in" if credit else "transfers out"
    if not credit:
        return "payments out"
    return "invoices paid" if _PAYMENT.match(str(transaction.get("description"))) else "takings"


@dataclass(frozen=True)
class Explanation:
    """The sums of an account's postings by kind: for each kind, its name, the number of postings, the sum."""

    sums: tuple[tuple[str, int, int], ...]

    @property
    def total(self) -> int:
        return sum(amount for _kind, _count, amount in self.sums)


def explanation_of(transactions: Iterable[Record]) -> Explanation:
    """Return the sums of the transactions by kind, the sum with the largest absolute value first."""
    sums: dict[str, tuple[int, int]] = {}
    for each in transactions:
        count, amount = sums.get(kind_of(each), (0, 0))
        sums[kind_of(each)] = count + 1, amount + balance_change(each)
    sums_in_order = sorted(sums.items(), key=lambda item: -abs(item[1][1]))
    return Explanation(tuple((kind, count, amount) for kind, (count, amount) in sums_in_order))


async def _explain(api: Api, row: Record) -> Explanation | None:
    """Return the explanation of an account's difference; None for any other object."""
    if row.get("kind") != "account":
        return None
    return explanation_of(
        await postings_between(api, str(row.get("id")), str(row.get("from")), str(row.get("to")))
    )


def _state(row: Record, name: str) -> Cell:
    """Return the cell of the field `before` or `after`: an account's balance, or another object's status."""
    return money_of(row, name) if row.get("kind") == "account" else text_of(row, name)


def _difference(row: Record) -> Cell:
    if row.get("kind") == "account":
        amount = money_of(row, "difference", sign=True)
        return Cell(f"{amount.text} {literal(row.get('currency') or '')}", amount.tone)
    was, is_ = row.get("before"), row.get("after")
    return Cell("new" if row.get("was") is None else "changed" if was == is_ else "", "dim")


def _postings(row: Record) -> Cell:
    count = row.get("postings")
    return Cell(f"{count:,}" if isinstance(count, int) else "", "dim")


def _bar(row: Record) -> Cell:
    share = row.get("share")
    if not isinstance(share, float | int):
        return Cell("")
    bar_text, _empty = plot.meter(abs(share), _BAR)
    return Cell(bar_text or "▏", "minus" if share < 0 else "plus")


def _explanation(row: Record, explanation: Explanation | None, _names: AccountNames) -> tuple[Section, ...]:
    if explanation is None:
        return ()
    currency = currency_of(row)
    facts = [
        Fact(
            kind,
            Cell(f"{format_amount(sum_, currency, sign=True)}  {count:,}×", "minus" if sum_ < 0 else "plus"),
        )
        for kind, count, sum_ in explanation.sums
    ]
    total = format_amount(explanation.total, currency, sign=True)
    if explanation.total == row.get("difference"):
        facts.append(Fact("sum", Cell(f"{total}  ✓ the difference", "strong")))
    else:
        facts.append(Fact("sum", Cell(f"{total}  ✕ does not explain the whole difference", "bad")))
    return (Section(_EXPLANATION, tuple(facts)),)


def _detail(row: Record, _names: AccountNames) -> Detail:
    kind = str(row.get("kind"))
    between = (Fact("earlier", time_of(row, "from")), Fact("later", time_of(row, "to")))
    facts = (
        *between,
        Fact("before", _state(row, "before")),
        Fact("after", _state(row, "after")),
        *((Fact("difference", _difference(row)),) if kind == "account" else ()),
        *((Fact("postings", text_of(row, "postings")),) if kind == "account" else ()),
        Fact("id", text_of(row, "id", "dim")),
    )
    links = []
    if kind == "account":
        filters = {
            "account": str(row.get("id")),
            "created_after": str(row.get("from")),
            "at": str(row.get("to")),
        }
        links.append(Link("Its postings between the two moments", "transactions", filters=filters))
    if kind != "key":
        links.append(Link(f"The {literal(kind)}", KIND_OF_OBJECT.get(kind, ""), record_id=str(row.get("id"))))
    name = literal(row.get("name") or row.get("id", ""))
    return Detail(
        Cell(f"{literal(kind)} {name}", "strong"), (Section("", facts), *_changed_fields(row)), tuple(links)
    )


def _changed_fields(row: Record) -> tuple[Section, ...]:
    was, is_ = row.get("was"), row.get("is")
    if not isinstance(was, dict) or not isinstance(is_, dict):
        return ()
    facts = tuple(
        Fact(literal(name), Cell(f"{literal(was.get(name))} → {literal(value)}"))
        for name, value in is_.items()
        if name not in _SHOWN_ELSEWHERE and value != was.get(name)
    )
    return (Section("what else changed", facts),) if facts else ()


# the names of the counts in the server's summary, each with the word for one object
_COUNTED_KINDS = (
    ("accounts", "account"),
    ("invoices", "invoice"),
    ("users", "user"),
    ("orders", "order"),
    ("keys", "key"),
    ("postings", "posting"),
)


def _counts_in_words(summary: Record, _missing: Collection[str]) -> str:
    counts = ((summary.get(name), one) for name, one in _COUNTED_KINDS)
    parts = [
        f"{count:,} {one}{'' if count == 1 else 's'}"
        for count, one in counts
        if isinstance(count, int) and count
    ]
    return " · ".join(parts)


DIFFERENCE = Resource(
    kind="difference",
    title="What changed",
    singular="change",
    path="/v1/diff",
    columns=(
        Column("kind", 7, lambda r, _n: text_of(r, "kind", "dim")),
        Column("name", 10, lambda r, _n: text_of(r, "name"), grow=1),
        Column("before", 10, lambda r, _n: _state(r, "before"), align="right"),
        Column("after", 10, lambda r, _n: _state(r, "after"), align="right"),
        Column("difference", 14, lambda r, _n: _difference(r), align="right", by="difference"),
        Column("share", _BAR, lambda r, _n: _bar(r), rank=1, by="share"),
        Column("postings", 8, lambda r, _n: _postings(r), align="right", rank=2, by="postings"),
    ),
    detail=_detail,
    filters=(
        Filter("from", "from", "2026-11-20T07:18", check_date),
        Filter("to", "to", "2026-11-20T07:18", check_date),
    ),
    more=More(_explain, _explanation, _EXPLANATION),
    has_object_path=False,
    part=PART,
    missing_text=NOT_OFFERED,
    counts_in_words=_counts_in_words,
    under="accounts",
    empty="Nothing changed. In the past, a sets the earlier moment and b the later one.",
)
