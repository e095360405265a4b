"""Metrics for Prometheus, on a separate listener (docs/monitoring.md#metrics).

Requests and commits are counted when they happen. Other figures, such as the size of the file, are read for
each scrape.

A scrape needs no credential. So a listener on the loopback interface refuses a request whose Host header is
neither `localhost` nor an IP address. Without this check a stranger's web page in a browser on this machine
could read the metrics: the stranger would point the page's host name at this machine (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from time import monotonic
from typing import Any, TypeVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    start_http_server,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ledger_engine import __version__
from ledger_engine.core.errors import LedgerError
from ledger_engine.events.webhooks import deliveries
from ledger_engine.store.engine import Engine
from ledger_engine.upkeep.scheduled_backups import ScheduledBackups

T = TypeVar("T")
PATH = "/metrics"
Environ = dict[str, Any]
Start = Callable[..., Any]
Wsgi = Callable[[Environ, Start], Iterable[bytes]]


class MetricsListener:
    """A listener for scrapes, which listens on `port`."""

    def __init__(self, server: WSGIServer) -> None:
        self._server = server
        self.port = server.server_port

    async def close(self) -> None:
        """Stop listening."""
        shutdown = asyncio.create_task(asyncio.to_thread(self._server.shutdown))
        # Shutting the socket down wakes the listening thread at once. Otherwise the thread would notice only
        # at its next check that it must stop, up to half a second later.
        with suppress(OSError):
            self._server.socket.shutdown(socket.SHUT_RDWR)
        await shutdown
        self._server.server_close()


class _Handler(WSGIRequestHandler):
    """Answers scrapes. It logs nothing, like the handler that `start_http_server` uses."""

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client has closed the connection
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def listen(registry: CollectorRegistry, host: str, port: int) -> MetricsListener:
    """Serve the metrics in a thread. Raises OSError with a full sentence if the address cannot be bound."""
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise OSError(
            f"Cannot serve metrics on {host} port {port}: {error.strerror}."
            " Choose another address with --metrics."
        ) from error
    metrics = server.get_app()
    assert metrics is not None, "start_http_server has set it"
    is_loopback = ipaddress.ip_address(str(server.server_address[0]).partition("%")[0]).is_loopback
    server.set_app(_only_metrics(metrics, any_host=not is_loopback))
    server.RequestHandlerClass = _Handler
    return MetricsListener(server)


def _only_metrics(metrics: Wsgi, *, any_host: bool) -> Wsgi:
    def answer(environ: Environ, start: Start) -> Iterable[bytes]:
        # An HTTP/1.0 client may leave the Host header out, but a browser always sends it.
        host = environ.get("HTTP_HOST", "localhost")
        if not any_host and not _is_this_machine(host):
            sentence = f"The Host {host} is not allowed. Use localhost or the address.\n"
            return _refuse(start, "403 Forbidden", sentence)
        if environ.get("PATH_INFO") != PATH:
            return _refuse(start, "404 Not Found", f"The metrics are at {PATH}.\n")
        return metrics(environ, start)

    return answer


def _is_this_machine(host: str) -> bool:
    """Return whether the value of the Host header is localhost or an IP address.

    Any other value could be a name that a stranger has pointed at this machine.
    """
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if name.lower().rstrip(".") == "localhost":
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _refuse(start: Start, status: str, sentence: str) -> Iterable[bytes]:
    body = sentence.encode()
    start(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
    return [body]


ASKED_S = 3.0  # seconds for which a scrape waits for the ledger; Prometheus gives up after 10 seconds
# The label that replaces a value which clients choose freely, such as an unknown method. If such values were
# labels, clients could create any number of series.
OTHER = "other"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REQUEST_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_COMMIT_S = (0.0005, *_REQUEST_S)
_WORKS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counts requests and commits, and serves all metrics. Create an instance in the server's event loop."""

    def __init__(self, engine: Engine, backups: ScheduledBackups | None = None) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Histogram(
            "ledger_http_request_duration_seconds",
            "Time from a request's head to the end of its answer.",
            ("method", "route", "status"),
            buckets=_REQUEST_S,
            registry=registry,
        )
        # The histogram for each set of labels. The library's own look-up takes longer than counting a
        # request.
        self._series: dict[tuple[str, str, int], Histogram] = {}
        self._refusals = Counter(
            "ledger_limits_refused",
            "Requests answered 429, by the limit: requests, authentication, bodies.",
            ("limit",),
            registry=registry,
        )
        self._works = Histogram(
            "ledger_commit_works", "Works in one commit.", buckets=_WORKS, registry=registry
        )
        self._commits = Histogram(
            "ledger_commit_duration_seconds",
            "Time of a commit, until it is on the disk.",
            buckets=_COMMIT_S,
            registry=registry,
        )
        Info("ledger_build", "The version of the server.", registry=registry).info({"version": __version__})
        registry.register(_LedgerFigures(engine, asyncio.get_running_loop()))
        if backups is not None:
            registry.register(_BackupFigures(backups))
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        engine.observe_commits(self._count_commit)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request.

        `route` is the path of the operation, such as `/v1/accounts/{id}`; empty if no operation matched.
        """
        key = method, route, status
        series = self._series.get(key)
        if series is None:
            if method not in _METHODS:
                key = OTHER, route, status
            series = self._requests.labels(key[0], route or OTHER, str(status))
            if key[0] != OTHER:
                self._series[key] = series
        series.observe(seconds)

    def refused(self, limit: str) -> None:
        """Count a request that was answered 429, by the kind of the limit."""
        self._refusals.labels(limit).inc()

    def _count_commit(self, works: int, seconds: float) -> None:
        self._works.observe(works)
        self._commits.observe(seconds)

    def serve(self, host: str, port: int) -> MetricsListener:
        """Serve the metrics in a thread.

        Raises OSError with a full sentence if the address cannot be bound.
        """
        return listen(self._registry, host, port)


class _LedgerFigures(Collector):
    """The figures that each scrape reads from the files and the ledger.

    `collect` runs in the listener's thread.
    """

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop

    def collect(self) -> Iterator[Metric]:
        """Yield the figures. While the storage is unavailable, the figures about webhooks are missing."""
        until = monotonic() + ASKED_S
        figures = self._ask(self._engine.figures())
        measured = self._ask(self._engine.read(deliveries.measure))
        for figure in _answer(figures, until) or ():
            kind = CounterMetricFamily if figure.counted else GaugeMetricFamily
            yield kind(figure.name, figure.help, value=float(figure.value))
        values = _answer(measured, until)
        yield _gauge("ledger_storage_up", "1 while the ledger can be read.", values is not None)
        if values is not None:
            late_ms = 0 if values.oldest is None else max(0, self._engine.clock.now() - values.oldest)
            yield _gauge(
                "ledger_webhook_backlog_events", "Events to be sent for the first time.", values.events
            )
            yield _gauge(
                "ledger_webhook_pending_retries",
                "Deliveries that wait for a further attempt.",
                values.retries,
            )
            yield _gauge(
                "ledger_webhook_backlog_age_seconds",
                "Age of the oldest event not delivered yet.",
                late_ms / 1000,
            )

    def _ask(self, question: Coroutine[Any, Any, T]) -> Future[T] | None:
        try:
            return asyncio.run_coroutine_threadsafe(question, self._loop)
        except RuntimeError:  # the loop is closed
            question.close()
            return None


def _answer(future: Future[T] | None, until: float) -> T | None:
    """Return the result of the future; None if the future fails, or is not done at the time `until`.

    `until` is a time of `monotonic`.
    """
    if future is None:
        return None
    try:
        return future.result(max(0, until - monotonic()))
    except (LedgerError, TimeoutError, CancelledError):  # the storage fails or is slow, or the server stops
        future.cancel()
        return None


class _BackupFigures(Collector):
    """The figures of the backups that the server makes."""

    def __init__(self, backups: ScheduledBackups) -> None:
        self._backups = backups

    def collect(self) -> Iterator[Metric]:
        """Yield the figures. The duration and the size are 0 until this server has made a backup."""
        backups = self._backups
        if backups.newest is not None:
            yield _gauge("ledger_backup_last_timestamp_seconds", "Time of the newest backup.", backups.newest)
        yield CounterMetricFamily("ledger_backup_failures", "Backups that failed.", value=backups.failures)
        yield _gauge("ledger_backup_duration_seconds", "Time that the last backup took.", backups.took_s)
        yield _gauge("ledger_backup_bytes", "Size of the last backup.", backups.bytes)


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help, value=float(value))
