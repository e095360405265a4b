"""The key that the first start shows."""

from __future__ import annotations

import asyncio
import threading

from ledger_engine.access import api_keys
from ledger_engine.core.settings import Location, ServeSettings
from ledger_engine.server.new_key import show_new_key
from ledger_engine.store.engine import Engine


async def test_the_server_answers_while_nobody_reads_the_line_with_the_key(
    engine: Engine, location: Location
) -> None:
    is_shown, may_return = threading.Event(), threading.Event()

    def wait_for_reader(key: str | None, lacks_key: bool) -> bool:
        is_shown.set()
        return may_return.wait(30)

    showing = asyncio.create_task(show_new_key(engine, ServeSettings(location), None, wait_for_reader))
    assert await asyncio.to_thread(is_shown.wait, 30)
    assert await engine.read(api_keys.has_any)
    may_return.set()
    await showing
    assert await engine.read(api_keys.has_any)
