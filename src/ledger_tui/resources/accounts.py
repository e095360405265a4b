"""The screen of accounts: balances, and the transactions that moved them."""

from __future__ import annotations

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.formats.money import format_amount
from ledger_tui.formats.text import literal
from ledger_tui.resources.balance_plot import balance_sections, read_balance_points
from ledger_tui.resources.base import (
    Cell,
    Column,
    Detail,
    Fact,
    Field,
    Form,
    Link,
    More,
    Resource,
    Section,
    Tone,
    mode_of,
    text_of,
    time_of,
)
from ledger_tui.resources.links import to_events
from ledger_tui.resources.statements import TO_STATEMENT


def _balance(record: Record, _names: AccountNames) -> Cell:
    balance, currency = record.get("balance"), record.get("currency")
    if not isinstance(balance, int):
        return text_of(record, "balance")
    tone: Tone = "minus" if balance < 0 else "dim" if balance == 0 else "plain"
    return Cell(format_amount(balance, currency if isinstance(currency, str) else None), tone)


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
                    Fact("created", time_of(record, "created")),
                    Fact("mode", mode_of(record)),
                    Fact("id", text_of(record, "id", "dim")),
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
        verb="Create",
        done="Created",
        path="/v1/accounts",
        fields=(
            Field("name", "Name", hint="Coffee beans, Berlin"),
            Field("currency", "Currency", "currency", hint="EUR"),
            Field("metadata", "Metadata", "metadata", required=False, hint="team=north; region=eu"),
        ),
    ),
    more=More(read_balance_points, balance_sections),
    related=(TO_STATEMENT,),
    changes=True,
    empty="No accounts yet.",
    invites="Press n to create the first.",
)
