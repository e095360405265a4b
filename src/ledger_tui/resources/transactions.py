"""The screen of transactions, newest first."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import quote

from ledger_client.errors import LedgerError
from ledger_tui.client.api import Api
from ledger_tui.client.errors import NotOffered
from ledger_tui.client.lists import fetch_page
from ledger_tui.client.names import AccountName, AccountNames
from ledger_tui.client.records import Record, Want, records_of
from ledger_tui.formats.money import MINUS, decimals, localised
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import (
    Cell,
    Column,
    Detail,
    Fact,
    Field,
    Filter,
    FilterContext,
    Filters,
    Form,
    Link,
    More,
    Resource,
    ResourceAction,
    Section,
    Tone,
)
from ledger_tui.resources.cells import currency_of, facts_of, money_of, text_of, time_of
from ledger_tui.resources.filtering import check_date, choice
from ledger_tui.resources.links import to_events

_PAYMENT = re.compile(r"Invoice (\S+): ")
_PAGES_OF_INVOICES = 5
_BOUND = re.compile(r"([<=>])([0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
# Each type has a glyph and a word, so that people can read it without the colour.
_TYPES: dict[str, tuple[str, Tone]] = {"credit": ("▲ credit", "plus"), "debit": ("▼ debit", "minus")}


def _type(record: Record, _names: AccountNames) -> Cell:
    type_name = _TYPES.get(str(record.get("type")))
    if type_name is None:
        return text_of(record, "type")
    text, tone = type_name
    return Cell(f"↩{text[1:]}" if record.get("reverses") is not None else text, tone)


def _amount(record: Record, names: AccountNames) -> Cell:
    text = money_of(record, "amount", names).text
    if not isinstance(record.get("amount"), int):
        return text_of(record, "amount")
    return Cell(MINUS + text, "minus") if record.get("type") == "debit" else Cell("+" + text, "plus")


def _balance_after(record: Record, names: AccountNames) -> Cell:
    return money_of(record, "balance_after", names)._replace(tone="dim")


def _account(record: Record, names: AccountNames) -> Cell:
    name = names.get(record.get("account"))
    return Cell(literal(name.name)) if name else text_of(record, "account", "dim")


def _is_other_side(record: Record, value: str, _context: FilterContext) -> bool:
    """Return whether the account on the other side of a transfer is `value`.

    For the value `outside`, return whether the transaction is not part of a transfer.
    """
    return value == ("outside" if record.get("transfer") is None else str(record.get("destination")))


def _check_bound(value: str) -> str | None:
    """Return None for a bound: `>`, `<` or `=`, then an amount. Otherwise return how to write a bound."""
    if _BOUND.fullmatch(localised(value)):
        return None
    example = localised("99.50")
    return f"Write amount:>{example}, amount:<{example} or amount:={example}, without thousands separators."


def _is_in_bound(record: Record, value: str, context: FilterContext) -> bool:
    """Return whether a transaction's amount, as the list shows it, is within the bound `value`."""
    bound, minor = _BOUND.fullmatch(localised(value)), record.get("amount")
    if bound is None or not isinstance(minor, int):
        return False
    limit, currency = Decimal(bound[2]), currency_of(record, context.names)
    amount = Decimal(minor).scaleb(-((decimals(currency) if currency else None) or 0))
    return {"<": amount < limit, "=": amount == limit, ">": amount > limit}[bound[1]]


def _detail(record: Record, names: AccountNames) -> Detail:
    amount, currency = _amount(record, names), currency_of(record, names) or ""
    after = _balance_after(record, names)
    if isinstance(record.get("balance_after"), int):
        after = Cell(f"{after.text} {literal(currency)}", after.tone)
    links = [
        Link("Its account", "accounts", record_id=str(record.get("account"))),
        Link("All of this account", "transactions", filters={"account": str(record.get("account"))}),
    ]
    facts = [
        Fact("type", _type(record, names)),
        Fact("account", _account(record, names)),
        Fact("description", text_of(record, "description")),
        Fact("balance after", after),
        *facts_of(record, "created"),
    ]
    if (destination := record.get("destination")) is not None:
        other = names.get(destination)
        facts.insert(2, Fact("other side", Cell(literal(other.name if other else destination))))
        links.append(Link("Its other account", "accounts", record_id=str(destination)))
    if (reversed_id := record.get("reverses")) is not None:
        links.append(Link("What it reverses", "transactions", record_id=str(reversed_id)))
    links += to_events(record)
    return Detail(
        headline=Cell(f"{amount.text} {literal(currency)}", amount.tone),
        sections=(Section("", tuple(facts)),),
        links=tuple(links),
    )


def _prefill(_record: Record | None, filters: Filters) -> Mapping[str, str]:
    # The form takes the account from the filter, and not from the row under the cursor, because the user may
    # be on that row by accident.
    account = filters.get("account")
    return {"account": account} if account is not None else {}


async def _read_invoice(api: Api, record: Record) -> Record | str | None:
    """Return the invoice that a transaction pays, or a text that says why the invoice is unknown.

    Return None if the transaction pays no invoice. A payment does not contain the id of its invoice, but its
    description begins with the invoice's number. So this function reads the account's paid invoices, newest
    first, up to a maximum number of pages.
    """
    number = _PAYMENT.match(str(record.get("description")))
    if number is None or record.get("type") != "credit":
        return None
    params = {"account": str(record.get("account")), "status": "paid"}
    want = Want(0, "page", 0, None)
    for _page in range(_PAGES_OF_INVOICES):
        page = await fetch_page(api, "/v1/invoices", params, want, "invoices.list")
        for invoice in page.rows:
            if invoice.get("transaction") == record.get("id"):
                return invoice
        if page.older is None:
            return None
        want = Want(0, "page", 0, page.older)
    return f"{number[1]}, not among the newest paid ones"


async def _read_related(api: Api, record: Record) -> list[Record]:
    """Return the other side of a transfer, the reversal, and the reversed transaction, if these exist."""
    path = f"/v1/transactions/{quote(str(record.get('id')), safe='')}/related"
    return records_of((await api.read(path, part="transactions.related")).record.get("data"))


class TransactionExtras(NamedTuple):
    """Data about a transaction from two further requests.

    `invoice` is the result of `_read_invoice`, and `related` the result of `_read_related`. If one of these
    functions raised a LedgerError, its field holds this error instead.
    """

    invoice: Any
    related: Any


async def _read_more(api: Api, record: Record) -> TransactionExtras:
    async def result_or_error(reading: Awaitable[Any]) -> Any:
        try:
            return await reading
        except LedgerError as error:
            return error

    return TransactionExtras(
        await result_or_error(_read_invoice(api, record)), await result_or_error(_read_related(api, record))
    )


def _more_sections(_record: Record, more: TransactionExtras, _names: AccountNames) -> tuple[Section, ...]:
    return _invoice_section(more.invoice)


def _invoice_section(invoice: Any) -> tuple[Section, ...]:
    if invoice is None or isinstance(invoice, NotOffered):
        return ()
    if isinstance(invoice, LedgerError | str):
        cell = Cell(literal(invoice), "minus" if isinstance(invoice, LedgerError) else "dim")
    else:
        cell = Cell(f"{text_of(invoice, 'number').text}  {text_of(invoice, 'customer').text}")
    return (Section("", (Fact("pays invoice", cell),)),)


def _more_links(record: Record, more: TransactionExtras) -> tuple[Link, ...]:
    return (*_to_invoice(more.invoice), *_to_related(record, more.related))


def _to_invoice(invoice: Any) -> Iterator[Link]:
    if isinstance(invoice, dict):
        yield Link("The invoice it pays", "invoices", record_id=str(invoice.get("id")))


def _to_related(record: Record, related: Any) -> Iterator[Link]:
    """Yield the links to the other side of a transfer and to the reversal, if these exist."""
    for row in related if isinstance(related, list) else ():
        if row.get("reverses") == record.get("id"):
            yield Link("Its reversal", "transactions", record_id=str(row.get("id")))
        elif row.get("transfer") is not None and row.get("transfer") == record.get("transfer"):
            yield Link("Its other side", "transactions", record_id=str(row.get("id")))


def _reverse() -> ResourceAction:
    action = ResourceAction(
        "reverse",
        "reverse",
        "Reversed",
        final=True,
        moves_money=True,
        effect="The opposite amount is posted at once, for a transfer on both accounts. Nothing is deleted.",
        creates=True,
        part="transactions.reverse",
    )
    # A reversal is a transaction too, so the same action undoes the reversal, and so on.
    object.__setattr__(action, "way_back", action)
    return action


REVERSE = _reverse()
_AMOUNT = Field("amount", "Amount", "amount", hint="in the currency of the account")
_DESCRIPTION = Field("description", "Description", required=False, hint="shown on statements")
POSTING = Form(
    title="Post a transaction",
    done="is posted",
    path="/v1/transactions",
    fields=(
        Field("account", "Account", "account", hint="↓ or part of a name, or an id"),
        Field("type", "Type", "choice", choices=(("credit", "▲ credit"), ("debit", "▼ debit"))),
        _AMOUNT,
        _DESCRIPTION,
    ),
    prefill=_prefill,
    moves_money=True,
    way_back=REVERSE,
)
TRANSFER = replace(
    POSTING,
    title="Transfer",
    fields=(
        Field("account", "From", "account", hint="↓ or part of a name, or an id"),
        Field("destination", "To", "account", hint="↓ or part of a name; an account of the same currency"),
        _AMOUNT,
        _DESCRIPTION,
    ),
    sends=(("type", "debit"),),  # the transaction debits the account that the money leaves
)


def why_no_transfer(source: AccountName) -> str:
    """Return the sentence about an account that has no other account of its currency."""
    why = f"{literal(source.name)} is the only account in {literal(source.currency)}"
    return f"{why}, and a transfer needs two. Create another first: 1, then n."


TRANSACTIONS = Resource(
    kind="transactions",
    key="2",
    title="Transactions",
    short="Txns",
    singular="transaction",
    path="/v1/transactions",
    id_prefix="txn_",
    columns=(
        Column("created (UTC)", 19, lambda r, _n: time_of(r, "created"), by="created", rank=1, short=14),
        Column("type", 8, _type, rank=2),
        Column("amount", 10, _amount, align="right"),
        Column("cur", 3, lambda r, n: Cell(literal(currency_of(r, n) or "?"), "dim")),
        Column("account", 10, _account, grow=1, most=24),
        Column("description", 8, lambda r, _n: text_of(r, "description"), grow=3, easy=22),
        Column("balance after", 13, _balance_after, align="right", rank=3),
        Column("id", 30, lambda r, _n: text_of(r, "id", "dim"), rank=4),
    ),
    detail=_detail,
    filters=(
        Filter("account", "account", "acc_…", account=True),
        choice("type", [*_TYPES], "credit|debit"),
        Filter("after", "created_after", "2026-11-20T07:18", check_date),
        Filter("before", "at", "2026-11-20T07:18", check_date),
        Filter("other", "other", "outside", matches=_is_other_side),
        Filter("amount", "amount", ">100", _check_bound, matches=_is_in_bound),
    ),
    form=POSTING,
    transfer=TRANSFER,
    actions=(REVERSE,),
    more=More(_read_more, _more_sections, links=_more_links),
    empty="No transactions here.",
    invites="Press n to post one.",
    account_ids=lambda record: (record.get("account"), record.get("destination")),
)
