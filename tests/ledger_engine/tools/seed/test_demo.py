"""The demo's receivers: a good one, a flaky one, and one that fails until it is repaired."""

from random import Random

import httpx

from ledger_engine.tools.seed.demo import DemoReceiver, make_receivers, run_receivers


async def test_each_answers_in_its_way_and_a_repaired_one_well() -> None:
    receivers = [DemoReceiver("/good", ("*",), 0, 0, 0.0), DemoReceiver("/bad", ("*",), 0, 0, 1.0)]
    async with run_receivers(receivers, Random(1)) as root, httpx.AsyncClient(trust_env=False) as client:

        async def post(path: str) -> int:
            return (await client.post(root + path, content=b"{}")).status_code

        assert [await post("/good"), await post("/bad"), await post("/other")] == [200, 503, 404]
        assert (await client.post(f"{root}/bad", content=b"{}")).text == "bad is under maintenance"
        assert await post("/bad/repair") == 200
        assert await post("/bad") == 200


async def test_a_text_that_is_not_http_only_ends_its_connection() -> None:
    import asyncio

    async with run_receivers(make_receivers(), Random(1)) as root:
        port = int(root.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.post(f"{root}/shop", content=b"{}")).status_code == 200
