"""The shop: it sends an invoice for each sale, and ships the sale when the invoice is paid."""

from __future__ import annotations

import hmac
import json
from datetime import date, timedelta
from typing import Any

from shop.ledger import Ledger

DAYS_TO_PAY = timedelta(days=14)


class Shop:
    """The sales of one account.

    `secret` is the signing secret of the shop's webhook endpoint. `shipped` lists the sales whose invoices
    are paid.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        # A real shop would store the handled events and the shipped sales in its database.
        self._handled: set[str] = set()
        self.shipped: list[str] = []
        self.secret = ""

    def open(self) -> None:
        """Create the account that receives the payments."""
        self._account = self._ledger.make("/v1/accounts", "till", name="Till", currency="EUR")["id"]

    def sell(self, sale: str, customer: str, cents: int, today: date) -> dict[str, Any]:
        """Return the open invoice of a sale; a second call for the sale returns the same invoice."""
        draft = self._ledger.make(
            "/v1/invoices",
            f"invoice-{sale}",
            account=self._account,
            customer=customer,
            amount=cents,
            due_date=str(today + DAYS_TO_PAY),
            metadata={"sale": sale},
        )
        return self._ledger.make(f"/v1/invoices/{draft['id']}/finalize", f"finalize-{sale}")

    def overdue(self, today: date) -> list[str]:
        """Return the sales whose invoices are open and were due before today."""
        invoices = self._ledger.get("/v1/invoices", status="open")["data"]
        return [each["metadata"]["sale"] for each in invoices if each["due_date"] < str(today)]

    def takings(self) -> int:
        """Return the sum of the payments, in cents."""
        return self._ledger.get(f"/v1/accounts/{self._account}")["balance"]

    def receive(self, signature: str, body: bytes) -> bool:
        """Handle a webhook, and return whether its signature is right. A repeated webhook changes nothing."""
        fits = hmac.digest(self.secret.encode(), body, "sha256").hex()
        if not hmac.compare_digest(fits, signature):
            return False
        event = json.loads(body)
        if event["type"] == "invoice.paid" and event["id"] not in self._handled:
            self._handled.add(event["id"])
            self.shipped.append(event["data"]["object"]["metadata"]["sale"])
        return True
