"""A model of the ledger in plain Python: what interface.md and decisions.md say, not how it is done.

Each method predicts an outcome: the allowed refusals, any of which may be given, or, without any, the records
that then exist. `Outcome.happen` applies it to the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

MAX = 2**53 - 1
THIRTY_DAYS = 30 * 86_400_000
CURRENCIES = {"EUR", "JPY", "KWD"}  # those the tests know to be active

Refusal = tuple[str, str | None]  # code and param
Fields = dict[str, Any]


@dataclass
class ModelTenant:
    """One project in one mode: all that a credential of it can see. Lists are oldest first."""

    project: str
    livemode: bool
    may_overdraw: bool = True
    quota: int | None = None
    accounts: dict[str, Fields] = field(default_factory=dict)
    transactions: dict[str, Fields] = field(default_factory=dict)
    invoices: dict[str, Fields] = field(default_factory=dict)
    users: dict[str, Fields] = field(default_factory=dict)
    orders: dict[str, Fields] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    events: list[tuple[str, str]] = field(default_factory=list)

    def stored(self) -> int:
        kinds = (self.accounts, self.transactions, self.invoices, self.users, self.orders)
        return sum(len(kind) for kind in kinds)


@dataclass
class Outcome:
    """`due` contains the refusals that would be right; it is empty when the request is to succeed.

    `expected` is the record of the answer, without the ids that only the engine makes; `happen(ids)` writes
    it into the model, given the ids of the new records.
    """

    due: set[Refusal]
    expected: Fields
    happen: Callable[[Sequence[str]], None] = lambda ids: None


def _text(value: str, most: int, param: str, least: int = 1) -> set[Refusal]:
    return set() if least <= len(value) <= most else {("invalid_value", param)}


def _of_a_due_posting(due: set[Refusal]) -> set[Refusal]:
    """Return the refusals without a `param`: who reverses or pays sends no amount that could be at fault."""
    return {(code, None if param == "amount" else param) for code, param in due}


class Model:
    """All tenants, and the time."""

    def __init__(self, now: int) -> None:
        self.now = now

    # Common to all creations

    def _key(self, tenant: ModelTenant, key: str | None) -> set[Refusal]:
        return {("duplicate_idempotency_key", "Idempotency-Key")} if key in tenant.keys else set()

    def _quota(self, tenant: ModelTenant, more: int = 1) -> set[Refusal]:
        over = tenant.quota is not None and tenant.stored() + more > tenant.quota
        return {("quota_exceeded", None)} if over else set()

    def _made(
        self, tenant: ModelTenant, kind: dict[str, Fields], event: str, key: str | None, record: Fields
    ) -> None:
        kind[record["id"]] = record
        tenant.events.append((event, record["id"]))
        self._took(tenant, key, record["id"])

    def _took(self, tenant: ModelTenant, key: str | None, object: str) -> None:
        if key is not None:
            tenant.keys[key] = object

    def _new(self, tenant: ModelTenant, **fields: Any) -> Fields:
        return {**fields, "created": self.now, "livemode": tenant.livemode}

    # Accounts

    def create_account(
        self, tenant: ModelTenant, name: str, currency: str, metadata: dict[str, str], key: str | None
    ) -> Outcome:
        due = self._key(tenant, key) | self._quota(tenant) | _text(name, 255, "name")
        if currency.upper() not in CURRENCIES:
            due.add(("invalid_value", "currency"))
        if len(metadata) > 20:
            due.add(("invalid_value", "metadata"))
        record = self._new(tenant, name=name, currency=currency.upper(), balance=0, metadata=metadata)

        def happen(ids: Sequence[str]) -> None:
            self._made(tenant, tenant.accounts, "account.created", key, {"id": ids[0], **record})

        return Outcome(due, record, happen)

    def balance_at(self, tenant: ModelTenant, account: str, at: int) -> int:
        return sum(
            _signed(each)
            for each in tenant.transactions.values()
            if each["account"] == account and each["created"] <= at
        )

    # Transactions

    def post(self, tenant: ModelTenant, new: Fields, key: str | None) -> Outcome:
        return self._post_all(tenant, [new], key, names=[""])

    def post_batch(self, tenant: ModelTenant, batch: Sequence[Fields], key: str | None) -> Outcome:
        if not 1 <= len(batch) <= 1000:
            return Outcome({("invalid_value", "transactions")} | self._key(tenant, key), {})
        return self._post_all(tenant, batch, key, names=[f"transactions.{n}." for n in range(len(batch))])

    def reverse(self, tenant: ModelTenant, id: str, key: str | None) -> Outcome:
        due = self._key(tenant, key)
        original = tenant.transactions.get(id)
        if original is None:
            return Outcome(due | {("not_found", None)}, {})
        if any(each["reverses"] == id for each in tenant.transactions.values()):
            return Outcome(due | {("not_recoverable", None)}, {})
        opposite = {
            **{name: original[name] for name in ("account", "amount", "description", "destination")},
            "type": "debit" if original["type"] == "credit" else "credit",
        }
        other_side = [
            each["id"]
            for each in tenant.transactions.values()
            if original["transfer"] and each["transfer"] == original["transfer"] and each["id"] != id
        ]
        posted = self._post_all(tenant, [opposite], key, names=[""], reverses=[id, *other_side])
        return replace(posted, due=_of_a_due_posting(posted.due))

    def _post_all(
        self,
        tenant: ModelTenant,
        batch: Sequence[Fields],
        key: str | None,
        names: Sequence[str],
        reverses: Sequence[str] = (),
    ) -> Outcome:
        due = self._key(tenant, key)
        tried = deepcopy(tenant)
        sides: list[Fields] = []
        answers: list[int] = []
        for new, at in zip(batch, names, strict=True):
            refusals = self._refuse_posting(tried, new, at)
            if refusals:
                return Outcome(due | refusals, {})
            first = len(sides)
            answers.append(first)
            sides += self._sides(tried, new, first)
            for number, side in enumerate(sides[first:], first):
                tried.transactions[f"tried {number}"] = side
        for side, original in zip(sides, reverses, strict=False):
            side["reverses"] = original

        def happen(ids: Sequence[str]) -> None:
            for side, id in zip(sides, ids, strict=True):
                transfer = None if side["transfer"] is None else ids[side["transfer"]]
                record = {**side, "id": id, "transfer": transfer}
                self._made(tenant, tenant.transactions, "transaction.created", None, record)
                tenant.accounts[side["account"]]["balance"] = side["balance_after"]
            self._took(tenant, key, ids[0])

        return Outcome(due, {"sides": len(sides), "answers": answers}, happen)

    def _refuse_posting(self, tenant: ModelTenant, new: Fields, at: str) -> set[Refusal]:
        due = _text(new["description"] or "", 500, at + "description", least=0)
        if new["type"] not in ("credit", "debit"):
            due.add(("invalid_value", at + "type"))
        if not 1 <= new["amount"] <= MAX:
            due.add(("invalid_value", at + "amount"))
        if new["destination"] == new["account"]:
            due.add(("invalid_value", at + "destination"))
        due |= self._quota(tenant, 1 if new["destination"] is None else 2)
        moved = {new["account"]: _signed(new), new["destination"]: -_signed(new)}
        names = {new["account"]: "account", new["destination"]: "destination"}
        for id, change in moved.items():
            if id is None:
                continue
            account = tenant.accounts.get(id)
            if account is None:
                due.add(("not_found", at + names[id]))
                continue
            balance = account["balance"] + change
            if abs(balance) > MAX:
                due.add(("balance_out_of_range", at + "amount"))
            if change < 0 and balance < 0 and not tenant.may_overdraw:
                due.add(("insufficient_funds", at + "amount"))
        known = [tenant.accounts[id]["currency"] for id in moved if id in tenant.accounts]
        if len(set(known)) > 1:
            due.add(("currency_mismatch", at + "destination"))
        return due

    def _sides(self, tenant: ModelTenant, new: Fields, first: int) -> list[Fields]:
        """Return the transactions; `transfer` is the index of the first side until its id is known."""
        pairs = [(new["account"], new["destination"], new["type"], _signed(new))]
        if new["destination"] is not None:
            opposite = "debit" if new["type"] == "credit" else "credit"
            pairs.append((new["destination"], new["account"], opposite, -_signed(new)))
        sides = []
        for account, destination, type, change in pairs:
            tenant.accounts[account]["balance"] += change
            sides.append(
                self._new(
                    tenant,
                    account=account,
                    amount=new["amount"],
                    type=type,
                    description=new["description"],
                    balance_after=tenant.accounts[account]["balance"],
                    destination=destination,
                    transfer=None if new["destination"] is None else first,
                    reverses=None,
                )
            )
        return sides

    # Invoices

    def create_invoice(self, tenant: ModelTenant, new: Fields, key: str | None) -> Outcome:
        due = self._key(tenant, key) | self._quota(tenant) | self._refuse_invoice(tenant, new)
        lines, account = new["lines"], tenant.accounts.get(new["account"])
        record = self._new(
            tenant,
            **{**new, "amount": new["amount"] if lines is None else _total(lines)},
            currency=account and account["currency"],
            status="draft",
            number=None,
            transaction=None,
            opened_at=None,
            paid_at=None,
            voided_at=None,
        )

        def happen(ids: Sequence[str]) -> None:
            self._made(tenant, tenant.invoices, "invoice.created", key, {"id": ids[0], **record})

        return Outcome(due, record, happen)

    def _refuse_invoice(self, tenant: ModelTenant, new: Fields) -> set[Refusal]:
        due = _text(new["customer"], 255, "customer")
        if new["account"] not in tenant.accounts:
            due.add(("not_found", "account"))
        amount, lines = new["amount"], new["lines"]
        if amount is not None and lines is not None:
            due |= {("invalid_value", "lines"), ("invalid_value", "amount")}
        if amount is None and lines is None:
            due.add(("missing_field", "amount"))
        if amount is not None and not 1 <= amount <= MAX:
            due.add(("invalid_value", "amount"))
        if lines is not None and not (1 <= len(lines) <= 100 and 1 <= _total(lines) <= MAX):
            due.add(("invalid_value", "lines"))
        return due

    def update_invoice(self, tenant: ModelTenant, id: str, changes: Fields) -> Outcome:
        invoice, due = self._invoice(tenant, id, "draft", "invoice_not_draft")
        if invoice is None:
            return Outcome(due, {})
        changed = {**invoice, **changes}
        if "amount" in changes or "lines" in changes:
            # Each takes the place of the other.
            changed |= {"amount": changes.get("amount"), "lines": changes.get("lines")}
        elif changed["lines"] is not None:
            changed["amount"] = None
        due |= self._refuse_invoice(tenant, changed)
        if changed["lines"] is not None:
            changed["amount"] = _total(changed["lines"])
        account = tenant.accounts.get(changed["account"])
        changed["currency"] = account and account["currency"]
        event = "invoice.updated" if changes else None
        return self._changed(tenant, tenant.invoices, changed, due, event)

    def finalize_invoice(self, tenant: ModelTenant, id: str, key: str | None) -> Outcome:
        invoice, due = self._invoice(tenant, id, "draft", "invoice_not_draft")
        due |= self._key(tenant, key)
        if invoice is None:
            return Outcome(due, {})
        numbered = sum(each["number"] is not None for each in tenant.invoices.values())
        changed = {**invoice, "status": "open", "opened_at": self.now, "number": f"INV-{numbered + 1:06}"}
        return self._changed(tenant, tenant.invoices, changed, due, "invoice.opened", key)

    def pay_invoice(self, tenant: ModelTenant, id: str, key: str | None) -> Outcome:
        """Predict the payment: of the new records it is the only one; its id is written into the invoice."""
        invoice, due = self._invoice(tenant, id, "open", "invoice_not_open")
        due |= self._key(tenant, key)
        if invoice is None:
            return Outcome(due, {})
        payment = self._post_all(
            tenant,
            [
                {
                    "account": invoice["account"],
                    "amount": invoice["amount"],
                    "type": "credit",
                    "description": f"Invoice {invoice['number']}: {invoice['customer']}",
                    "destination": None,
                }
            ],
            None,
            names=[""],
        )
        changed = {**invoice, "status": "paid", "paid_at": self.now}
        paid = self._changed(
            tenant, tenant.invoices, changed, due | _of_a_due_posting(payment.due), "invoice.paid", key
        )

        def happen(ids: Sequence[str]) -> None:
            payment.happen(ids)
            changed["transaction"] = ids[0]
            paid.happen(())

        return Outcome(paid.due, changed, happen)

    def void_invoice(self, tenant: ModelTenant, id: str) -> Outcome:
        invoice, due = self._invoice(tenant, id, "open", "invoice_not_open")
        if invoice is None:
            return Outcome(due, {})
        changed = {**invoice, "status": "void", "voided_at": self.now}
        return self._changed(tenant, tenant.invoices, changed, due, "invoice.voided")

    def _invoice(
        self, tenant: ModelTenant, id: str, status: str, code: str
    ) -> tuple[Fields | None, set[Refusal]]:
        invoice = tenant.invoices.get(id)
        if invoice is None:
            return None, {("not_found", None)}
        return invoice, set() if invoice["status"] == status else {(code, None)}

    def _changed(
        self,
        tenant: ModelTenant,
        kind: dict[str, Fields],
        changed: Fields,
        due: set[Refusal],
        event: str | None,
        key: str | None = None,
    ) -> Outcome:
        def happen(ids: Sequence[str]) -> None:
            kind[changed["id"]] = changed
            self._took(tenant, key, changed["id"])
            if event is not None:
                tenant.events.append((event, changed["id"]))

        return Outcome(due, changed, happen)

    # Users and orders

    def create_user(self, tenant: ModelTenant, name: str, email: str, role: str, key: str | None) -> Outcome:
        due = self._key(tenant, key) | self._quota(tenant) | _text(name, 255, "name")
        if email.lower() in self._active_emails(tenant):
            due.add(("email_taken", "email"))
        if "@" not in email:
            due.add(("invalid_value", "email"))
        if role not in ("member", "admin", "owner"):
            due.add(("invalid_value", "role"))
        record = self._new(tenant, name=name, email=email, role=role, status="active", deactivated_at=None)

        def happen(ids: Sequence[str]) -> None:
            self._made(tenant, tenant.users, "user.created", key, {"id": ids[0], **record})

        return Outcome(due, record, happen)

    def deactivate_user(self, tenant: ModelTenant, id: str) -> Outcome:
        user = tenant.users.get(id)
        if user is None:
            return Outcome({("not_found", None)}, {})
        if user["status"] == "deactivated":
            return Outcome(set(), user)
        changed = {**user, "status": "deactivated", "deactivated_at": self.now}
        return self._changed(tenant, tenant.users, changed, set(), "user.deactivated")

    def restore_user(self, tenant: ModelTenant, id: str, key: str | None) -> Outcome:
        user, due = tenant.users.get(id), self._key(tenant, key)
        if user is None:
            return Outcome(due | {("not_found", None)}, {})
        if user["status"] == "active":
            return self._changed(tenant, tenant.users, user, due, None, key)
        if self.now - user["deactivated_at"] > THIRTY_DAYS:
            due.add(("not_recoverable", None))
        if user["email"].lower() in self._active_emails(tenant):
            due.add(("email_taken", "email"))
        changed = {**user, "status": "active", "deactivated_at": None}
        return self._changed(tenant, tenant.users, changed, due, "user.restored", key)

    def _active_emails(self, tenant: ModelTenant) -> Iterable[str]:
        return {user["email"].lower() for user in tenant.users.values() if user["status"] == "active"}

    def create_order(self, tenant: ModelTenant, user: str, items: list[Fields], key: str | None) -> Outcome:
        due = self._key(tenant, key) | self._quota(tenant)
        if user not in tenant.users:
            due.add(("not_found", "user_id"))
        elif tenant.users[user]["status"] != "active":
            due.add(("user_deactivated", "user_id"))
        total = sum(item.get("quantity", 1) * item.get("unit_amount", 0) for item in items)
        if not 1 <= len(items) <= 100 or total > MAX:
            due.add(("invalid_value", "items"))
        for number, item in enumerate(items):
            if item.get("quantity", 1) < 1:
                due.add(("invalid_value", f"items.{number}.quantity"))
            if item.get("unit_amount", 0) < 0:
                due.add(("invalid_value", f"items.{number}.unit_amount"))
        record = self._new(
            tenant, user_id=user, items=items, total=total, status="open", paid_at=None, shipped_at=None
        )

        def happen(ids: Sequence[str]) -> None:
            self._made(tenant, tenant.orders, "order.created", key, {"id": ids[0], **record})

        return Outcome(due, record, happen)

    def move_order(self, tenant: ModelTenant, id: str, to: str, key: str | None) -> Outcome:
        """`to` is paid or shipped."""
        order, due = tenant.orders.get(id), self._key(tenant, key)
        if order is None:
            return Outcome(due | {("not_found", None)}, {})
        needed, code = {"paid": ("open", "order_not_open"), "shipped": ("paid", "order_not_paid")}[to]
        if order["status"] != needed:
            due.add((code, None))
        changed = {**order, "status": to, f"{to}_at": self.now}
        return self._changed(tenant, tenant.orders, changed, due, f"order.{to}", key)


def _signed(posting: Fields) -> int:
    amount: int = posting["amount"]
    return amount if posting["type"] == "credit" else -amount


def _total(lines: Sequence[Fields]) -> int:
    return sum(line["quantity"] * line["unit_amount"] for line in lines)
