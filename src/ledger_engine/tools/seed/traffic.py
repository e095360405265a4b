"""The demo's traffic: requests over HTTP such as several clients send, good ones and bad ones.

They do the deeds of `tools.seed.deeds`, so they fit whatever data set is loaded. Each client uses its own
key, and makes its own mistakes: an import that sends the same request twice or too many at once, a report
that asks for missing objects or for some that its key may not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from ledger_client.errors import LedgerError, NotConnected
from ledger_client.ledger import AsyncLedger
from ledger_engine.core.ids import IdSource
from ledger_engine.tools.seed.deeds import A_SECOND, DEEDS, Past, like_earlier

FLOOD_EVERY_S = 60.0  # how often a client sends too many requests in a second
_FLOOD_BEYOND = 8  # of them are refused
_READS_AT_START = 15  # sent at once, so that the request log is not empty
_TRIES = 50  # to reach the server, which may not accept requests yet
_NEWEST = 50  # among which a client chooses

PATHS = {
    "accounts": "/v1/accounts",
    "transactions": "/v1/transactions",
    "invoices": "/v1/invoices",
    "orders": "/api/orders",
    "users": "/api/users",
}
CLIENT_OF = {"transactions": "tills", "invoices": "billing", "orders": "web shop", "users": "web shop"}

log = logging.getLogger("ledger_engine.tools.seed.traffic")
Record = dict[str, Any]


class DemoTraffic:
    """Sends requests to the server at `url` with these keys, by the names of their clients.

    To deeds it is the ledger's `Books`.
    """

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
        self.past = past
        self._keys = keys
        self._burst = burst
        self._certfile = certfile
        self.random = random or Random()
        # Ids are in the order of time: an object with a later one was made by this traffic or by a person.
        self._began = IdSource().new("act", round(time.time() * 1000)).partition("_")[2]
        self._ids: set[str] = set()
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

    @property
    def now(self) -> int:
        """The time in milliseconds."""
        return round(time.time() * 1000)

    async def balance(self, account: str) -> int:
        """Return the balance of an account, 0 when it cannot be read."""
        account_found = await self.send("tills", "GET", f"/v1/accounts/{account}")
        return int(account_found.get("balance", 0))

    async def newest(self, kind: str, **only: str) -> list[Any]:
        """Return the demo's own among the newest objects of a kind."""
        return await self._newest_by(CLIENT_OF[kind], kind, **only)

    async def _newest_by(self, client: str, kind: str, **only: str) -> list[Any]:
        parameters: dict[str, Any] = {"per_page" if kind == "users" else "limit": _NEWEST, **only}
        objects = (await self.send(client, "GET", PATHS[kind], None, **parameters)).get("data") or []
        return [SimpleNamespace(**each) for each in objects if self._is_of_the_demo(each["id"])]

    async def create(self, kind: str, fields: Record) -> None:
        """Create an object, and note that it is the demo's."""
        body = {name: value for name, value in fields.items() if value is not None}
        object_made = await self.send(CLIENT_OF[kind], "POST", PATHS[kind], body)
        if "id" in object_made:
            self._ids.add(object_made["id"])

    async def move(self, kind: str, id: str, action: str) -> None:
        """Do what an action does with an object."""
        await self.send(CLIENT_OF[kind], "POST", f"{PATHS[kind]}/{id}/{action}")

    def _is_of_the_demo(self, id: str) -> bool:
        """Return whether the object is not of whoever explores the demo, whose drafts stay theirs."""
        return id in self._ids or id.partition("_")[2] < self._began

    async def look(self) -> None:
        """Read what a report needs."""
        accounts = await self._newest_by("reporting", "accounts")
        if accounts:
            account = self.random.choice(accounts).id
            paths = (f"/v1/accounts/{account}/statement", "/v1/transactions", "/api/orders", "/api/users")
            await self.send("reporting", "GET", self.random.choice(paths))

    # ------------------------------------------------------------------ their mistakes

    async def ask_wrongly(self) -> None:
        """Send a request that is 400."""
        wrong: tuple[tuple[str, str, Record | None, Record], ...] = (
            ("reporting", "/v1/transactions", None, {"created_after": "yesterday"}),
            ("reporting", "/v1/accounts", None, {"limit": 500}),
            ("old import", "/v1/transactions", (like_earlier(self) or {}) | {"amount": "12.50"}, {}),
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
        await self.send("reporting", "POST", "/v1/transactions", like_earlier(self) or {})

    async def repeat(self) -> None:
        """Send the same request twice: the second is 409."""
        body = like_earlier(self)
        if body is None or body["type"] == "debit":
            return
        await self.send("old import", "POST", "/v1/transactions", body)
        await self._send("old import", "POST", "/v1/transactions", body)

    async def pay_again(self) -> None:
        """Pay an invoice that is paid already: 409."""
        if invoice := await self._newest_by("old import", "invoices", status="paid"):
            await self.send("old import", "POST", f"/v1/invoices/{invoice[0].id}/pay")

    async def flood(self) -> None:
        """Send more requests in one second than a client may: some are 429."""
        # a second of the wall clock, because requests are counted by it
        await asyncio.sleep(1 - time.time() % 1)
        many = self._burst + _FLOOD_BEYOND
        await asyncio.gather(*(self.send("old import", "GET", "/v1/accounts", limit=1) for _ in range(many)))


Act = Callable[[DemoTraffic], Awaitable[None]]
# The frequency of each, for a hundred deeds.
ACTS: dict[Act, int] = dict[Act, int](DEEDS.items()) | {
    DemoTraffic.look: 12,
    DemoTraffic.ask_wrongly: 4,
    DemoTraffic.ask_for_nothing: 4,
    DemoTraffic.overstep: 1,
    DemoTraffic.repeat: 1,
    DemoTraffic.pay_again: 1,
}
