"""A server for measures of the dashboard: it computes 5,000,000 transactions, and answers after a delay.

`python -m bench.endless [LATENCY_MS]` prints `Listening on http://…`. The server has the interface's lists of
accounts and transactions, with `starting_after` and `ending_before`. It stores nothing, so that a measure
contains little besides the dashboard's work.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

TRANSACTIONS = 5_000_000
ACCOUNTS = 50_000
LATENCY_MS = 40.0
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_CURRENCIES = ("EUR", "USD", "JPY", "KWD")


def _when(number: int) -> str:
    moment = _BEGAN + timedelta(seconds=5 * number)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def account(number: int) -> dict[str, Any]:
    return {
        "id": f"acc_{number:026d}",
        "object": "account",
        "name": f"Account {number}",
        "currency": _CURRENCIES[number % 4],
        "balance": (number * 7919) % 10_000_000 - 500_000,
        "metadata": {},
        "created": _when(number),
        "livemode": False,
    }


def transaction(number: int) -> dict[str, Any]:
    return {
        "id": f"txn_{number:026d}",
        "object": "transaction",
        "account": f"acc_{ACCOUNTS - number % 40:026d}",
        "amount": (number * 104_729) % 1_000_000 + 1,
        "type": "credit" if number % 3 else "debit",
        "description": f"Order {number} · delivered",
        "balance_after": (number * 7919) % 100_000_000,
        "created": _when(number),
        "livemode": False,
    }


_LISTS = {"/v1/accounts": (account, ACCOUNTS), "/v1/transactions": (transaction, TRANSACTIONS)}


def answer(path: str) -> tuple[int, Any]:
    """Return the status and the body of the answer to a GET."""
    parts = urlsplit(path)
    query = dict(parse_qsl(parts.query))
    if parts.path == "/api/health":
        return 200, {"ok": True}
    if parts.path in _LISTS:
        make, count = _LISTS[parts.path]
        limit = int(query.get("limit", "20"))
        if (edge := query.get("ending_before")) is not None:
            low = int(edge[4:]) + 1
            high = min(count, low + limit - 1)
            more = high < count
            cursor = high
        else:
            high = int(query["starting_after"][4:]) - 1 if "starting_after" in query else count
            low = max(1, high - limit + 1)
            more = low > 1
            cursor = low
        rows = [make(number) for number in range(high, low - 1, -1)]
        return 200, {"data": rows, "has_more": more, "next_cursor": make(cursor)["id"] if more else None}
    head, _, last = parts.path.rpartition("/")
    if head in _LISTS and last[4:].isdigit():
        make, count = _LISTS[head]
        if 1 <= int(last[4:]) <= count:
            return 200, make(int(last[4:]))
    problem = {"type": "not_found", "code": "not_found", "message": "There is no such thing.", "param": None}
    return 404, {"error": problem}


async def _serve(latency_ms: float) -> None:
    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                status, body = answer(head.split(b" ", 2)[1].decode())
                content = json.dumps(body).encode()
                await asyncio.sleep(latency_ms / 1000)
                writer.write(
                    f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\n"
                    "X-RateLimit-Limit: 600000\r\nX-RateLimit-Remaining: 599999\r\n"
                    f"X-RateLimit-Reset: {int(time.time()) // 60 * 60 + 60}\r\n"
                    f"Content-Length: {len(content)}\r\n\r\n".encode()
                    + content
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    print(f"Listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1]) if len(sys.argv) > 1 else LATENCY_MS))
