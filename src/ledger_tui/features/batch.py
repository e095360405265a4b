"""A dialog that posts the transactions of a CSV or JSONL file, after showing them.

They are posted in parts, each as a whole or not at all.

The columns, or the names in each JSON object, are `account` (an id or a name), `type` (credit or debit),
either `amount` (in the smallest unit, as exports and the API write it) or `decimal_amount` (such as 12.50),
and where wanted `description` and `destination`. The other columns of an export are passed over, but
`currency` must be the account's, and a side of a transfer is refused: the transfer would be made twice.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, ProgressBar, Static

from ledger_tui.client.api import Api, new_idempotency_key
from ledger_tui.client.errors import AlreadyDone, ApiError, LedgerError, NotConnected, NotOffered
from ledger_tui.client.lists import learn_account, learn_accounts_until
from ledger_tui.client.names import AccountName, AccountNames
from ledger_tui.client.session import Mode
from ledger_tui.formats.money import LARGEST_AMOUNT, MINUS, format_amount, parse_amount
from ledger_tui.formats.text import fit, literal
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.ui.dialogs import Dialog, confirm
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.view import Context

ROWS_MOST = 100_000
PROBLEMS_SAID = 500
_DECIMAL = re.compile(r"\d+[.,]\d+")
_USED = ("account", "type", "amount", "decimal_amount", "description", "destination", "currency")
_PASSED_OVER = ("id", "object", "balance_after", "created", "livemode", "transfer", "reverses")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # an export writes a ' before them


class BadFile(ValueError):
    """The file cannot be posted; the message is a sentence for each problem, one below the other.

    `rows` are those that can be read all the same. `decimals`: an amount is like 12.50.
    """

    def __init__(self, text: str, rows: Sequence[FileRow] = (), *, decimals: bool = False) -> None:
        super().__init__(text)
        self.rows = rows
        self.decimals = decimals


@dataclass(frozen=True, slots=True)
class FileRow:
    """One transaction of the file. `amount` is an int, or the text of a decimal amount."""

    line: int
    account: str
    type: str
    amount: int | str
    description: str | None
    destination: str | None
    currency: str | None


def read_rows(name: str, text: str, *, decimals: bool = False) -> list[FileRow]:
    """Return the transactions of a file, with `decimals` its amounts as decimal ones. Raises BadFile."""
    lines = _json_lines(text) if name.lower().endswith(".jsonl") else _csv_lines(text)
    rows: list[FileRow] = []
    problems: list[str] = []
    offers_decimals = False
    for line, values in lines:
        if decimals and "amount" in values:
            values = {**values, "amount": None, "decimal_amount": str(values["amount"])}
        try:
            rows.append(_row(line, values))
        except ValueError as error:
            problems.append(f"Line {line}: {error}")
            offers_decimals |= _DECIMAL.fullmatch(str(values.get("amount"))) is not None
        if len(rows) > ROWS_MOST:
            raise BadFile(f"The file has more than {ROWS_MOST:,} transactions.")
    if problems:
        raise BadFile("\n".join(problems), rows, decimals=offers_decimals)
    if not rows:
        raise BadFile("The file has no transactions.")
    return rows


def _csv_lines(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = reader.fieldnames or ()
        missing = [name for name in ("account", "type") if name not in columns]
        if missing or not {"amount", "decimal_amount"} & set(columns):
            raise BadFile("The first line must name the columns: account, type, amount or decimal_amount.")
        _check_names(columns)
        for values in reader:
            if None in values or None in values.values():
                raise BadFile(f"Line {reader.line_num}: it has another number of cells than the first line.")
            yield reader.line_num, {name: _cell(name, value) for name, value in values.items() if value}
    except csv.Error as error:
        raise BadFile(f"Line {reader.line_num}: it is not CSV: {error}.") from None


def _cell(name: str, value: str) -> Any:
    if value[:1] == "'" and value[1:].startswith(_FORMULA):
        value = value[1:]
    return int(value) if name == "amount" and value.isascii() and value.isdigit() else value


def _json_lines(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line, object_pairs_hook=_once)
        except BadFile as error:
            raise BadFile(f"Line {number}: {error}") from None
        except (ValueError, RecursionError):
            raise BadFile(f"Line {number}: it is not JSON.") from None
        if not isinstance(values, dict):
            raise BadFile(f"Line {number}: it is not a JSON object.")
        _check_names(values, f"Line {number}: ")
        yield number, {name: value for name, value in values.items() if value is not None}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object. Raises BadFile for a name that is there twice."""
    values = dict(pairs)
    if len(values) != len(pairs):
        raise BadFile("a name is given twice.")
    return values


def _check_names(names: Any, where: str = "") -> None:
    unknown = [name for name in names if name not in (*_USED, *_PASSED_OVER)]
    if unknown:
        raise BadFile(f"{where}“{unknown[0]}” is not one of {', '.join(_USED)}.")


def _row(line: int, values: Mapping[str, Any]) -> FileRow:
    """Return a transaction. Raises ValueError with a sentence."""
    texts = {name: values.get(name) for name in _USED if name != "amount"}
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{name} must be a text.")
        if value is not None and not _can_be_sent(value):
            raise ValueError(f"{name} has an invalid Unicode character.")
    if values.get("transfer"):
        raise ValueError("It is a side of a transfer; write account and destination once, without transfer.")
    if not texts["account"]:
        raise ValueError("An account is required.")
    if texts["type"] not in ("credit", "debit"):
        raise ValueError("The type must be credit or debit.")
    amount = values.get("amount")
    if isinstance(amount, str):
        raise ValueError(
            f"“{amount}” is not a whole number of the smallest unit. Amounts like 12.50 belong in the column"
            " decimal_amount."
        )
    if (amount is None) == (texts["decimal_amount"] is None):
        raise ValueError("Give either amount or decimal_amount.")
    if amount is not None and (not isinstance(amount, int) or isinstance(amount, bool) or amount < 1):
        raise ValueError("The amount must be a whole number of the smallest unit, at least 1.")
    sent = amount if amount is not None else str(texts["decimal_amount"])
    rest = (texts[name] for name in ("description", "destination", "currency"))
    return FileRow(line, str(texts["account"]), str(texts["type"]), sent, *rest)


def _can_be_sent(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


ROWS_IN_PART = 1000  # the server's maximum (docs/decisions.md#accounts)
_BYTES_IN_PART = 900_000  # a body has at most 1 MB
_FILE_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class Posting:
    """One transaction as it is sent, with its line in the file and its currency."""

    line: int
    body: Mapping[str, Any]
    currency: str


@dataclass(frozen=True, slots=True)
class Part:
    """Transactions that are posted by one request. Sent again it cannot post them twice."""

    postings: Sequence[Posting]
    idempotency_key: str


def read_file(file: Path, *, decimals: bool = False) -> list[FileRow]:
    """Return the transactions of a file. Raises BadFile."""
    if file.suffix.lower() not in (".csv", ".jsonl"):
        raise BadFile("The name must end in .csv or .jsonl.")
    try:
        if file.stat().st_size > _FILE_BYTES:
            raise BadFile(f"The file is larger than {_FILE_BYTES // 1_000_000} MB.")
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadFile("The file is not UTF-8.") from None
    except OSError as error:
        raise BadFile(f"The file cannot be read: {error.strerror}.") from None
    return read_rows(file.name, text, decimals=decimals)


async def prepare(api: Api, names: AccountNames, rows: Sequence[FileRow]) -> list[Posting]:
    """Return the rows with their accounts' ids, and amounts in the smallest unit.

    Accounts that are not known yet are read. Raises BadFile with each problem, and LedgerError.
    """
    wanted = {row.account for row in rows} | {row.destination for row in rows if row.destination}
    accounts = {name: await _account(api, names, name) for name in sorted(wanted)}
    postings, problems = [], []
    for row in rows:
        try:
            postings.append(_posting(row, accounts))
        except ValueError as error:
            problems.append(f"Line {row.line}: {error}")
    if problems:
        raise BadFile("\n".join(problems))
    return postings


async def _account(api: Api, names: AccountNames, wanted: str) -> AccountName | str:
    """Return the account with this id or exactly this name, or what is wrong. Raises LedgerError."""
    if names.get(wanted) is None and not names.with_name(wanted):
        if wanted.startswith("acc_"):
            await learn_account(api, names, wanted)
        else:
            await learn_accounts_until(api, names, wanted)
    known = names.get(wanted)
    found = [known] if known is not None else names.with_name(wanted)
    if len(found) == 1:
        return found[0]
    if found:
        return f"{len(found)} accounts are called “{wanted}”; give the id."
    return f"There is no account “{wanted}”."


def _posting(row: FileRow, accounts: Mapping[str, AccountName | str]) -> Posting:
    """Return what is sent for a row. Raises ValueError with a sentence."""
    account = accounts[row.account]
    if isinstance(account, str):
        raise ValueError(account)
    if row.currency is not None and row.currency.upper() != account.currency:
        raise ValueError(f"The currency is {row.currency}, but that of {account.name} is {account.currency}.")
    amount = row.amount
    if isinstance(amount, str):
        amount = parse_amount(amount, account.currency, of_file=True)
    if amount > LARGEST_AMOUNT:
        raise ValueError("The amount is too large.")
    body: dict[str, Any] = {"account": account.id, "type": row.type, "amount": amount}
    if row.description:
        body["description"] = row.description
    if row.destination:
        other = accounts[row.destination]
        if isinstance(other, str):
            raise ValueError(other)
        body["destination"] = other.id
    return Posting(row.line, body, account.currency)


def parts_of(postings: Iterable[Posting], rows_most: int = ROWS_IN_PART) -> list[Part]:
    """Return the postings in parts that fit into a request."""
    parts: list[list[Posting]] = []
    size = 0
    for posting in postings:
        bytes_ = len(json.dumps(posting.body, ensure_ascii=False).encode("utf-8", "surrogatepass")) + 2
        if not parts or len(parts[-1]) >= rows_most or size + bytes_ > _BYTES_IN_PART:
            parts.append([])
            size = 0
        parts[-1].append(posting)
        size += bytes_
    return [Part(part, new_idempotency_key()) for part in parts]


def totals(postings: Iterable[Posting]) -> dict[tuple[str, str], int]:
    """Return the sums by type and currency."""
    sums: Counter[tuple[str, str]] = Counter()
    for posting in postings:
        sums[posting.body["type"], posting.currency] += posting.body["amount"]
    return dict(sums)


async def post_part(api: Api, path: str, part: Part, *, one: bool = False) -> None:
    """Post a part: by one request to `path`, or with `one` its only transaction by itself.

    Raises LedgerError: AlreadyDone when an earlier attempt has posted it, NotOffered when the server takes no
    batches.
    """
    if one:
        await api.write("POST", "/v1/transactions", part.postings[0].body, part.idempotency_key)
        return
    body = {"transactions": [posting.body for posting in part.postings]}
    await api.write("POST", path, body, part.idempotency_key, part="transactions.batch")


_PREVIEWED = 6
_ITEM = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")


class BatchScreen(Dialog[int]):
    """Returns how many transactions were posted."""

    BINDINGS = [
        Binding("enter", "go_on", "read the file", show=True, priority=True),
        Binding("ctrl+d", "decimals", "read amounts as decimals", show=True, priority=True),
        Binding("escape", "close", "cancel", show=True),
    ]

    def __init__(self, path: str, context: Context) -> None:
        super().__init__("batch", "Post a file of transactions", context.session.mode)
        self._path = path
        self._api, self._session, self._names = context.api, context.session, context.names
        self._postings: Sequence[Posting] = ()
        self._parts: list[Part] = []
        self._next = 0  # the number of the part to post next
        self._posted = 0
        self._one_by_one = False
        self._stopping = False
        self._decimals = False  # whether the column `amount` has decimal amounts
        self._offers_decimals = False

    def content(self) -> ComposeResult:
        yield Input(placeholder="transactions.csv or .jsonl", compact=True)
        with VerticalScroll(id="batch-scroll", can_focus=False):
            yield Static(id="batch-preview")
        yield ProgressBar(show_eta=False)
        yield self.notes

    def on_mount(self) -> None:
        self.query_one(ProgressBar).display = False
        self.note(
            "Columns: account (id or name), type, amount (smallest unit) or decimal_amount (12.50)."
            " Optional: description, destination."
        )

    def key_text(self, binding: Binding) -> str:
        """Return what enter and esc do now."""
        if binding.action == "close":
            return "stop" if self._posts else "close" if self._posted else "cancel"
        if binding.action == "decimals":
            return binding.description
        return f"post {self._left:,}" if self._parts else "read the file"

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        if action == "decimals":
            return self._offers_decimals and not self.working
        return None if action == "go_on" and (self.working or self._done) else True

    @property
    def _posts(self) -> bool:
        return self.working and bool(self._parts)

    @property
    def _left(self) -> int:
        return sum(len(part.postings) for part in self._parts[self._next :])

    @property
    def _done(self) -> bool:
        return bool(self._parts) and self._next == len(self._parts)

    # ------------------------------------------------------------------ reading

    @on(Input.Changed)
    def another_file(self) -> None:
        """Forget what was read, as another file is meant."""
        if not self._posted:
            self._parts, self._decimals, self._offers_decimals = [], False, False
            self.query_one("#batch-preview", Static).update("")
            self.refresh_bindings()

    def action_decimals(self) -> None:
        self._decimals = True
        self.action_go_on()

    def action_go_on(self) -> None:
        if self._parts:
            self._ask()
            return
        name = self.query_one(Input).value.strip()
        try:
            file = Path(name).expanduser()
        except RuntimeError:
            self.note("There is no such home folder.", problem=True)
            return
        self.begin("Reading the file and its accounts…")
        self._read(file)

    @asks("batch")
    async def _read(self, file: Path) -> None:
        found: list[str] = []
        postings: Sequence[Posting] = ()
        self._offers_decimals = False
        try:
            rows: Sequence[FileRow] = await asyncio.to_thread(read_file, file, decimals=self._decimals)
        except BadFile as error:
            rows, self._offers_decimals = error.rows, error.decimals
            found += str(error).split("\n")
        try:
            postings = await prepare(self._api, self._names, rows)
        except (BadFile, LedgerError) as error:
            found += str(error).split("\n")
        found.sort(key=_line_of)
        self.call_later(self._show_file, () if found else postings, found)

    @while_running
    def _show_file(self, postings: Sequence[Posting], problems: Sequence[str] = ()) -> None:
        """Show the postings of the file, or all that stands in the way of posting it."""
        self.query_one("#batch-preview").set_class(bool(problems), "-faults")
        if problems:
            more = [f"and {len(problems) - PROBLEMS_SAID:,} more"] if len(problems) > PROBLEMS_SAID else []
            lines = [*map(literal, problems[:PROBLEMS_SAID]), *more]
            self.query_one("#batch-preview", Static).update(Content.styled("\n".join(lines), "$error"))
            offer = " ^d reads the amounts as decimal ones." if self._offers_decimals else ""
            count = f"{len(problems):,} fault{'s' if len(problems) > 1 else ''}"
            self.rest(f"{count}; nothing was posted.{offer}", problem=True)
        else:
            self._postings = postings
            self._parts = parts_of(postings)
            self.query_one("#batch-preview", Static).update(self._preview())
            self.rest(self._promise())

    def _preview(self) -> Content:
        lines = [self._line(posting) for posting in self._postings[:_PREVIEWED]]
        if len(self._postings) > _PREVIEWED:
            lines.append(Content.styled(f"… and {len(self._postings) - _PREVIEWED:,} more", "$muted"))
        sums = (
            f"{'▲ credit' if kind == 'credit' else '▼ debit'} {format_amount(total, currency)} {currency}"
            for (kind, currency), total in totals(self._postings).items()
        )
        return Content("\n").join([*lines, Content(""), Content("in all  " + ", ".join(sums))])

    def _line(self, posting: Posting) -> Content:
        body = posting.body
        sign, style = ("+", "$plus") if body["type"] == "credit" else (MINUS, "$minus")
        amount = f"{sign}{format_amount(body['amount'], posting.currency)} {posting.currency}"
        return Content.assemble(
            (f"{posting.line:>5}  ", "$muted"),
            (fit(amount, 18, "right"), style),
            "  ",
            fit(literal(self._names.name(body["account"])), 20),
            "  ",
            literal(body.get("description", "")),
        )

    def _promise(self) -> str:
        """Say what is posted together."""
        number = f"{self._left:,} transaction{'s' if self._left != 1 else ''}"
        if self._one_by_one:
            return f"{number}, one by one: those before a failure stay posted."
        if len(self._parts) == 1:
            return f"{number}, all or nothing."
        return f"{number} in {len(self._parts)} parts of up to 1,000; each part is posted as a whole or not."

    # ------------------------------------------------------------------ posting

    def _ask(self) -> None:
        """Post; in live mode only after the number of transactions was typed."""
        if self._session.mode is Mode.TEST:
            self._begin()
            return
        sums = self._preview().plain.rsplit("\n", 1)[-1]
        question = f"Post {self._promise()}\n\n{sums}"
        number, what = str(self._left), "number of transactions"
        confirm(self.app, question, number, self._session.mode, self._begin, what)

    def _begin(self) -> None:
        self._stopping = False
        self.query_one(Input).disabled = True
        bar = self.query_one(ProgressBar)
        bar.display = True
        bar.update(total=self._posted + self._left, progress=self._posted)
        self.begin("Posting…")
        self._post_next()

    def _post_next(self) -> None:
        self._post(self._parts[self._next])

    @asks("batch")
    async def _post(self, part: Part) -> None:
        await asyncio.sleep(self._session.look_pause if self._posted else 0)
        try:
            await post_part(self._api, self._path, part, one=self._one_by_one)
        except AlreadyDone:  # an earlier attempt, whose answer was lost
            self.call_later(self._posted_next)
        except NotOffered:
            self.call_later(self._go_on_one_by_one)
        except (NotConnected, ApiError) as error:
            again = "Posting again is safe: it takes effect only once."
            self.call_later(self._stop, f"No answer ({literal(error)}). {again}")
        except LedgerError as error:
            self.call_later(self._refused, _with_line(error, part))
        else:
            self.call_later(self._posted_next)

    @while_running
    def _posted_next(self) -> None:
        self._posted += len(self._parts[self._next].postings)
        self._next += 1
        self.query_one(ProgressBar).update(progress=self._posted)
        if self._done:
            self.notify(f"Posted {self._posted:,} transactions", markup=False)
            self.dismiss(self._posted)
        elif self._stopping:
            self._stop("Stopped.")
        else:
            self.note(f"{self._posted:,} posted; esc stops before the next part.")
            self._post_next()

    @while_running
    def _go_on_one_by_one(self) -> None:
        self._one_by_one = True
        self._parts = parts_of(self._postings, 1)
        self.rest(f"This server does not support batches. {self._promise()} ⏎ posts them.", problem=True)

    def _refused(self, sentence: str) -> None:
        whole = "" if self._one_by_one or len(self._parts) == 1 else ", and nothing of its part was posted"
        self._stop(f"{sentence} It was refused{whole}.")

    @while_running
    def _stop(self, sentence: str) -> None:
        before = f"{self._posted:,} of {self._posted + self._left:,} are posted" if self._posted else ""
        self.rest(f"{sentence} {before or 'Nothing was posted'}.", problem=True)

    def action_close(self) -> None:
        """Stop before the next part, or close."""
        if self._posts:
            self._stopping = True
            self.note("Stopping after the part that was sent…")
        else:
            self.workers.cancel_group(self, "batch")
            self.dismiss(self._posted)


def _line_of(problem: str) -> int:
    """Return the line that a problem is about, 0 for one of the whole file."""
    return int(found[1]) if (found := re.match(r"Line (\d+):", problem)) else 0


def _with_line(error: LedgerError, part: Part) -> str:
    """Return the refusal with the line of the file that it is about."""
    found = _ITEM.search(error.param or "")
    at = int(found[1]) if found else 0 if len(part.postings) == 1 else None
    if at is None or at >= len(part.postings):
        return literal(error)
    return f"Line {part.postings[at].line}: {literal(error)}"


def post_file(view: ResourceView) -> None:
    """Ask for a file and post its transactions to the view's list."""

    def closed(posted: int | None) -> None:
        if posted:
            view.show_created(None)

    view.app.push_screen(BatchScreen(view.resource.batch, view.context), closed)
