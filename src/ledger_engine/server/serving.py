"""Runs the server: creates its application and event loop, answers requests, and stops."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

from hypercorn.config import Config
from quart import Quart

from ledger_engine.core.measuring import RequestMeter
from ledger_engine.core.settings import ServeSettings
from ledger_engine.events.request_log import RequestRecorder
from ledger_engine.http.app import new_app, put_gate
from ledger_engine.http.gate.gate import AuthRateLimit
from ledger_engine.http.pages.views import Issuer
from ledger_engine.http.wire.serving import cut_connections, serve
from ledger_engine.server.listening import tell_systemd
from ledger_engine.store.engine import Engine


class Stop:
    """Two events: `requested` is set when the server must stop, `hurry` when it must stop at once."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.hurry = asyncio.Event()

    def on_signals(self) -> None:
        """Set `requested` at the first SIGTERM, SIGINT or SIGHUP, and `hurry` at the second."""
        loop = asyncio.get_running_loop()
        signals = [signal.SIGTERM, signal.SIGINT]
        # Under nohup SIGHUP is already ignored; leave it ignored.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signals.append(signal.SIGHUP)

        def note_signal() -> None:
            if self.requested.is_set():
                self.hurry.set()
            else:
                tell_systemd("STOPPING=1")
                self.requested.set()

        for number in signals:
            loop.add_signal_handler(number, note_signal)

    def at_end_of_stdin(self) -> None:
        """Set `requested` when stdin ends.

        The parent process holds the other end of stdin, the end for writing. When the parent ends, even if it
        is killed, the system closes the parent's end, and so stdin ends here.
        """
        loop = asyncio.get_running_loop()

        def read_to_the_end() -> None:
            with contextlib.suppress(OSError):
                while os.read(0, 4096):
                    pass
            # The loop is closed if the server has already stopped.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self.requested.set)

        threading.Thread(target=read_to_the_end, name="stdin", daemon=True).start()


async def first_of(task: asyncio.Future[None], event: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until the task is done, the event is set or `seconds` have passed, whichever comes first."""
    waiting = asyncio.create_task(event.wait())
    futures: set[asyncio.Future[Any]] = {task, waiting}
    await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the function that creates the event loops of a server."""
    import uvloop

    return uvloop.new_event_loop


# Seconds that the requests in progress have to finish once the server must stop. Container hosts kill a
# process 10 seconds after SIGTERM.
DRAIN_S = 8
COLLECTED_AT = 10_000  # the garbage collector runs when allocations exceed deallocations by this number


def make_app(settings: ServeSettings) -> Quart:
    """Return the application of one process; it serves nothing until `begin_serving`."""
    return new_app(Issuer(settings.issuer, settings.host), _test_helpers(settings))


def begin_serving(
    app: Quart,
    settings: ServeSettings,
    engine: Engine,
    recorder: RequestRecorder,
    meter: RequestMeter | None = None,
) -> None:
    """Make the application, which was created with these settings, serve the engine."""
    put_gate(
        app,
        engine,
        auth_rate_limit=AuthRateLimit(settings.auth_per_minute, settings.auth_per_second),
        recorder=recorder,
        cors_origins=settings.cors_origins,
        meter=meter,
        test_helpers=_test_helpers(settings),
        trusted_proxies=settings.trusted_proxies,
    )


def _test_helpers(settings: ServeSettings) -> ModuleType | None:
    if not settings.test_helpers:
        return None
    # Imported here, because few servers offer the test helpers.
    from ledger_engine.sandbox import routes

    return routes


async def serve_until(
    stop: Stop,
    app: Any,
    config: Config,
    note_ready: Callable[[], Awaitable[None]],
    begin_stop: Callable[[], None],
) -> None:
    """Serve until `stop.requested` is set, then let the requests in progress finish within DRAIN_S seconds.

    After DRAIN_S seconds, or as soon as `stop.hurry` is set, cut the connections of the unfinished requests.

    `note_ready` is called when the server begins to accept requests, and `begin_stop` when it stops accepting
    them.
    """

    async def wait_until_asked() -> None:
        await note_ready()
        await stop.requested.wait()
        begin_stop()

    serving = asyncio.create_task(serve(app, config, shutdown_trigger=wait_until_asked, refuse=app))
    await first_of(serving, stop.requested)
    await first_of(serving, stop.hurry, seconds=DRAIN_S)
    while not serving.done():
        cut_connections()
        await asyncio.wait({serving}, timeout=1)
    await serving


def collect_rarely() -> None:
    """Set up the garbage collector for serving, once everything is loaded.

    Hardly any objects of a request refer to each other in a cycle. So reference counting frees them when the
    request is answered, without the collector. With Python's own threshold (700 in Python 3.11), the
    collector would scan the objects of the open requests several times and find nothing to free.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(COLLECTED_AT)
