"""A table to write into, a way to keep the writer busy, and a second connection to the file."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from ledger_engine.store import Unit, Work
from ledger_engine.store.engine import Engine

Hold = Callable[[], AbstractAsyncContextManager[None]]
Seen = Callable[[], list[str]]


def note(text: str, *, topic: str | None = None) -> Work[str]:
    """Return a work that writes one row and returns its text."""

    def work(unit: Unit) -> str:
        unit.execute("INSERT INTO notes (text) VALUES (:text)", {"text": text})
        if topic is not None:
            unit.announce(topic)
        return text

    return work


async def submit(*calls: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    """Return the calls as tasks that have started: their works are in the queue."""
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0)
    return tasks


@pytest.fixture
async def notes(engine: Engine) -> Engine:
    """Return the engine, with a table for these tests' works."""
    await engine.write(lambda unit: unit.execute("CREATE TABLE notes (text TEXT UNIQUE)"))
    return engine


@pytest.fixture
def hold(notes: Engine) -> Hold:
    """Return a context that keeps the writer busy, so that the works submitted meanwhile form one group."""

    @asynccontextmanager
    async def held() -> AsyncIterator[None]:
        started, release = threading.Event(), threading.Event()

        def work(_: Unit) -> None:
            started.set()
            release.wait()

        task = asyncio.create_task(notes.write(work))
        await asyncio.to_thread(started.wait)
        try:
            yield
        finally:
            release.set()
            await task

    return held


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[Seen]:
    """Return a function for the notes that another connection sees, which are the committed ones."""
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as other:
        yield lambda: [text for (text,) in other.execute("SELECT text FROM notes ORDER BY rowid")]
