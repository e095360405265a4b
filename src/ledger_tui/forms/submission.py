"""The submission of a form: it prepares the request, sends it, and can safely send it again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date
from typing import Any, NamedTuple
from urllib.parse import quote

from ledger_client.errors import (
    AlreadyDone,
    ApiError,
    LedgerError,
    NotConnected,
    NotFound,
    PermissionDenied,
    RateLimited,
)
from ledger_tui.client.api import ApiResponse, new_idempotency_key
from ledger_tui.client.errors import NO_LEDGER
from ledger_tui.client.lists import learn_accounts_until, learn_users_until
from ledger_tui.client.records import Record
from ledger_tui.formats.money import BadAmount, localised, parse_amount
from ledger_tui.formats.text import literal
from ledger_tui.forms.editing import EditedObject, OtherChanges
from ledger_tui.forms.outcomes import in_words, uncertain
from ledger_tui.resources.accounts import ACCOUNTS
from ledger_tui.resources.base import Field, Form, Resource
from ledger_tui.resources.invoices import parse_lines
from ledger_tui.resources.registry import RESOURCES
from ledger_tui.resources.words import words_for
from ledger_tui.ui.view import Context


class FormSent(NamedTuple):
    """The server created or changed the object."""

    record: Record


class FormRefused(NamedTuple):
    """The form or the server refused the values. `errors` holds the sentences by field name.

    An error about the whole form has the name "".
    """

    errors: Mapping[str, str]


class SentBefore(NamedTuple):
    """An earlier request with this idempotency key succeeded, but its answer was lost.

    `record` is the object that the earlier request made, or None if the object cannot be read. `otherwise`
    warns that the earlier request may differ from the present request; without such a risk it is "".
    """

    record: Record | None
    otherwise: str


class FormUnanswered(NamedTuple):
    """No answer came, or the server failed, so the change may have been made; `sentence` gives the reason."""

    sentence: str


Result = FormSent | FormRefused | SentBefore | FormUnanswered | OtherChanges

_CHANGED_SINCE = 412
_NO_FIELD = "Somebody else changed the object, but none of this form's fields. Send the form again."

_NO_ACCOUNT = "There is no such account. Type part of its name."
_SEVERAL_ACCOUNTS = "Several accounts match: choose one."
_SEVERAL_USERS = "Several users match: choose one."


class PreparedForm(NamedTuple):
    """A request that is ready to send, with the typed values from which it was made."""

    typed: Mapping[str, str]
    body: Mapping[str, Any]
    idempotency_key: str | None
    currency: str | None


class Submission:
    """The submission of one form.

    All requests that create the object carry the same idempotency key, so only one of them takes effect.
    """

    def __init__(self, resource: Resource, form: Form, prefill: Mapping[str, str], context: Context) -> None:
        self._resource = resource
        self.form = form
        self.prefill = prefill
        self._api, self._session, self._names = context.api, context.session, context.names
        self.edited = EditedObject(resource, form, prefill, context.api, context.names)
        self.idempotency_key = new_idempotency_key()
        self.in_flight = False  # whether the request was sent; an unsent request can be cancelled
        self.sent_at = 0.0  # when the request was sent last
        self.unanswered: list[Mapping[str, Any]] = []  # the bodies of the requests without an answer
        self._balances: dict[str, int] = {}

    @property
    def kind(self) -> Resource:
        """The kind of the object to create or change.

        This kind can differ from the kind of the screen: a form on the screen of accounts can create a
        transaction.
        """
        return next((each for each in RESOURCES if each.path == self.form.path), self._resource)

    @property
    def balances(self) -> Mapping[str, int]:
        """The last known balance of each account.

        This mapping is empty if a request got no answer, because that request may have changed a balance.
        """
        return {} if self.unanswered else self._balances

    async def prepare(self, values: Mapping[str, str]) -> PreparedForm | FormRefused | OtherChanges:
        """Return the request for the typed values, or the errors of the values.

        If other people have changed the object since the user opened the form, return these changes.
        """
        self.in_flight = False
        try:
            await self._require_user(values)
            currency = await self._currency(values)
            self._require_partner(values)
            await self._require_destination(values)
            self._require_partner(values)
            if self.form.method == "PATCH":
                # This first call reports wrong values, before the form shows the changes of other people.
                changes_of(self.form, values, self.edited.values, currency)
                if (changes := await self.edited.find_other_changes(values)) is not None:
                    return changes
                body, key = changes_of(self.form, values, self.edited.values, currency), None
            else:
                body = {**dict(self.form.sends), **body_of(self.form, values, currency)}
                key = self.idempotency_key
        except FieldErrors as error:
            return FormRefused({**await self._other_errors(values), **error.errors})
        except LedgerError as error:
            return FormRefused({"": literal(error)})
        return PreparedForm(values, body, key, currency)

    async def _other_errors(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the errors of names that the server does not know, and of empty required fields.

        `prepare` stops at its first error, and then adds these errors, so that the user sees all errors.
        """
        errors: dict[str, str] = {}
        for field in self.form.fields:
            text = values.get(field.name, "").strip()
            if not text and self.form.method != "PATCH":
                errors[field.name] = missing(field, self.form, values)
            elif text and field.kind in ("account", "user") and self._names.get(text) is None:
                with suppress(LedgerError):
                    errors[field.name] = await self._error_of_name(field, text)
        return {name: error for name, error in errors.items() if error}

    async def send(self, form: PreparedForm, notify: Callable[[bool], object]) -> Result:
        """Send the request and return its outcome.

        Call `notify` with True when the request is sent, and with False before a wait for the rate limit.
        """
        values, body, key = form.typed, form.body, form.idempotency_key
        try:
            answer = await self._write(body, key, notify)
        except AlreadyDone as error:
            return SentBefore(await self._read_original(error.original), self._difference_warning(body))
        except (NotConnected, ApiError) as error:
            return self._no_answer(uncertain(error) or literal(error), body)
        except LedgerError as error:
            if error.status == _CHANGED_SINCE:
                return await self._look_after_conflict(values)
            return FormRefused({self._field_of(error, values): self._in_words(error)})
        record_id = answer.record.get("id")
        if isinstance(record_id, str) and record_id.startswith(self.kind.id_prefix):
            return FormSent(answer.record)
        return self._no_answer(NO_LEDGER, body)

    def _in_words(self, error: LedgerError) -> str:
        edited = self.edited.record
        words = words_for(self._resource, edited, self._names) if edited else ""
        text = in_words(error, self._names, edited.get("id"), words)
        # The server's sentence begins with the field's name in the request. The user knows only the label, so
        # replace the name with the label.
        labels = {field.name: field.label for field in self.form.fields}
        name, space, rest = text.partition(" ")
        return f"{labels.get(name, name)}{space}{rest}"

    async def _read_original(self, record_id: str | None) -> Record | None:
        """Return the object that an earlier request made; None if the object cannot be read."""
        if record_id is None or not self.kind.has_object_path:
            return None
        try:
            path = self.kind.object_path(record_id)
            return (await self._api.call("GET", path, part=self.kind.object_part)).record
        except LedgerError:
            return None

    async def _look_after_conflict(self, values: Mapping[str, str]) -> OtherChanges | FormRefused:
        """Read the object again after a 412, and return the changes of other people.

        If they have changed no field of the form, or the object cannot be read, return a refusal.
        """
        self.in_flight = False
        try:
            changes = await self.edited.find_other_changes(values)
        except LedgerError as error:
            return FormRefused({"": literal(error)})
        return changes or FormRefused({"": _NO_FIELD})

    async def _write(
        self, body: Mapping[str, Any], key: str | None, notify: Callable[[bool], object]
    ) -> ApiResponse:
        """Send the request; like `Api.write`, send it again while the rate limit refuses it.

        Unlike `Api.write`, this method sets `in_flight`. A request that the rate limit refused counts as
        unsent, because this request had no effect.
        """
        while True:
            while (seconds := self._session.waiting_seconds) > 0:
                notify(False)
                await asyncio.sleep(seconds)
            self.in_flight, self.sent_at = True, self._session.clock()
            notify(True)
            try:
                path = self.form.path or self._resource.path
                return await self._api.call(
                    self.form.method, path, body=body, idempotency_key=key, if_match=self.edited.etag
                )
            except RateLimited:
                self.in_flight = False

    def _no_answer(self, sentence: str, body: Mapping[str, Any]) -> FormUnanswered:
        if body not in self.unanswered:
            self.unanswered.append(body)
        return FormUnanswered(sentence)

    def _difference_warning(self, body: Mapping[str, Any]) -> str:
        """Return a warning if the request that took effect may have had another body than `body`, else ""."""
        if self.unanswered and body not in self.unanswered:
            return "An earlier version of this form was sent. Your later changes were not."
        if len(self.unanswered) > 1:
            return "You changed the form between two attempts: check which one took effect."
        return ""

    async def _currency(self, values: Mapping[str, str]) -> str | None:
        """Return the currency of the form's account; None if no account is given.

        Raises FieldErrors for an unknown account.
        """
        account_id = values.get("account", "").strip()
        if not account_id:
            return None
        if self._names.get(account_id) is not None:
            if self.form.moves_money:
                await self.read_balance(account_id)
            return self._names.currency(account_id)
        await self._read_account("account", account_id)
        return self._names.currency(account_id)

    async def _require_destination(self, values: Mapping[str, str]) -> None:
        """Raise FieldErrors if the form's destination is an unknown account."""
        account_id = values.get("destination", "").strip()
        if account_id and self._names.get(account_id) is None:
            await self._read_account("destination", account_id)

    async def _read_account(self, name: str, account_id: str) -> None:
        """Read the account in the field `name`. Raises FieldErrors if the server has no such account."""
        try:
            self._learn_account((await self._api.read(ACCOUNTS.object_path(account_id))).record)
        except NotFound:
            several = self._names.search(account_id)
            raise FieldErrors({name: _SEVERAL_ACCOUNTS if several else _NO_ACCOUNT}) from None

    def _learn_account(self, record: Record) -> None:
        self._names.learn([record])
        if isinstance(balance := record.get("balance"), int):
            self._balances[str(record.get("id"))] = balance

    async def read_balance(self, account_id: str) -> None:
        """Read an account's balance, with one request.

        If the rate limit leaves no request, or no answer comes, the balance becomes unknown.
        """
        self._balances.pop(account_id, None)
        if not self._session.waiting_seconds:
            with suppress(LedgerError):
                self._learn_account((await self._api.call("GET", ACCOUNTS.object_path(account_id))).record)

    def _require_partner(self, values: Mapping[str, str]) -> None:
        """Raise FieldErrors if no known account with the destination's text can take a transfer."""
        account, text = self._names.get(values.get("account", "").strip()), values.get("destination", "")
        chosen = self._names.get(text.strip())
        matches = self._names.search(text, None) if chosen is None and text.strip() else [chosen]
        others = [match for match in matches if match is not None]
        if account is None or not others or any(map(account.is_partner_of, others)):
            return
        label = next(field.label for field in self.form.fields if field.name == "destination")
        if len(others) > 1:
            error = f"{label} must be another account in {literal(account.currency)}."
        elif others == [account]:
            error = f"{label} must be another account."
        else:
            there, here = (
                f"{literal(each.name)} is in {literal(each.currency)}" for each in (others[0], account)
            )
            error = f"{there}, but {here}."
        raise FieldErrors({"destination": error})

    def fault_of(self, field: Field, values: Mapping[str, str]) -> str:
        """Return why the typed value of a field is wrong; "" if the dashboard finds no fault in the value."""
        text, account = (values.get(name, "").strip() for name in (field.name, "account"))
        currency = self._names.currency(account)
        reads_currency = field.kind in ("amount", "lines")
        if not text or (reads_currency and account and currency is None):
            return ""
        try:
            if field.name == "destination":
                self._require_partner(values)
            _value(field, text, currency)
        except FieldErrors as error:
            return error.errors[field.name]
        except ValueError as error:
            return str(error)
        return ""

    async def learn_named(self, name: str, *, users: bool) -> bool:
        """Read accounts or users until a name contains `name`; return whether there is such a name.

        Raises LedgerError.
        """
        if users:
            await learn_users_until(self._api, self._names, name)
            return bool(self._names.users.search(name, 1))
        await learn_accounts_until(self._api, self._names, name)
        return bool(self._names.search(name, 1))

    async def refusal_of(self, field: Field, text: str) -> str:
        """Ask the server about the text for an account or user; return why the text is wrong, else ""."""
        with suppress(LedgerError):  # `prepare` asks the server again
            if not await self.learn_named(text, users=field.kind == "user"):
                return await self._error_of_name(field, text)
        return ""

    async def _error_of_name(self, field: Field, text: str) -> str:
        """Return why `text` names no account or user; "" if it names one of them. Raises LedgerError."""
        try:
            await (
                self._require_user({field.name: text})
                if field.kind == "user"
                else self._currency({"account": text})
            )
        except FieldErrors as error:
            return next(iter(error.errors.values()))
        return ""

    async def _require_user(self, values: Mapping[str, str]) -> None:
        """Raise FieldErrors if a field names a user that does not exist."""
        for field in self.form.fields:
            user_id = values.get(field.name, "").strip()
            if field.kind != "user" or not user_id or self._names.users.get(user_id) is not None:
                continue
            try:
                answer = await self._api.read(f"/api/users/{quote(user_id, safe='')}")
            except NotFound as error:
                several = self._names.users.search(user_id)
                text = _SEVERAL_USERS if several else f"{literal(error)} Type part of the name or email."
                raise FieldErrors({field.name: text}) from None
            except PermissionDenied:  # a credential may be allowed to place orders but not to read users
                continue
            self._names.learn_users([answer.record])

    def _field_of(self, refusal: LedgerError, values: Mapping[str, str]) -> str:
        """Return the name of the field that a refusal is about; "" if it is about no field of the form.

        The name is the first part of the error's `param`. The errors of the directory (users and orders) have
        no `param`. For such an error, return the field whose value the message quotes.
        """
        name = (refusal.param or "").partition(".")[0]
        for field in self.form.fields:
            value = values.get(field.name, "").strip()
            is_quoted = refusal.param is None and value and f"'{value}'" in refusal.message
            if field.name == name or is_quoted:
                return field.name
        return ""


_MOST_PAIRS = 20
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_PRICE = r"(?:\s*@\s*([\d.,]{1,20})(?:\s*([A-Za-z]{3}))?)?"
_ITEM = re.compile(r"(?:(\d{1,9})(?:\s*[xX]\s+|\s*×\s*))?([^@;\s][^@;]*?)" + _PRICE)
# The form refuses a name that begins like this, because a guess may be wrong: in `2xl shirt`, 2 may be a
# quantity or part of the name, and in `2,000 x Mug`, the quantity may be 2 or 2000.
_LIKE_A_QUANTITY = re.compile(r"[-+]?\d[\d.,']*\s*[xX×*]")


class FieldErrors(ValueError):
    """The errors of a form, by the field's name."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = dict(errors)


def body_of(form: Form, values: Mapping[str, str], currency: str | None = None) -> dict[str, Any]:
    """Return the body to send, without the empty optional fields.

    `currency` is the currency of the form's account, to read the amount. Raises FieldErrors.
    """
    body: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for field in form.fields:
        text = values.get(field.name, "").strip()
        if not text:
            if error := missing(field, form, values):
                errors[field.name] = error
            continue
        try:
            body[field.name] = _value(field, text, currency)
        except ValueError as error:
            errors[field.name] = str(error)
    if errors:
        raise FieldErrors(errors)
    return body


def missing(field: Field, form: Form, values: Mapping[str, str]) -> str:
    """Return the error of a required field if the field and all its alternatives are empty; otherwise ""."""
    alternatives = form.either if field.name in form.either else (field.name,)
    if not field.required or any(values.get(name, "").strip() for name in alternatives):
        return ""
    return f"{field.label} is required." if len(alternatives) == 1 else f"Give {' or '.join(alternatives)}."


def changes_of(
    form: Form, values: Mapping[str, str], before: Mapping[str, str], currency: str | None = None
) -> dict[str, Any]:
    """Return the body of an edit, with only the changed fields; an optional field that is now empty is null.

    If the account has changed, the amount or the lines are in the body too. Raises FieldErrors, also if the
    user has changed no field.
    """
    fields = [f for f in form.fields if values.get(f.name, "").strip() != before.get(f.name, "").strip()]
    if not fields:
        raise FieldErrors({"": "Nothing was changed."})
    # The new account may have another currency, in which the same text means another amount.
    if any(f.kind == "account" for f in fields):
        fields = [f for f in form.fields if f in fields or f.kind in ("amount", "lines")]
    body: dict[str, Any] = {f.name: None for f in fields if not f.required and f.name not in form.either}
    return body | body_of(replace(form, fields=tuple(fields)), values, currency)


def _value(field: Field, text: str, currency: str | None) -> Any:
    if field.kind in ("amount", "lines"):
        if currency is None:
            raise BadAmount("Choose an account first: its currency decides how the amount is read.")
        return parse_amount(text, currency) if field.kind == "amount" else parse_lines(text, currency)
    if field.kind == "currency":
        return text.upper()
    if field.kind == "date":
        return _date(text)
    if field.kind == "metadata":
        return _pairs(text)
    if field.kind == "items":
        return _items(text)
    if field.kind == "words":
        return text.split()
    return text


def _date(text: str) -> str:
    if not _DATE.fullmatch(text):
        raise ValueError("Write a date like 2026-12-31.")
    try:
        date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"There is no day {text}.") from None
    return text


def _pairs(text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise ValueError("Write pairs like team=north; region=eu.")
        if key.strip() in pairs:
            raise ValueError(f"{key.strip()} is given twice.")
        pairs[key.strip()] = value.strip()
    if len(pairs) > _MOST_PAIRS:
        raise ValueError(f"At most {_MOST_PAIRS} pairs.")
    return pairs


def _items(text: str) -> list[dict[str, Any]]:
    """Return an order's items for `2 x Beans @ 12.50 EUR; 3 × Mug; Filter`.

    An order has no currency of its own, so a price without a currency is a number of the smallest units.
    """
    items: list[dict[str, Any]] = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        match = _ITEM.fullmatch(part)
        if match is None:
            raise ValueError(f"Write items like 2 x Beans @ {localised('12.50')} EUR; Filter.")
        quantity, name, price, currency = match.groups()
        if quantity is None and _LIKE_A_QUANTITY.match(name):
            raise ValueError(
                "Is that a quantity? Then write 2 x Mug. If it begins the name, write 1 x 2xl Shirt."
            )
        item: dict[str, Any] = {"name": name, "quantity": int(quantity or 1)}
        if currency:
            item["unit_amount"] = parse_amount(price, currency.upper(), least=0)
            item["currency"] = currency.upper()
        elif price:
            if not price.isdigit():
                raise ValueError(f"A price like {price} needs its currency: {name} @ {price} EUR.")
            item["unit_amount"] = int(price)
        items.append(item)
    return items
