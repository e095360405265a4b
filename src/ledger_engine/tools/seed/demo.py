"""The demo: a data set, changes in the last minutes, receivers for its webhooks, and traffic over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from ledger_engine.access import api_keys, projects
from ledger_engine.access.api_keys import NewApiKey
from ledger_engine.core.ids import IdSource
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks import endpoints
from ledger_engine.events.webhooks.endpoints import NewEndpoint
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from ledger_engine.tools.seed import loading, reading, recent
from ledger_engine.tools.seed.deeds import Past
from ledger_engine.tools.seed.reading import read
from ledger_engine.tools.seed.steps import SeedHistory, SeedStep, UnitInThePast, steps_of

# The receivers of the demo's webhooks: one works, one is slow and sometimes fails, one fails until a repair.
# They listen on one port of this machine, each with its own path. `POST {path}/repair` repairs a receiver;
# the key `R` of the dashboard sends this request.


_HEAD_MAX = 64 * 1024


@dataclass(slots=True)
class DemoReceiver:
    """The behaviour of one receiver.

    It answers a delivery after `least_s` to `most_s` seconds. The fraction `failing` of the deliveries gets
    the status 503, and the rest gets 200.
    """

    path: str
    kinds: tuple[str, ...]  # the types of events that it receives
    least_s: float
    most_s: float
    failing: float

    def repair(self) -> None:
        """Answer every delivery with 200 from now on."""
        self.failing = 0.0


def make_receivers() -> list[DemoReceiver]:
    """Return the three receivers in their initial state."""
    return [
        DemoReceiver("/shop", ("*",), 0.002, 0.02, failing=0.0),
        DemoReceiver("/warehouse", ("order.created", "order.paid", "order.shipped"), 0.1, 0.9, failing=0.2),
        DemoReceiver("/bookkeeping", ("invoice.opened", "invoice.paid"), 0.005, 0.03, failing=1.0),
    ]


_BODIES = {200: "ok", 404: "no such receiver"}  # by the status


@asynccontextmanager
async def run_receivers(receivers: list[DemoReceiver], random: Random) -> AsyncIterator[str]:
    """Run the receivers; yield their root URL."""
    by_path = {each.path: each for each in receivers}
    handlers: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            while True:
                path = await _read_path(reader)
                status = await _status_for(path, by_path, random)
                body = _BODIES.get(status, f"{path[1:]} is under maintenance").encode()
                length = len(body)
                writer.write(b"HTTP/1.1 %d .\r\nContent-Length: %d\r\n\r\n%s" % (status, length, body))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError, ValueError):
            pass  # the sender closed the connection, or another program sent something that is not HTTP
        finally:
            handlers.discard(task)
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=_HEAD_MAX)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.close()
        for task in [*handlers]:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*handlers, return_exceptions=True)


async def _read_path(reader: asyncio.StreamReader) -> str:
    """Read one request and return its path. Raises ValueError for a text that is not HTTP."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    _method, path, _version = first.split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(":") for line in lines)}
    await reader.readexactly(int(headers.get("content-length", "0")))
    return path


async def _status_for(path: str, by_path: dict[str, DemoReceiver], random: Random) -> int:
    """Return the status for a request; for a delivery, wait first for the receiver's delay."""
    repaired = by_path.get(path.removesuffix("/repair")) if path.endswith("/repair") else None
    if repaired is not None:
        repaired.repair()
        return 200
    receiver = by_path.get(path)
    if receiver is None:
        return 404
    await asyncio.sleep(random.uniform(receiver.least_s, receiver.most_s))
    return 503 if random.random() < receiver.failing else 200


# The demo


DATA_SET = "roastery"  # one of the data sets in the package
# The requests in one second that the demo allows to a key. The plan of the demo's project would allow 200,
# but the traffic should exceed the limit now and then.
BURST = 50
RECENT_S = 540  # the recent changes happen within this many seconds before the demo starts
SENT_AT_START = 90  # how many of the recent changes are sent to the receivers after the start
_TURN_STEPS = 200  # steps in one commit: few enough for a commit to stay far below its time limit
# The clients that send the traffic, by name, each with its key: the key's name and role, and the scopes if
# the key is restricted.
CLIENTS = {
    "web shop": NewApiKey("web shop", "member"),
    "tills": NewApiKey("tills", "member"),
    "billing": NewApiKey("billing", "admin"),
    "reporting": NewApiKey("reporting", "member", ["read:projects", "read:users"]),
    "old import": NewApiKey("old import", "member"),
}

Report = Callable[[float], None]  # called with the fraction of the data that is loaded, from 0 to 1

log = logging.getLogger("ledger_engine.tools.seed.demo")


class Demo:
    """A loaded demo. `start` begins its traffic."""

    def __init__(self, past: Past, keys: dict[str, str]) -> None:
        self._past = past
        self._keys = keys
        self._task: asyncio.Task[None] | None = None

    def start(self, url: str, certfile: Path | None = None) -> None:
        """Send requests to the server at this URL until `stop`."""
        self._task = asyncio.create_task(self._send(url, certfile))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _send(self, url: str, certfile: Path | None) -> None:
        try:
            # Import the module in a thread, because loading its HTTP client takes a tenth of a second.
            await asyncio.to_thread(__import__, "ledger_engine.tools.seed.traffic")
            from ledger_engine.tools.seed.traffic import DemoTraffic

            await DemoTraffic(url, self._keys, self._past, BURST, certfile).run()
        except Exception:  # a demo without traffic is better than no demo
            log.exception("the demo has no traffic any more")


@asynccontextmanager
async def stage(engine: Engine, report: Report) -> AsyncIterator[Demo]:
    """Load the demo into the first project, and run the receivers within the context.

    The project must be empty. Raises LedgerError if the data set cannot be loaded.
    """
    receivers = make_receivers()
    async with run_receivers(receivers, Random()) as root:
        tenant, past = await load(engine, report, receivers, root)
        keys = {name: api_keys.new_value(livemode=False) for name in CLIENTS}
        await engine.write(partial(_make_keys, tenant=tenant, keys=keys))
        demo = Demo(past, keys)
        try:
            yield demo
        finally:
            await demo.stop()


async def load(
    engine: Engine, report: Report, receivers: Sequence[DemoReceiver] = (), root: str = "", seed: int = 1
) -> tuple[Tenant, Past]:
    """Load the data set and the recent changes in short transactions.

    The receivers become webhook endpoints; `root` is the URL below which they listen. The same `seed` leads
    to the same random choices. Return the tenant of the demo, and the past changes that the traffic imitates.
    """
    data_set = read(reading.path(DATA_SET))
    steps = steps_of(data_set)
    random = Random(seed)
    now = engine.clock.now()
    begin = now - RECENT_S * 1000
    times = [*recent.times_between(begin, now, random)]
    total = len(steps) + len(times)
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        report(done / total)

    project, _ = await engine.write(projects.first_or_new)
    changes = projects.ProjectChanges(burst=BURST)
    project = await engine.write(lambda unit: projects.update(unit, project.id, changes))
    tenant = loading.tenant_of(project)
    # The data set ends at the last midnight before the recent changes begin. For a demo that starts at 00:05,
    # this is not the midnight five minutes ago, but the midnight 24 hours earlier.
    start = loading.start_of(data_set, begin)
    ids = IdSource()
    history = SeedHistory()
    for at in range(0, len(steps), _TURN_STEPS):
        turn = steps[at : at + _TURN_STEPS]

        def work(unit: Unit, turn: Sequence[SeedStep] = turn) -> None:
            loading.carry_out(history, UnitInThePast(unit, ids), tenant, turn, start)

        await engine.write(work)
        count(len(turn))
    past = await engine.read(partial(recent.recall, tenant=tenant))
    before, after = times[:-SENT_AT_START], times[-SENT_AT_START:]
    await recent.make_recent(engine, tenant, past, iter(before), random, count)
    if receivers:
        await engine.write(partial(_register, tenant=tenant, receivers=receivers, root=root))
    await recent.make_recent(engine, tenant, past, iter(after), random, count)
    return tenant, past


def _register(unit: Unit, tenant: Tenant, receivers: Sequence[DemoReceiver], root: str) -> None:
    # Lists are newest first, so this order puts the working receiver at the top.
    for each in reversed(receivers):
        secret = endpoints.new_secret()
        new = NewEndpoint(root + each.path, [*each.kinds])
        endpoints.create(unit, tenant, new, secret, Seal.from_environment().seal(secret))


def _make_keys(unit: Unit, tenant: Tenant, keys: dict[str, str]) -> None:
    for name, value in keys.items():
        api_keys.create(unit, tenant, CLIENTS[name], value)
