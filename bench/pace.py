"""Send requests at a steady rate: one half are POSTs of transactions, the other half reads.

`python -m bench.pace URL KEY ACCOUNT PER_SECOND` runs until its standard input closes. Then it prints how
many requests a second the server answered with 2xx. If an answer is late, the next request on its connection
is late.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from urllib.parse import urlsplit

CONNECTIONS = 8


async def _pace(url: str, key: str, account: str, per_second: float) -> float:
    parts = urlsplit(url)
    head = f"HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {key}\r\n"
    body = json.dumps({"account": account, "amount": 100, "type": "credit"})
    requests = (
        f"POST /v1/transactions {head}Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}",
        f"GET /v1/transactions?limit=20 {head}\r\n",
    )
    answered = 0
    ended = asyncio.Event()
    started = time.perf_counter()

    async def converse(number: int) -> None:
        nonlocal answered
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        turn = 0
        while not ended.is_set():
            due = started + (turn * CONNECTIONS + number) / per_second
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            writer.write(requests[turn % 2].encode())
            answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            if not answer.startswith("http/1.1 2"):
                raise RuntimeError(answer)
            length = next(line for line in answer.split("\r\n") if line.startswith("content-length:"))
            await reader.readexactly(int(length.partition(":")[2]))
            answered += 1
            turn += 1
        writer.close()

    async def wait_for_end() -> None:
        await asyncio.to_thread(sys.stdin.read)
        ended.set()

    await asyncio.gather(wait_for_end(), *map(converse, range(CONNECTIONS)))
    return answered / (time.perf_counter() - started)


if __name__ == "__main__":
    _, to, credential, posted_to, rate = sys.argv
    print(asyncio.run(_pace(to, credential, posted_to, float(rate))))
