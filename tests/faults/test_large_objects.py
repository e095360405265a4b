"""Objects as large as a request: each reader takes a fixed number of bytes of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from ledger_engine.core.clock import SystemClock, iso
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.ledger import orders, users
from ledger_engine.ledger.orders import NewOrder
from ledger_engine.ledger.users import NewUser
from ledger_engine.store import Unit
from ledger_engine.store.engine import open_engine
from tests.conftest import Tally
from tests.faults.server import Server

LETTERS = 900_000
ORDERS = 40
# A page of all orders at once took 150 MB, and caches of 16 MB for each connection that reads took 100 MB.
GROWTH_MAX_KB = 80_000  # 40,000 of them are the caches of five connections that read


def peak_kb(server: Server) -> int:
    with open(f"/proc/{server.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def add_order(unit: Unit, tenant: Tenant, user: str, number: int) -> None:
    orders.create(unit, tenant, NewOrder(user, [{"number": number, "note": "x" * LETTERS}]))


async def add_orders(database: Path, tenant: Tenant, count: int) -> str:
    """Add this many orders of 0.9 MB; return the id of the event before them."""
    engine = open_engine(database)
    new = NewUser("Ada", "ada@example.com", "member")
    user = (await engine.write(partial(users.create, tenant=tenant, new=new))).id
    last = await engine.read(partial(outbox.newest_event, tenant=tenant))
    for number in range(count):
        await engine.write(partial(add_order, tenant=tenant, user=user, number=number))
    await engine.close()
    return last


def bytes_of(answer: HTTPResponse, enough: Callable[[int], bool]) -> int:
    """Read an answer without keeping it, to its end or until there is enough; return its bytes."""
    count = 0
    while not enough(count) and (piece := answer.read1(65_536)):
        count += len(piece)
    return count


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "ledger.db")
    server.start()
    yield server
    server.kill()


@pytest.mark.timeout(600)
async def test_lists_and_the_stream_of_large_objects_take_little_memory(
    large: Server, soak: int, tally: Tally
) -> None:
    assert isinstance(large.database, Path)
    count = min(ORDERS * soak, 900)
    key = large.make_key()
    (project,) = [each["id"] for each in large.cli("projects", "list") if each["name"] == "Faults"]
    last = await add_orders(large.database, Tenant(project, livemode=False), count)
    listed = min(count, 100) * LETTERS

    def read(path: str, enough: Callable[[int], bool] = lambda _: False, **more: str) -> int:
        with closing(HTTPConnection("127.0.0.1", large.port, timeout=60)) as connection:
            connection.request("GET", path, headers={"Authorization": f"Bearer {key}", **more})
            answer = connection.getresponse()
            assert answer.status == 200
            return bytes_of(answer, enough)

    Path(f"/proc/{large.pid}/clear_refs").write_text("5", encoding="ascii")  # the peak begins again here
    before = peak_kb(large)
    at = iso(SystemClock().now() - 1)
    assert read("/api/orders?limit=100") > listed
    assert read(f"/api/orders?limit=100&at={at}") > listed
    assert read(f"/api/orders?limit=100&status=open&at={at}") > listed
    assert read(f"/v1/diff?from=2020-01-01&to={at}&limit=100") > listed
    assert read("/v1/events?limit=100") > listed
    assert read(f"/v1/events?limit=100&ending_before={last}") > listed
    streamed = count * LETTERS
    assert read("/v1/events/stream", lambda size: size > streamed, **{"Last-Event-ID": last}) > streamed
    assert peak_kb(large) - before < GROWTH_MAX_KB
    tally(large_objects=count)
