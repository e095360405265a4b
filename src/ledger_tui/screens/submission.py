"""What was typed into a form on its way to the server, once or again, always as the same intent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from textual.message import Message

from ledger_tui.client.api import Answer, Api, new_idempotency_key
from ledger_tui.client.errors import (
    NO_LEDGER,
    AlreadyDone,
    ClientError,
    NotFound,
    RateLimited,
    Refusal,
    ServerError,
    Unreachable,
)
from ledger_tui.messages import FormOnItsWay, FormRefused, FormSent, FormUnanswered, FormWasSentBefore
from ledger_tui.resources.base import Form, Resource
from ledger_tui.resources.forms import FieldErrors, body_of, changes_of
from ledger_tui.state.names import AccountNames
from ledger_tui.state.session import Session
from ledger_tui.state.text import literal

_NO_ACCOUNT = "There is no such account. Type part of its name."


class Submission:
    """One intent with one idempotency key: sending it again cannot do it twice."""

    def __init__(
        self,
        resource: Resource,
        form: Form,
        prefill: Mapping[str, str],
        api: Api,
        session: Session,
        names: AccountNames,
    ) -> None:
        self._resource = resource
        self.form = form
        self.prefill = prefill
        self._api = api
        self._session = session
        self._names = names
        self.idempotency_key = new_idempotency_key()
        self.on_its_way = False  # whether what is sent has left: before, it can still be taken back
        self.unanswered: list[Mapping[str, Any]] = []  # each body that may have been done or not

    async def send(self, typed: Mapping[str, str], tell: Callable[[Message], object]) -> Message:
        """What came of it; `tell` is told when it leaves, and when it is held back."""
        self.on_its_way = False
        try:
            currency = await self._currency(typed)
            if self.form.method == "PATCH":
                body, key = changes_of(self.form, typed, self.prefill, currency), None
            else:
                body, key = body_of(self.form, typed, currency), self.idempotency_key
        except FieldErrors as error:
            return FormRefused(error.errors)
        except ClientError as error:
            return FormRefused({"": literal(error)})
        try:
            answer = await self._write(body, key, tell)
        except AlreadyDone as error:
            return FormWasSentBefore(error.original, self._what_was_done(body))
        except Unreachable as error:
            return self._no_answer(f"No answer ({literal(error)}).", body)
        except ServerError as error:
            return self._no_answer(literal(error), body)
        except Refusal as error:
            return FormRefused({self._field_of(error, typed): literal(error)})
        except ClientError as error:
            return FormRefused({"": literal(error)})
        record_id = answer.record.get("id")
        if isinstance(record_id, str) and record_id.startswith(self._resource.id_prefix):
            return FormSent(answer.record)
        return self._no_answer(NO_LEDGER, body)

    async def _write(
        self, body: Mapping[str, Any], key: str | None, tell: Callable[[Message], object]
    ) -> Answer:
        """As `Api.write`, but it is known whether it has left: what a rate limit holds back was not sent."""
        while True:
            while (seconds := self._session.waiting_seconds) > 0:
                tell(FormOnItsWay(False))
                await asyncio.sleep(seconds)
            self.on_its_way = True
            tell(FormOnItsWay(True))
            try:
                return await self._api.call(self.form.method, self.form.path, body=body, idempotency_key=key)
            except RateLimited:
                self.on_its_way = False

    def _no_answer(self, sentence: str, body: Mapping[str, Any]) -> FormUnanswered:
        if body not in self.unanswered:
            self.unanswered.append(body)
        return FormUnanswered(sentence)

    def _what_was_done(self, body: Mapping[str, Any]) -> str:
        """What an earlier try may have done otherwise than `body` says; "" where that is what was done."""
        if self.unanswered and body not in self.unanswered:
            return "That is what you sent before: what you have changed since was not done."
        if len(self.unanswered) > 1:
            return "You changed it between two tries: look which of them was done."
        return ""

    async def _currency(self, typed: Mapping[str, str]) -> str | None:
        """The currency of the form's account, asked for if not known. Raises FieldErrors for no account."""
        if not any(field.kind == "amount" for field in self.form.fields):
            return None
        account_id = typed.get("account", "").strip()
        if not account_id:
            return None
        if self._names.get(account_id) is None:
            try:
                answer = await self._api.read(f"/v1/accounts/{quote(account_id, safe='')}")
            except NotFound:
                several = self._names.search(account_id)
                said = "Several have that in their name: choose one." if several else _NO_ACCOUNT
                raise FieldErrors({"account": said}) from None
            self._names.learn([answer.record])
        return self._names.currency(account_id)

    def _field_of(self, refusal: Refusal, typed: Mapping[str, str]) -> str:
        """The field a refusal is about: what its `param` begins with; without one (the directory tells none)
        that whose value it quotes."""
        name = (refusal.param or "").partition(".")[0]
        for field in self.form.fields:
            value = typed.get(field.name, "").strip()
            quoted = refusal.param is None and value and f"'{value}'" in refusal.message
            if field.name == name or quoted:
                return field.name
        return ""
