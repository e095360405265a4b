"""Selling against an invoice."""

from __future__ import annotations

import hmac
import json
from datetime import date, timedelta
from typing import Any

from shop.ledger import Ledger

DAYS_TO_PAY = timedelta(days=14)


class Shop:
    """`secret` is that of the webhook endpoint; `shipped` are the sales that were paid."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._handled: set[str] = set()  # a real shop would keep these two in its database
        self.shipped: list[str] = []
        self.secret = ""

    def open(self) -> None:
        """Open the account that sales are paid into."""
        self._account = self._ledger.make("/v1/accounts", "till", name="Till", currency="EUR")["id"]

    def sell(self, sale: str, customer: str, cents: int, today: date) -> dict[str, Any]:
        """Send an invoice for a sale; the same sale again is the same invoice."""
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
        """Return the sales whose invoices should have been paid before today."""
        invoices = self._ledger.get("/v1/invoices", status="open")["data"]
        return [each["metadata"]["sale"] for each in invoices if each["due_date"] < str(today)]

    def takings(self) -> int:
        """Return what was paid, in cents."""
        return self._ledger.get(f"/v1/accounts/{self._account}")["balance"]

    def receive(self, signature: str, body: bytes) -> bool:
        """Handle a webhook; return whether its signature fits. One that comes again changes nothing."""
        fits = hmac.digest(self.secret.encode(), body, "sha256").hex()
        if not hmac.compare_digest(fits, signature):
            return False
        event = json.loads(body)
        if event["type"] == "invoice.paid" and event["id"] not in self._handled:
            self._handled.add(event["id"])
            self.shipped.append(event["data"]["object"]["metadata"]["sale"])
        return True
