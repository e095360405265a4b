"""Answering requests, in a server that is alone or in a worker."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

from hypercorn.config import Config
from hypercorn.utils import wrap_app

from ledger_engine.core.measuring import RequestMeter
from ledger_engine.core.settings import ServeSettings
from ledger_engine.events.request_recorder import RequestRecorder
from ledger_engine.http.app import create_app
from ledger_engine.http.gate.gate import AuthRateLimit
from ledger_engine.http.gate.proxies import BehindProxies
from ledger_engine.http.pages.issuer import Issuer
from ledger_engine.http.wire.passed import PassedConnections
from ledger_engine.http.wire.serving import cut_connections, worker_serve
from ledger_engine.server.stopping import Stop, first_of
from ledger_engine.store.engine import Engine

DRAIN_S = 8  # the time requests in progress have to finish; container hosts kill after 10
COLLECTED_AT = 10_000  # the garbage collector runs after this many allocations beyond the deallocations


def make_app(
    settings: ServeSettings, engine: Engine, recorder: RequestRecorder, meter: RequestMeter | None = None
) -> Any:
    """Return the application of one process."""
    test_helpers = None
    if settings.test_helpers:
        # Imported here: hardly any server has them.
        from ledger_engine.sandbox import wiring

        test_helpers = wiring
    limit = AuthRateLimit(settings.auth_per_minute, settings.auth_per_second)
    issuer = Issuer(settings.issuer, settings.host)
    app = create_app(
        engine,
        issuer=issuer,
        auth_rate_limit=limit,
        recorder=recorder,
        cors_origins=settings.cors_origins,
        meter=meter,
        test_helpers=test_helpers,
    )
    return BehindProxies(app, settings.trusted_proxies) if settings.trusted_proxies else app


async def serve_until(
    stop: Stop,
    app: Any,
    config: Config,
    note_ready: Callable[[], None],
    begin_stop: Callable[[], None],
    passed: PassedConnections | None = None,
) -> None:
    """Serve until asked to stop, then finish what is under way, in DRAIN_S seconds or at once on `hurry`.

    `note_ready` is called when requests are accepted, `begin_stop` when no more are.
    """

    async def wait_until_asked() -> None:
        note_ready()
        await stop.asked.wait()
        begin_stop()

    serving = asyncio.create_task(
        worker_serve(
            wrap_app(app, config.wsgi_max_body_size, "asgi"),
            config,
            shutdown_trigger=wait_until_asked,
            passed=passed,
        )
    )
    await first_of(serving, stop.asked)
    await first_of(serving, stop.hurry, seconds=DRAIN_S)
    while not serving.done():
        cut_connections()
        await asyncio.wait({serving}, timeout=1)
    await serving


def collect_rarely() -> None:
    """Set up the garbage collector for serving, once everything is loaded.

    The objects of a request are freed with its answer, and hardly any are in a cycle. With the usual
    threshold of 700 the collector would scan the open requests several times and find nothing.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(COLLECTED_AT)
