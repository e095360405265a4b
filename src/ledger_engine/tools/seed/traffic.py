"""The demo's traffic: valid and invalid requests over HTTP, as several clients of a ledger send them.

The clients do the deeds of `tools.seed.deeds`. A deed is an action, such as a payment, that imitates an
earlier action of the data set, so the traffic fits every data set. Each client uses its own key, and makes
its own mistakes: the client `old import` sends the same request twice, or too many requests at once; the
client `reporting` asks for objects that do not exist, or posts with a key that can only read.
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
from ledger_engine.tools.seed.deeds import DEEDS, DEEDS_A_SECOND, Past, like_earlier

FLOOD_EVERY_S = 60.0  # seconds between two floods; in a flood a client sends too many requests in a second
_FLOOD_BEYOND = 8  # how many requests of a flood exceed the burst, so that the server refuses them
_READS_AT_START = 15  # reads sent at the start, to fill the request log
_TRIES = 50  # attempts to reach the server, because it may not accept requests yet
_NEWEST = 50  # a client chooses among this many newest objects

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
    """Sends requests to the server at `url`; `keys` holds the key of each client, by the client's name.

    It implements the protocol `Books` of `tools.seed.deeds`, through which deeds reach the ledger. `burst` is
    how many requests in one second the server allows to a key.
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
        # An id of this moment, without its prefix. Ids are in the order of time: an object with an earlier id
        # belongs to the loaded demo, and this traffic or a person made every object with a later id.
        self._began = IdSource().new("act", round(time.time() * 1000)).partition("_")[2]
        self._ids: set[str] = set()
        self._sent_key = ""  # the idempotency key of the last request, which `repeat` sends again

    async def run(self) -> None:
        """Send requests until cancelled. Raises LedgerError if the server cannot be reached at all."""
        verify: Any = True
        if self._certfile is not None:  # trust the server's certificate, whichever host name it is for
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
                await asyncio.sleep(self.random.expovariate(DEEDS_A_SECOND))

    async def _reach(self) -> None:
        for _ in range(_TRIES - 1):
            with contextlib.suppress(NotConnected):
                await self._ledger.health()
                return
            await asyncio.sleep(0.1)
        await self._ledger.health()

    async def act(self) -> None:
        """Do one random act of a client: a deed, a read or a mistake."""
        await self.random.choices([*ACTS], [*ACTS.values()])[0](self)

    async def send(
        self, client: str, method: str, path: str, body: Mapping[str, Any] | None = None, **params: Any
    ) -> Record:
        """Send a request and return the object in the answer; if the server refuses it, return an empty dict.

        A POST is sent with a new idempotency key. Raises NotConnected.
        """
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
        """Return the time in milliseconds."""
        return round(time.time() * 1000)

    async def balance(self, account: str) -> int:
        """Return the balance of an account; 0 if it cannot be read."""
        account_object = await self.send("tills", "GET", f"/v1/accounts/{account}")
        return int(account_object.get("balance", 0))

    async def newest(self, kind: str, **only: str) -> list[Any]:
        """Read the newest objects of a kind, and return the objects among them that belong to the demo."""
        return await self._newest_by(CLIENT_OF[kind], kind, **only)

    async def _newest_by(self, client: str, kind: str, **only: str) -> list[Any]:
        parameters: dict[str, Any] = {"per_page" if kind == "users" else "limit": _NEWEST, **only}
        objects = (await self.send(client, "GET", PATHS[kind], None, **parameters)).get("data") or []
        return [SimpleNamespace(**each) for each in objects if self._belongs_to_demo(each["id"])]

    async def create(self, kind: str, fields: Record) -> None:
        """Create an object, and note its id, because the object belongs to the demo."""
        body = {name: value for name, value in fields.items() if value is not None}
        new_object = await self.send(CLIENT_OF[kind], "POST", PATHS[kind], body)
        if "id" in new_object:
            self._ids.add(new_object["id"])

    async def move(self, kind: str, id: str, action: str) -> None:
        """Perform an action on an object."""
        await self.send(CLIENT_OF[kind], "POST", f"{PATHS[kind]}/{id}/{action}")

    def _belongs_to_demo(self, id: str) -> bool:
        """Return whether the demo created the object. The traffic leaves the objects of people alone."""
        return id in self._ids or id.partition("_")[2] < self._began

    async def look(self) -> None:
        """Read a random list or an account's statement, as for a report."""
        accounts = await self._newest_by("reporting", "accounts")
        if accounts:
            account = self.random.choice(accounts).id
            paths = (f"/v1/accounts/{account}/statement", "/v1/transactions", "/api/orders", "/api/users")
            await self.send("reporting", "GET", self.random.choice(paths))

    # Mistakes of the clients

    async def ask_wrongly(self) -> None:
        """Send an invalid request; the server answers 400."""
        wrong: tuple[tuple[str, str, Record | None, Record], ...] = (
            ("reporting", "/v1/transactions", None, {"created_after": "yesterday"}),
            ("reporting", "/v1/accounts", None, {"limit": 500}),
            ("old import", "/v1/transactions", (like_earlier(self) or {}) | {"amount": "12.50"}, {}),
            ("old import", "/v1/accounts", {"name": "Imported"}, {}),
        )
        client, path, body, params = self.random.choice(wrong)
        await self.send(client, "GET" if body is None else "POST", path, body, **params)

    async def ask_for_nothing(self) -> None:
        """Ask for an object that does not exist; the server answers 404."""
        name, path = self.random.choice((("acc", "/v1/accounts"), ("inv", "/v1/invoices")))
        await self.send("reporting", "GET", f"{path}/{name}_{'0' * 26}")

    async def overstep(self) -> None:
        """Post with a key whose scopes allow only reading; the server answers 403."""
        await self.send("reporting", "POST", "/v1/transactions", like_earlier(self) or {})

    async def repeat(self) -> None:
        """Send the same request twice; the server answers the second request with 409."""
        body = like_earlier(self)
        if body is None or body["type"] == "debit":
            return
        await self.send("old import", "POST", "/v1/transactions", body)
        await self._send("old import", "POST", "/v1/transactions", body)

    async def pay_again(self) -> None:
        """Pay an invoice that is already paid; the server answers 409."""
        if invoice := await self._newest_by("old import", "invoices", status="paid"):
            await self.send("old import", "POST", f"/v1/invoices/{invoice[0].id}/pay")

    async def flood(self) -> None:
        """Send more requests in one second than a client may; the server answers some with 429."""
        # Wait for the next second of the clock: the server counts the requests of each second.
        await asyncio.sleep(1 - time.time() % 1)
        many = self._burst + _FLOOD_BEYOND
        await asyncio.gather(*(self.send("old import", "GET", "/v1/accounts", limit=1) for _ in range(many)))


Act = Callable[[DemoTraffic], Awaitable[None]]
# Every act with its weight in the random choice of the next act. The weights of the deeds add up to 100.
ACTS: dict[Act, int] = dict[Act, int](DEEDS.items()) | {
    DemoTraffic.look: 12,
    DemoTraffic.ask_wrongly: 4,
    DemoTraffic.ask_for_nothing: 4,
    DemoTraffic.overstep: 1,
    DemoTraffic.repeat: 1,
    DemoTraffic.pay_again: 1,
}
