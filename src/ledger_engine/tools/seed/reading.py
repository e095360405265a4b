"""Reading of a data set from a JSON file, with a clear message for each mistake."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.records import dumps
from ledger_engine.tools.seed.entries import (
    AccountEntry,
    BadDataSet,
    DataSet,
    Entry,
    Fee,
    Fields,
    InvoiceEntry,
    LineEntry,
    OrderEntry,
    TransactionEntry,
    UserEntry,
    Whole,
)

DAYS_MAX = 3650
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def read(file: Path) -> DataSet:
    """Return the data set in a file. Raises BadDataSet, and OSError when the file cannot be read."""
    try:
        text = file.read_bytes().decode()
        value = json.loads(text, object_pairs_hook=_without_duplicates)
        dumps(value).encode()  # fails for lone surrogates and for numbers that JSON does not have
    except json.JSONDecodeError as error:
        raise BadDataSet(f"{file.name}:{error.lineno}:{error.colno}", f"{error.msg}.") from None
    except RecursionError:
        raise BadDataSet(file.name, "it is nested too deeply.") from None
    except ValueError as error:
        raise BadDataSet(file.name, f"{error}.") from None
    if _NUL.search(text):
        raise BadDataSet(file.name, "the character U+0000 cannot be stored.")
    fields = Fields(value, "", file.name)
    title = fields.text("title")
    fields.text("about", "")
    days = fields.whole("days", 1, DAYS_MAX)
    entries: list[Entry] = []
    for kind, parse in _KINDS.items():
        for position, each in enumerate(fields.list(kind)):
            path = f"{kind}[{position}]"
            of_entry = Fields(each, path, path)
            entries.append(parse(of_entry, days))
            of_entry.end()
    fields.end()
    _check_references(entries)
    return DataSet(file.stem, title, days, tuple(entries))


def _account(fields: Fields, days: int) -> AccountEntry:
    return AccountEntry(
        fields.path,
        fields.when_once(days),
        fields.text("ref"),
        fields.text("name"),
        fields.text("currency"),
        fields.metadata(),
    )


def _user(fields: Fields, days: int) -> UserEntry:
    return UserEntry(
        fields.path,
        fields.when_once(days),
        fields.text("ref"),
        fields.text("name"),
        fields.text("email"),
        fields.text("role", "member"),
        fields.varying("deactivate_after", 0, days, None),
    )


def _transaction(fields: Fields, days: int) -> TransactionEntry:
    reverse = fields.object("reverse")
    amount = fields.take("amount")
    entry = TransactionEntry(
        fields.path,
        fields.when(days),
        fields.texts("account"),
        fields.text("type"),
        None if amount == "all" else fields.parse_varying("amount", amount, 1, MAX_AMOUNT),
        fields.texts("description", None),
        fields.texts("destination", None),
        _fee(fields.object("fee")),
        0 if reverse is None else reverse.whole("share", 1, 100, 100),
        None if reverse is None else reverse.varying("after", 0, days),
    )
    if reverse is not None:
        reverse.end()
    return entry


def _fee(fields: Fields | None) -> Fee | None:
    if fields is None:
        return None
    fee = Fee(fields.whole("percent", 1, 99), fields.text("to"), fields.text("description", "Fee"))
    fields.end()
    return fee


def _line(fields: Fields) -> LineEntry:
    line = LineEntry(
        fields.text("description"),
        fields.varying("quantity", 1, MAX_AMOUNT, Whole(1, 1)),
        fields.varying("unit_amount", 0, MAX_AMOUNT),
    )
    fields.end()
    return line


def _invoice(fields: Fields, days: int) -> InvoiceEntry:
    lines = []
    for position, each in enumerate(fields.list("lines")):
        path = f"{fields.path}.lines[{position}]"
        lines.append(_line(Fields(each, path, path)))
    entry = InvoiceEntry(
        fields.path,
        fields.when(days),
        fields.text("account"),
        fields.texts("customer"),
        fields.varying("amount", 1, MAX_AMOUNT, None),
        tuple(lines),
        fields.varying("pick", 1, max(1, len(lines)), None),
        fields.whole("due_in", 0, DAYS_MAX, None),
        fields.text("description", None),
        fields.metadata(),
        fields.varying("finalize_after", 0, days, None),
        fields.varying("pay_after", 0, days, None),
        fields.varying("void_after", 0, days, None),
    )
    if (entry.amount is None) == (not lines):
        fields.fail("amount", "must be given, or lines; not both.")
    if entry.finalize_after is None and (entry.pay_after or entry.void_after) is not None:
        fields.fail("finalize_after", "must be given for an invoice that is paid or voided.")
    if entry.pay_after is not None and entry.void_after is not None:
        fields.fail("void_after", "must not be given for an invoice that is paid.")
    return entry


def _order(fields: Fields, days: int) -> OrderEntry:
    items = []
    for position, each in enumerate(fields.list("items")):
        if not isinstance(each, dict):
            fields.fail(f"items[{position}]", "must be an object.")
        item = Fields(each, f"{fields.path}.items[{position}]", "")
        ranges = {
            name: item.varying(name, least, MAX_AMOUNT)
            for name, least in (("quantity", 1), ("unit_amount", 0))
            if name in each
        }
        items.append({**each, **ranges})
    entry = OrderEntry(
        fields.path,
        fields.when(days),
        fields.texts("user"),
        tuple(items),
        fields.varying("pick", 1, max(1, len(items)), None),
        fields.varying("pay_after", 0, days, None),
        fields.varying("ship_after", 0, days, None),
    )
    if entry.pay_after is None and entry.ship_after is not None:
        fields.fail("pay_after", "must be given for an order that is shipped.")
    return entry


_KINDS: dict[str, Callable[[Fields, int], Entry]] = {
    "accounts": _account,
    "users": _user,
    "transactions": _transaction,
    "invoices": _invoice,
    "orders": _order,
}


def _check_references(entries: list[Entry]) -> None:
    accounts: set[str] = set()
    users: set[str] = set()
    for entry in entries:
        if isinstance(entry, AccountEntry | UserEntry):
            known = accounts if isinstance(entry, AccountEntry) else users
            if entry.ref in known:
                raise BadDataSet(f"{entry.path}.ref", f"{entry.ref!r} is already used.")
            known.add(entry.ref)
    for entry in entries:
        for name, refs, known in _references(entry, accounts, users):
            for ref in refs:
                if ref not in known:
                    raise BadDataSet(f"{entry.path}.{name}", f"there is no ref {ref!r}.")


def _references(
    entry: Entry, accounts: set[str], users: set[str]
) -> list[tuple[str, tuple[str, ...], set[str]]]:
    if isinstance(entry, TransactionEntry):
        return [
            ("account", entry.accounts.choices, accounts),
            ("destination", entry.destinations.choices if entry.destinations else (), accounts),
            ("fee.to", (entry.fee.to,) if entry.fee else (), accounts),
        ]
    if isinstance(entry, InvoiceEntry):
        return [("account", (entry.account,), accounts)]
    if isinstance(entry, OrderEntry):
        return [("user", entry.users.choices, users)]
    return []


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice!r} occurs twice in one object")
    return value


def names() -> list[str]:
    """Return the names of the included data sets (the files' stems), sorted."""
    return sorted(file.stem for file in _folder().glob("*.json"))


def path(name_or_path: str) -> Path:
    """Return the path of a data set: one of `names()`, or any JSON file by its path.

    An included name comes first, so that a file that happens to be in the working directory has no effect.
    Raises FileNotFoundError, whose message lists the names.
    """
    bundled = _folder() / f"{name_or_path}.json"
    if name_or_path in names():
        return bundled
    file = Path(name_or_path).expanduser()
    if file.is_file():
        return file
    raise FileNotFoundError(
        f"There is no data set {name_or_path!r}: give a JSON file or one of {', '.join(names())}."
    )


def _folder() -> Path:
    here = Path(__file__).resolve()
    installed = here.with_name("seeds")
    return installed if installed.is_dir() else here.parents[4] / "seeds"
