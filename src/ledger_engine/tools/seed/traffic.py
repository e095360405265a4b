"""The demo's traffic: requests over HTTP such as several clients send, good ones and bad ones.

They repeat what they find, so they fit whatever data set is loaded. Each client has a key of its own, and
mistakes of its own: an import that sends the same request twice or too many at once, a report that asks for
what is not there or may not be done with its key.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from ledger_client.errors import LedgerError, NotConnected
from ledger_client.ledger import AsyncLedger
from ledger_engine.core.ids import IdSource
from ledger_engine.tools.seed.acts import A_SECOND, Past, about, prompt

FLOOD_EVERY_S = 60.0  # how often a client sends too many requests in a second
_FLOOD_BEYOND = 8  # of them are refused
_READS_AT_START = 15  # sent at once, so that the request log is not empty
_DUE_DAYS = 14
_TRIES = 50  # to reach the server, which may not accept requests yet
_NEWEST = 50  # among which a client chooses

log = logging.getLogger("ledger_engine.tools.seed.traffic")
Record = dict[str, Any]


class Traffic:
    """Sends requests to the server at `url` with these keys, by the names of their clients."""

    def __init__(
        self,
        url: str,
        keys: Mapping[str, str],
        past: Past,
        burst: int,
        certfile: Path | None = None,
        random: Random | None = None,
    ) -> None:
        self._url = url
        self._past = past
        self._keys = keys
        self._burst = burst
        self._certfile = certfile
        self.random = random or Random()
        # Ids are in the order of time: an object with a later one was made by this traffic or by a person.
        self._began = IdSource().new("act", round(time.time() * 1000)).partition("_")[2]
        self._made: set[str] = set()
        self._sent_key = ""  # the idempotency key of the import's last request

    async def run(self) -> None:
        """Send requests until cancelled. Raises LedgerError when the server cannot be reached at all."""
        verify: Any = True
        if self._certfile is not None:  # it is the server's own, for whatever name
            verify = ssl.create_default_context(cafile=self._certfile)
            verify.check_hostname = False
        async with AsyncLedger(self._url, attempts=1, verify=verify, trust_env=False) as ledger:
            self._ledger = ledger
            await self._reach()
            for _ in range(_READS_AT_START):
                await self.look()
            flooded_at = time.monotonic()
            while True:
                try:
                    await self.act()
                    if time.monotonic() - flooded_at > FLOOD_EVERY_S:
                        flooded_at = time.monotonic()
                        await self.flood()
                except LedgerError as error:
                    log.info("a request of the demo failed: %s", error)
                await asyncio.sleep(self.random.expovariate(A_SECOND))

    async def _reach(self) -> None:
        for _ in range(_TRIES - 1):
            with contextlib.suppress(NotConnected):
                await self._ledger.health()
                return
            await asyncio.sleep(0.1)
        await self._ledger.health()

    async def act(self) -> None:
        """Do one thing that a client does."""
        await self.random.choices([*ACTS], [*ACTS.values()])[0](self)

    async def send(
        self, client: str, method: str, path: str, body: Mapping[str, Any] | None = None, **params: Any
    ) -> Record:
        """Send a request and return the answer's object, empty when it is refused. Raises NotConnected."""
        self._sent_key = secrets.token_hex(8)
        return await self._send(client, method, path, body, params)

    async def _send(
        self,
        client: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Record:
        headers = {"Authorization": f"Bearer {self._keys[client]}", "User-Agent": client}
        key = self._sent_key if method == "POST" else None
        try:
            answer = await self._ledger.request(
                method, path, body=body, query=params, headers=headers, key=key
            )
            return answer.object
        except NotConnected:
            raise
        except LedgerError:
            return {}

    async def newest(self, client: str, path: str, **params: Any) -> list[Record]:
        """Return those of the newest objects of a list that belong to the demo."""
        found = (await self.send(client, "GET", path, limit=_NEWEST, **params)).get("data")
        return [each for each in found if self._is_of_the_demo(each["id"])] if isinstance(found, list) else []

    def posting(self) -> Record | None:
        """Return the body of a transaction like an earlier one, with a similar amount."""
        if not self._past.postings:
            return None
        like = self.random.choice(self._past.postings)
        body: Record = {"account": like.account, "type": like.type, "amount": about(like.amount, self.random)}
        optional = {"description": like.description, "destination": like.destination}
        return body | {name: value for name, value in optional.items() if value is not None}

    # ------------------------------------------------------------------ what clients do

    async def post(self) -> None:
        """Post a transaction; a debit only if the account holds as much."""
        body = self.posting()
        if body is None:
            return
        if body["type"] == "debit":
            account = await self.send("tills", "GET", f"/v1/accounts/{body['account']}")
            if account.get("balance", 0) < body["amount"]:
                return
        self._note_made(await self.send("tills", "POST", "/v1/transactions", body))

    async def refund(self) -> None:
        """Refund one of the last payments."""
        found = await self.newest("tills", "/v1/transactions", type="credit")
        if simple := [each for each in found if not each["transfer"] and not each["reverses"]]:
            await self.send("tills", "POST", f"/v1/transactions/{self.random.choice(simple)['id']}/reverse")

    async def draft_invoice(self) -> None:
        """Draft an invoice like an earlier one."""
        if not self._past.invoices:
            return
        like = self.random.choice(self._past.invoices)
        body: Record = {"account": like.account, "customer": like.customer, "metadata": dict(like.metadata)}
        body["due_date"] = str((datetime.now(UTC) + timedelta(days=_DUE_DAYS)).date())
        if like.lines is not None:
            body["lines"] = [
                {**line, "quantity": about(line["quantity"], self.random)} for line in like.lines
            ]
        else:
            body["amount"] = about(like.amount, self.random)
        self._note_made(await self.send("billing", "POST", "/v1/invoices", body))

    async def finalize_invoice(self) -> None:
        await self._move("billing", "/v1/invoices", "draft", "finalize")

    async def pay_invoice(self) -> None:
        await self._move("billing", "/v1/invoices", "open", "pay")

    async def place_order(self) -> None:
        """Place an order like an earlier one, by any user."""
        users = (await self.send("web shop", "GET", "/api/users", per_page=_NEWEST)).get("data") or []
        active = [user for user in users if user["status"] == "active"]
        if self._past.orders and active:
            body: Record = {"user_id": self.random.choice(active)["id"]}
            body |= {"items": self.random.choice(self._past.orders).items}
            self._note_made(await self.send("web shop", "POST", "/api/orders", body))

    async def pay_order(self) -> None:
        await self._move("web shop", "/api/orders", "open", "pay")

    async def ship_order(self) -> None:
        await self._move("web shop", "/api/orders", "paid", "ship")

    async def _move(self, client: str, path: str, status: str, action: str) -> None:
        """Move one of the demo's objects in a state to the next."""
        if found := await self.newest(client, path, status=status):
            chosen = prompt(found, self.random) if status == "open" else self.random.choice(found)
            await self.send(client, "POST", f"{path}/{chosen['id']}/{action}")

    def _note_made(self, record: Record) -> None:
        if "id" in record:
            self._made.add(record["id"])

    def _is_of_the_demo(self, id: str) -> bool:
        """Return whether the object is not of whoever explores the demo, whose drafts stay theirs."""
        return id in self._made or id.partition("_")[2] < self._began

    async def look(self) -> None:
        """Read what a report needs."""
        accounts = await self.newest("reporting", "/v1/accounts")
        if accounts:
            account = self.random.choice(accounts)["id"]
            paths = (f"/v1/accounts/{account}/statement", "/v1/transactions", "/api/orders", "/api/users")
            await self.send("reporting", "GET", self.random.choice(paths))

    # ------------------------------------------------------------------ their mistakes

    async def ask_wrongly(self) -> None:
        """Send a request that is 400."""
        wrong: tuple[tuple[str, str, Record | None, Record], ...] = (
            ("reporting", "/v1/transactions", None, {"created_after": "yesterday"}),
            ("reporting", "/v1/accounts", None, {"limit": 500}),
            ("old import", "/v1/transactions", (self.posting() or {}) | {"amount": "12.50"}, {}),
            ("old import", "/v1/accounts", {"name": "Imported"}, {}),
        )
        client, path, body, params = self.random.choice(wrong)
        await self.send(client, "GET" if body is None else "POST", path, body, **params)

    async def ask_for_nothing(self) -> None:
        """Ask for an object that does not exist: 404."""
        name, path = self.random.choice((("acc", "/v1/accounts"), ("inv", "/v1/invoices")))
        await self.send("reporting", "GET", f"{path}/{name}_{'0' * 26}")

    async def overstep(self) -> None:
        """Post with a key that may only read: 403."""
        await self.send("reporting", "POST", "/v1/transactions", self.posting() or {})

    async def repeat(self) -> None:
        """Send the same request twice: the second is 409."""
        body = self.posting()
        if body is None or body["type"] == "debit":
            return
        await self.send("old import", "POST", "/v1/transactions", body)
        await self._send("old import", "POST", "/v1/transactions", body)

    async def pay_again(self) -> None:
        """Pay an invoice that is paid already: 409."""
        if paid := await self.newest("old import", "/v1/invoices", status="paid"):
            await self.send("old import", "POST", f"/v1/invoices/{paid[0]['id']}/pay")

    async def flood(self) -> None:
        """Send more requests in one second than a client may: some are 429."""
        await asyncio.sleep(1 - time.time() % 1)  # a second of the wall clock, as they are counted
        many = self._burst + _FLOOD_BEYOND
        await asyncio.gather(*(self.send("old import", "GET", "/v1/accounts", limit=1) for _ in range(many)))


Act = Callable[[Traffic], Awaitable[None]]
# How often each happens, in a hundred and ten times. Objects leave each stage a little more often than
# they enter it, so that drafts and open orders do not pile up however long the demo runs.
ACTS: dict[Act, int] = {
    Traffic.post: 50,
    Traffic.refund: 1,
    Traffic.draft_invoice: 4,
    Traffic.finalize_invoice: 5,
    Traffic.pay_invoice: 5,
    Traffic.place_order: 7,
    Traffic.pay_order: 8,
    Traffic.ship_order: 8,
    Traffic.look: 10,
    Traffic.ask_wrongly: 3,
    Traffic.ask_for_nothing: 3,
    Traffic.overstep: 1,
    Traffic.repeat: 1,
    Traffic.pay_again: 1,
}
