"""The metrics: what is counted, what is read when asked, and where they are served."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import cast

import httpx
import psycopg
import pytest
import pytest_asyncio
import yaml
from prometheus_client import CollectorRegistry

from ledger_engine.core.settings import BadSettings, ServeSettings
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks import endpoints
from ledger_engine.http.app import create_app
from ledger_engine.ledger import accounts
from ledger_engine.store import BookWork, Unit, kept_time
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.postgres import database
from ledger_engine.store.postgres.database import PostgresDatabase
from ledger_engine.store.postgres.locks import lock_of
from ledger_engine.store.postgres.readers import READERS
from ledger_engine.upkeep import metrics as metrics_module
from ledger_engine.upkeep.metrics import Metrics, listen
from ledger_engine.upkeep.scheduled_backups import ScheduledBackups
from tests.faults.postgres import ROLE, Postgres
from tests.ledger_engine.conftest import MakeKey
from tests.ledger_engine.in_process import client_of
from tests.ledger_engine.lost_connections import reset_a_request
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.waiting import until
from tests.postgres_cluster import programs
from tests.postgres_server import emptied_database

_WAITING = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
TILL = {"name": "Till", "currency": "EUR"}


@pytest_asyncio.fixture
async def metrics(engine: Engine) -> Metrics:
    return Metrics(engine)


@pytest.fixture
def address() -> str:
    return emptied_database()


@pytest_asyncio.fixture
async def on_postgres(address: str, clock: ManualClock) -> AsyncIterator[Engine]:
    engine = open_engine(address, clock=clock, serving=True)
    yield engine
    await engine.close()


@pytest_asyncio.fixture
async def api(engine: Engine, metrics: Metrics, make_key: MakeKey) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(create_app(engine, meter=metrics), await make_key()) as client:
        yield client


async def scrape(metrics: Metrics) -> dict[str, float]:
    """Return the value of each series, as Prometheus would get it."""
    listener = metrics.serve("127.0.0.1", 0)
    try:
        async with httpx.AsyncClient(trust_env=False) as prometheus:
            answer = await prometheus.get(f"http://127.0.0.1:{listener.port}/metrics")
    finally:
        await listener.close()
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    return values_in(answer.text)


def values_in(text: str) -> dict[str, float]:
    """Return the value of each series in a scrape's answer."""
    lines = re.findall(r"(?m)^([a-z_]+(?:\{[^\n]*\})?) (\S+)$", text)
    return {name: float(value) for name, value in lines}


def requests(method: str, route: str, status: int) -> str:
    labels = f'method="{method}",route="{route}",status="{status}"'
    return f"ledger_http_request_duration_seconds_count{{{labels}}}"


async def test_requests_are_counted_by_route_and_status(api: httpx.AsyncClient, metrics: Metrics) -> None:
    made = (await api.post("/v1/accounts", json=TILL)).json()
    for _ in range(2):
        assert (await api.get(f"/v1/accounts/{made['id']}")).status_code == 200
    assert (await api.get("/v1/accounts/acc_none")).status_code == 404
    assert (await api.get("/v1/none/at/all")).status_code == 404
    assert (await api.request("BREW", "/v1/coffee")).status_code == 404
    found = await scrape(metrics)
    assert found[requests("POST", "/v1/accounts", 201)] == 1
    assert found[requests("GET", "/v1/accounts/<id>", 200)] == 2
    assert found[requests("GET", "/v1/accounts/<id>", 404)] == 1
    assert found[requests("GET", "other", 404)] == 1
    assert found[requests("other", "other", 404)] == 1
    assert not [name for name in found if made["id"] in name or "BREW" in name]
    buckets = [value for name, value in found.items() if "_bucket" in name and 'status="201"' in name]
    assert (len(buckets), max(buckets)) == (14, 1)


async def test_a_request_that_a_limit_refuses_is_counted(api: httpx.AsyncClient, metrics: Metrics) -> None:
    body = {"grant_type": "api_key", "api_key": "sk_test_" + "0" * 32}
    statuses = {(await api.post("/v1/auth/token", json=body)).status_code for _ in range(30)}
    assert statuses == {401, 429}
    found = await scrape(metrics)
    refused = found['ledger_limits_refused_total{limit="authentication"}']
    assert refused == found[requests("POST", "other", 429)] > 0
    assert 'ledger_limits_refused_total{limit="requests"}' not in found


async def test_commits_are_counted_with_their_works(
    api: httpx.AsyncClient, metrics: Metrics, engine: Engine
) -> None:
    before = await scrape(metrics)
    await api.post("/v1/accounts", json=TILL)
    after = await scrape(metrics)
    for name in (
        "ledger_commit_works_count",
        "ledger_commit_works_sum",
        "ledger_commit_duration_seconds_count",
    ):
        assert after[name] == before[name] + 1
    assert after["ledger_commit_duration_seconds_sum"] > before["ledger_commit_duration_seconds_sum"]


async def test_the_backlog_of_webhooks_is_what_is_not_sent_and_how_old_it_is(
    metrics: Metrics, engine: Engine, tenant: Tenant, clock: ManualClock
) -> None:
    found = await scrape(metrics)
    assert (found["ledger_webhook_backlog_events"], found["ledger_webhook_backlog_age_seconds"]) == (0, 0)
    for kinds in (["*"], ["account.created"], ["invoice.paid"]):
        new = endpoints.NewEndpoint("http://127.0.0.1:9/", kinds)
        await engine.write(partial(endpoints.create, tenant=tenant, new=new, secret="x", sealed_secret="x"))
    await engine.write(partial(accounts.create, tenant=tenant, new=accounts.NewAccount("A", "EUR", {})))
    clock.advance(90_000)
    found = await scrape(metrics)
    assert found["ledger_webhook_backlog_events"] == 2
    assert found["ledger_webhook_pending_retries"] == 0
    assert 90 <= found["ledger_webhook_backlog_age_seconds"] < 91


@pytest.mark.sqlite
async def test_sizes_and_the_process_are_told(metrics: Metrics, engine: Engine, location: Path) -> None:
    await engine.write(kept_time.reach)
    found = await scrape(metrics)
    log = location.with_name(f"{location.name}-wal")
    assert found["ledger_database_bytes"] == location.stat().st_size > 0
    assert found["ledger_wal_bytes"] == log.stat().st_size > 0
    assert found["ledger_storage_up"] == 1
    assert found["process_resident_memory_bytes"] > 0


async def test_a_notice_is_told_while_the_health_check_shows_it(metrics: Metrics, engine: Engine) -> None:
    assert (await scrape(metrics))["ledger_notice"] == 0
    engine.losses.accepted = "It lacks 2 commits."
    assert (await scrape(metrics))["ledger_notice"] == 1
    engine.notices["log"] = "Nothing is sealed."
    assert engine.notice == "It lacks 2 commits. Nothing is sealed.", "no notice hides another"


def wait_for_lock(unit: Unit) -> None:
    unit.execute("SELECT pg_advisory_xact_lock(1)")


@pytest.mark.process
async def test_a_database_that_hangs_is_told_and_the_rest_too(
    address: str, on_postgres: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_module, "ASKED_S", 1.0)
    monkeypatch.setattr(database, "_MEASURED_S", 0.1)
    metrics = Metrics(on_postgres)
    with psycopg.connect(address, autocommit=True) as beside:
        beside.execute("SELECT pg_advisory_lock(1)")
        hanging = [asyncio.create_task(on_postgres.read(wait_for_lock)) for _ in range(READERS)]
        await until(lambda: beside.execute(_WAITING).fetchone() == (READERS,))
        values = await scrape(metrics)
        beside.execute("SELECT pg_advisory_unlock(1)")
        await asyncio.gather(*hanging)
    assert (values["ledger_storage_up"], values["ledger_storage_older"]) == (0, 0)
    assert (await scrape(metrics))["ledger_storage_up"] == 1


async def test_a_storage_that_is_lost_is_told_and_the_rest_too(metrics: Metrics, engine: Engine) -> None:
    await engine.close()
    found = await scrape(metrics)
    assert found["ledger_storage_up"] == 0
    assert "ledger_webhook_backlog_events" not in found
    assert "ledger_commit_works_count" in found


async def test_an_address_that_is_taken_is_named(metrics: Metrics) -> None:
    listener = metrics.serve("127.0.0.1", 0)
    try:
        with pytest.raises(OSError, match=f"metrics on 127.0.0.1 port {listener.port}"):
            metrics.serve("127.0.0.1", listener.port)
    finally:
        await listener.close()


def test_metrics_leave_the_machine_only_where_that_is_accepted() -> None:
    with pytest.raises(BadSettings, match="--metrics 0"):
        ServeSettings(None, metrics=("0.0.0.0", 9464)).check()
    ServeSettings(None, metrics=("0.0.0.0", 9464), insecure=True).check()
    ServeSettings(None, metrics=("127.0.0.1", 9464)).check()


@pytest.mark.parametrize(
    ("host", "metrics"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("127.0.0.1", "0.0.0.0"),
    ],
)
def test_metrics_are_not_served_where_the_server_listens(host: str, metrics: str) -> None:
    with pytest.raises(BadSettings) as refused:
        ServeSettings(None, host, 9715, metrics=(metrics, 9715), insecure=True).check()
    assert str(refused.value) == (
        f"--metrics {metrics}:9715 is the server's own address (--host {host} and --port 9715)."
        " Give the metrics another port."
    )


def test_metrics_may_have_the_port_on_another_address() -> None:
    ServeSettings(None, "127.0.0.1", 9715, metrics=("127.0.0.2", 9715)).check()
    ServeSettings(None, "127.0.0.1", 0, metrics=("127.0.0.1", 0)).check()


async def test_the_listener_has_nothing_but_the_metrics(metrics: Metrics) -> None:
    listener = metrics.serve("127.0.0.1", 0)
    try:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{listener.port}", trust_env=False
        ) as prometheus:
            for path in ("/", "/metrics/", "/api/health", "/favicon.ico"):
                answer = await prometheus.get(path)
                assert (answer.status_code, answer.text) == (404, "The metrics are at /metrics.\n")
            assert (await prometheus.get("/metrics?name[]=ledger_storage_up")).status_code == 200
    finally:
        await listener.close()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:9464", 200),
        ("LOCALHOST", 200),
        ("[::1]:9464", 200),
        ("192.0.2.7", 200),
        ("evil.example:9464", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403),
        ("", 403),
    ],
)
async def test_on_loopback_a_name_that_leads_here_is_refused(
    metrics: Metrics, host: str, status: int
) -> None:
    listener = metrics.serve("127.0.0.1", 0)
    try:
        async with httpx.AsyncClient(trust_env=False) as prometheus:
            url = f"http://127.0.0.1:{listener.port}/metrics"
            assert (await prometheus.get(url, headers={"Host": host})).status_code == status
    finally:
        await listener.close()


async def test_where_other_machines_reach_it_any_name_is_answered(metrics: Metrics) -> None:
    listener = metrics.serve("0.0.0.0", 0)
    try:
        async with httpx.AsyncClient(trust_env=False) as prometheus:
            url = f"http://127.0.0.1:{listener.port}/metrics"
            assert (await prometheus.get(url, headers={"Host": "ledger:9464"})).status_code == 200
    finally:
        await listener.close()


@pytest.mark.process
async def test_on_postgresql_tries_waits_connections_standbys_and_the_size_are_told(
    on_postgres: Engine, tenant: Tenant
) -> None:
    metrics = Metrics(on_postgres)
    await on_postgres.write(kept_time.reach)
    before = await scrape(metrics)
    assert before["ledger_storage_up"] == 1
    assert before["ledger_database_bytes"] > 1_000_000
    assert (before["ledger_standbys"], before["ledger_storage_older"]) == (0, 0)
    assert before["ledger_storage_lock_waits_total"] == before["ledger_storage_retries_total"] == 0
    assert before["ledger_storage_connections_total"] > 1

    database = cast(PostgresDatabase, on_postgres._database)
    with psycopg.connect(database._hosts._hosts[0], autocommit=True) as beside:
        beside.execute("SELECT pg_advisory_lock(%s)", [lock_of(tenant.book)])
        waiting = asyncio.create_task(on_postgres.write(BookWork(kept_time.reach, tenant.book)))
        await until(lambda: database.counts.lock_waits == 1)
        beside.execute("SELECT pg_advisory_unlock(%s)", [lock_of(tenant.book)])
        await waiting
        process = database._committer.process
        beside.execute("SELECT pg_terminate_backend(%s, 60000)", [process])
    await on_postgres.write(kept_time.reach)
    found = await scrape(metrics)
    assert found["ledger_storage_lock_waits_total"] == 1
    assert found["ledger_storage_lock_wait_seconds_total"] > 0
    assert found["ledger_storage_retries_total"] == 1
    assert found["ledger_storage_connections_total"] > before["ledger_storage_connections_total"]


@pytest.mark.process
@pytest.mark.parametrize("role", [ROLE, "postgres"])
async def test_a_running_base_backup_is_not_counted_as_a_standby(role: str, tmp_path: Path) -> None:
    """`role` may be the ledger's role, which sees no states, or a superuser, which sees them."""
    # A superuser's backup has another name, so only its state shows what it is.
    name = {ROLE: "pg_basebackup", "postgres": "weekly"}[role]
    count = "SELECT count(*) FROM pg_stat_replication WHERE state = 'backup'"
    postgres = Postgres()
    try:
        engine = open_engine(postgres.address(postgres.new_database(), user=role), serving=True)
        with held_backup(postgres, name), postgres.connect() as administrator:
            await until(lambda: administrator.execute(count).fetchone() == (1,))
            assert (await scrape(Metrics(engine)))["ledger_standbys"] == 0
            assert administrator.execute(count).fetchone() == (1,)
        await engine.close()
    finally:
        postgres.remove()


@contextlib.contextmanager
def held_backup(postgres: Postgres, name: str) -> Iterator[None]:
    """Run pg_basebackup. Nobody reads its output, so it stays in its first bytes."""
    words = ["-X", "none", "-c", "fast", "-F", "tar", "-D", "-"]
    words += ["-d", f"host={postgres.sockets} user=postgres application_name={name}"]
    running = subprocess.Popen(
        [programs() / "pg_basebackup", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with running:
        try:
            yield
        finally:
            running.kill()


@pytest.mark.process
@pytest.mark.sqlite  # with those of a ledger on each engine
async def test_the_alerts_and_the_dashboard_of_deploy_name_metrics_that_there_are(
    engine: Engine, on_postgres: Engine, tmp_path: Path
) -> None:
    (tmp_path / "some-20260921T120000Z.db").write_text("")
    database = tmp_path / "some.db"
    metrics = Metrics(engine, ScheduledBackups(engine, database, tmp_path, 60, 1))
    others = Metrics(on_postgres)
    found = await asyncio.to_thread(lambda: [*metrics._registry.collect(), *others._registry.collect()])
    known = {f"{each.name}{suffix}" for each in found for suffix in _SUFFIXES[each.type]} | {"up"}
    deploy = Path(__file__).parents[3] / "deploy"
    script = (deploy / "postgres" / "metrics.sh").read_text()
    known |= set(re.findall(r"(?m)^(?:\$\{\w+:\+)?(ledger_\w+) ", script))
    (group,) = yaml.safe_load((deploy / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    panels = json.loads((deploy / "grafana.json").read_text(encoding="utf-8"))["panels"]
    asked = [rule["expr"] for rule in group["rules"]]
    asked += [target["expr"] for panel in panels for target in panel["targets"]]
    named = {name for text in asked for name in re.findall(r"\b(?:up|(?:ledger|process)_\w+)\b", text)}
    assert len(named) > 15
    assert named - known == {"ledger_replication_lag_seconds"}, "there is none without a standby"


_SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "info": ("_info",),
    "histogram": ("_bucket", "_count", "_sum"),
}


async def test_a_connection_that_is_reset_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    listener = listen(CollectorRegistry(), "127.0.0.1", 0)
    await asyncio.to_thread(reset_a_request, listener.port)
    await listener.close()
    assert "Traceback" not in capfd.readouterr().err
