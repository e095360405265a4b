"""The walkthrough of docs/production-postgresql.md, from the installation to the way back.

Everything is in folders of its own. `systemctl.py` stands for systemd, a copy of a folder with the program of
this environment for an installation, and a self-signed certificate for certbot's. `apt` is not run.
"""

from __future__ import annotations

import asyncio
import csv
import os
import random
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import LiteralString

import httpx
import psycopg
import pytest
import yaml

from ledger_engine.events.webhooks.signing import Seal, WrongKey
from tests.commands import answer_of_command
from tests.faults.postgres import Postgres
from tests.faults.server import NO_LIMIT
from tests.house.pages import ROOT, Block, blocks
from tests.ledger_engine.waiting import looked_until, until
from tests.postgres_cluster import Cluster, programs, watched
from tests.reader import Reader
from tests.test_pages import free_port

SYSTEMCTL = Path(__file__).with_name("systemctl.py")
# Stands for the extension amcheck, which PostgreSQL by pip lacks. Only a superuser can install it.
AMCHECK = {
    "amcheck.control": "default_version = '1.0'",
    "amcheck--1.0.sql": "CREATE FUNCTION bt_index_check(index regclass, heapallindexed boolean) RETURNS void"
    " LANGUAGE sql AS 'SELECT NULL'; REVOKE ALL ON FUNCTION bt_index_check(regclass, boolean) FROM PUBLIC;"
    " COMMENT ON EXTENSION amcheck IS 'functions for verifying relation integrity'",
}
PAGE = ROOT / "docs" / "production-postgresql.md"
SECRETS = ROOT / "docs" / "secrets.md"
ADDRESS = "postgresql://ledger@127.0.0.1/ledger"
SYSTEM_PATH = f"{os.defpath}{os.pathsep}/usr/sbin"
FILES = (  # of deploy
    "ledger.service",
    "nginx.conf",
    "postgres-role.sh",
    "alerts.yaml",
    *(f"postgres/{file.name}" for file in (ROOT / "deploy" / "postgres").iterdir()),
)
NEEDED = ("bash", "curl", "openssl", "nginx", "haproxy", "socat")
CLIENTS = 4
POSTINGS = 30  # before a restart, and after it
PAGE_TYPED_S = 1200  # the longest time between the first block and the last one
SCRAPE_S = 10  # Prometheus's usual `scrape_timeout`

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not all(shutil.which(program, path=SYSTEM_PATH) for program in NEEDED),
        reason=f"needs {', '.join(NEEDED)}",
    ),
]


class PostgresWithPassword(Postgres):
    """A cluster as on Debian: the administrator uses the socket, and the ledger TCP with a password."""

    def __init__(self) -> None:
        self.port = free_port()
        folder = Path(tempfile.mkdtemp(prefix="ledger-production-"))
        (folder / "extension").mkdir()
        for name, text in AMCHECK.items():
            (folder / "extension" / name).write_text(text)
        Cluster.__init__(
            self,
            folder,
            f"-h 127.0.0.1 -p {self.port} -c fsync=off -c shared_buffers=32MB"
            f" -c extension_control_path={folder}",
        )
        self._watched = watched(self)
        self.make_again()

    def make_again(self) -> None:
        """Make an empty cluster instead of the stopped one, if there is one, and start it."""
        shutil.rmtree(self.data)
        self.data.mkdir()
        self.make()
        rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        (self.data / "pg_hba.conf").write_text(rules)
        self.start()


def port_of_a_server() -> int:
    """Return a free port of four digits after which a 1 gives another free one, for the metrics."""
    while True:
        port = random.randint(2000, 9999)
        with suppress(OSError), socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", 10_000 + port))
            if port not in (8700, 8701, 8702):
                return port


class Machine:
    """The folders and ports that stand for those of the page, and the settings of the other programs."""

    def __init__(self, root: Path, postgres: PostgresWithPassword) -> None:
        self.root = root
        self.etc = root / "etc"
        self.units = self.etc / "systemd" / "system"
        self.certificate = self.etc / "letsencrypt" / "live" / "ledger.example" / "fullchain.pem"
        of_debian = ("haproxy", "nginx/conf.d", "prometheus", "cron.d", "cron.daily", "default")
        for folder in (
            *map(self.etc.joinpath, of_debian),
            self.certificate.parent,
            self.units,
            root / "opt",
            root / "run" / "haproxy",
            root / "exporter",
        ):
            folder.mkdir(parents=True)
        self.port, self.plain_port = free_port(), free_port()
        self.servers = sorted(port_of_a_server() for _ in range(2))  # as the ports of the page
        self.address = f"postgresql://ledger@127.0.0.1:{postgres.port}/ledger"
        self.database = root / "var" / "ledger" / "ledger.db"
        administrator = f"env PGHOST={postgres.sockets} PGPORT={postgres.port} PGUSER=postgres "
        resolved = f"--resolve ledger.example:{self.port}:127.0.0.1 --cacert {self.certificate}"
        plain = f"--resolve ledger.example:{self.plain_port}:127.0.0.1"
        # In this order: a text that stands for another one may itself contain a later one.
        self.stands_for = {
            "8701": str(self.servers[0]),
            "8702": str(self.servers[1]),
            "8700": str(free_port()),
            "apt update": "true",
            "apt install": "true",
            "/usr/share/postgresql-common/pgdg/apt.postgresql.org.sh": "true",
            "python3 -m venv": f"cp -R {root}/installed",
            "pg_dropcluster": "true",
            "pg_createcluster": "true",
            "pg_lsclusters": "echo '18  main    5432 online postgres'",
            "promtool": "true",
            "amtool": "true",
            "-g prometheus ": "",
            "curl -sS --retry 10 --retry-connrefused http://127.0.0.1:9093/-/ready": "true",
            "curl -sS --retry 10 --retry-connrefused http://127.0.0.1:9100/metrics": (
                f"cat {root}/exporter/ledger.prom"
            ),
            "/var/lib/prometheus/node-exporter": f"{root}/exporter",
            "127.0.0.1:443": f"127.0.0.1:{self.port}",
            "certbot certonly": f"sh {root}/certbot",
            "certbot renew": "true",
            "listen [::]:80;": "",
            "listen [::]:443 ssl;": "",
            "listen 80;": f"listen 127.0.0.1:{self.plain_port};",
            "listen 443 ssl": f"listen 127.0.0.1:{self.port} ssl",
            ADDRESS: self.address,
            "127.0.0.1:5432:": f"127.0.0.1:{postgres.port}:",
            "runuser -u postgres -- ": administrator,
            "/var/lib/ledger/": f"{self.database.parent}/",
            "/var/backups/ledger": str(root / "backups"),
            "/opt/": f"{root}/opt/",
            "/run/": f"{root}/run/",
            "/etc/": f"{self.etc}/",
            "nginx -t": f"nginx -t -e stderr -c {self.etc}/nginx/nginx.conf",
            "systemctl": f"{sys.executable} {SYSTEMCTL} {self.units}/ledger.service {root / 'var'}",
            "--resolve ledger.example:443:127.0.0.1 https://ledger.example": (
                f"{resolved} https://ledger.example:{self.port}"
            ),
            '"https://$name': f'--retry 60 --retry-connrefused {resolved} "https://$name:{self.port}',
            'curl -sS --head "http://$name': (
                f'curl -sS --head --retry 60 --retry-connrefused {plain} "http://$name:{self.plain_port}'
            ),
        }

    def here(self, text: str) -> str:
        for name, own in self.stands_for.items():
            text = text.replace(name, own)
        return text

    def unpack_sources(self, folder: Path) -> None:
        """Copy the files of `deploy` that the page installs."""
        for name in FILES:
            (folder / "deploy" / name).parent.mkdir(parents=True, exist_ok=True)
            text = self.here((ROOT / "deploy" / name).read_text(encoding="utf-8"))
            if os.geteuid():
                text = re.sub(r"(?m)^ +(?:user|group) haproxy$", "", text)
            (folder / "deploy" / name).write_text(text)

    def prepare_installation(self) -> None:
        """Make the folder that stands for a version's environment."""
        programs = self.root / "installed" / "bin"
        packages = self.root / "installed" / "lib" / "python3.11" / "site-packages"
        for folder in (programs, packages):
            folder.mkdir(parents=True)
        (programs / "ledger-engine").symlink_to(Path(sys.executable).with_name("ledger-engine"))
        (programs / "pip").symlink_to(shutil.which("true") or "")
        (packages / "ledger_engine").symlink_to(ROOT / "src" / "ledger_engine")

    def prepare(self) -> None:
        """Do the steps that the page leaves to other pages, to Debian and to the reader."""
        self.prepare_installation()
        (self.database.parent / "backups").mkdir(parents=True)
        answer_of_command(self.database, "seed", "minimal")
        for name, words in {
            "haproxy": f"-db -f {self.etc}/haproxy/haproxy.cfg",
            "nginx": f"-e stderr -c {self.etc}/nginx/nginx.conf",
        }.items():
            program = shutil.which(name, path=SYSTEM_PATH)
            (self.units / f"{name}.service").write_text(f"[Service]\nExecStart={program} {words}\n")
        temporary = (f"{kind}_temp_path {self.root}/{kind};" for kind in ("client_body", "proxy"))
        (self.etc / "nginx" / "nginx.conf").write_text(
            f"daemon off; master_process off; pid {self.root}/nginx.pid; events {{}}"
            f" http {{ access_log off; {' '.join(temporary)} include {self.etc}/nginx/conf.d/*.conf; }}"
        )
        words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
        words += ["-subj", "/CN=ledger.example", "-addext", "subjectAltName=DNS:ledger.example,IP:127.0.0.1"]
        words += ["-keyout", str(self.certificate.with_name("privkey.pem")), "-out", str(self.certificate)]
        (self.root / "certbot").write_text(shlex.join(words))

    def systemctl(self, *words: str) -> None:
        script = [sys.executable, str(SYSTEMCTL), str(self.units / "ledger.service"), str(self.root / "var")]
        subprocess.run([*script, *words], check=True)

    async def metrics(self, server: int) -> dict[str, float]:
        """Return a server's metrics without labels, as Prometheus reads them."""
        async with httpx.AsyncClient(trust_env=False, timeout=SCRAPE_S) as client:
            text = (await client.get(f"http://127.0.0.1:{10_000 + server}/metrics")).text
        return {name: float(value) for name, value in re.findall(r"(?m)^(ledger_\w+) (\S+)$", text)}

    async def states(self) -> list[str]:
        """Return what HAProxy says of each server: `UP`, `DOWN` or a change between them."""
        reading, writing = await asyncio.open_unix_connection(self.root / "run" / "haproxy" / "admin.sock")
        writing.write(b"show stat\n")
        rows = csv.DictReader((await reading.read()).decode().splitlines())
        writing.close()
        await writing.wait_closed()
        return [row["status"] for row in rows if row["svname"] in map(str, self.servers)]


class Load:
    """Clients that post through nginx as fast as they are answered, each with a key of its own."""

    def __init__(self, machine: Machine) -> None:
        limits = ("--plan", "enterprise", "--rate-limit", NO_LIMIT, "--burst", NO_LIMIT)
        project = answer_of_command(machine.address, "projects", "create", "Load", *limits)["id"]
        of_project = ("--project", project, "--mode", "test")
        self.keys: list[str] = [
            answer_of_command(machine.address, "keys", "create", *of_project)["key"] for _ in range(CLIENTS)
        ]
        self.client = httpx.AsyncClient(
            base_url=f"https://127.0.0.1:{machine.port}",
            headers={"Host": "ledger.example"},
            verify=ssl.create_default_context(cafile=machine.certificate),
            trust_env=False,
            timeout=60,
        )
        self.account = ""
        self.results: Counter[int | str] = Counter()

    async def post(self, key: str) -> int | str:
        """Post once; return the status, or the error if there is no answer."""
        body = {"account": self.account, "amount": 1, "type": "credit"}
        try:
            headers = {"Authorization": f"Bearer {key}"}
            return (await self.client.post("/v1/transactions", json=body, headers=headers)).status_code
        except httpx.TransportError as error:
            return repr(error)

    async def _post_on(self, key: str) -> None:
        while True:
            self.results[await self.post(key)] += 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        headers = {"Authorization": f"Bearer {self.keys[0]}"}
        made = await self.client.post("/v1/accounts", json={"name": "T", "currency": "EUR"}, headers=headers)
        self.account = made.raise_for_status().json()["id"]
        tasks = [asyncio.create_task(self._post_on(key)) for key in self.keys]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def until_more(self) -> None:
        enough = self.results.total() + POSTINGS
        await until(lambda: self.results.total() >= enough)


@pytest.fixture
def postgres() -> Iterator[PostgresWithPassword]:
    postgres = PostgresWithPassword()
    yield postgres
    postgres.remove()


@pytest.fixture
def machine(
    postgres: PostgresWithPassword, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    machine = Machine(tmp_path, postgres)
    machine.prepare()
    monkeypatch.setenv("PGPASSFILE", str(machine.etc / "ledger" / "pgpass"))
    yield machine
    machine.systemctl("stop", "nginx", "haproxy", *(f"ledger@{port}" for port in machine.servers))


@pytest.fixture
def reader(machine: Machine, tmp_path: Path) -> Iterator[Reader]:
    sources = tmp_path / "sources"
    machine.unpack_sources(sources)
    environment = {"PATH": f"{programs()}{os.pathsep}{SYSTEM_PATH}", "LANG": "C.UTF-8"}
    reader = Reader(sources, environment, machine.stands_for, seen={}, installed=True)
    yield reader
    reader.leave()


def alert(name: str) -> str:
    """Return the expression of a rule in deploy/alerts.yaml."""
    (group,) = yaml.safe_load((ROOT / "deploy" / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    (rule,) = (rule for rule in group["rules"] if rule["alert"] == name)
    return str(rule["expr"])


@pytest.mark.timeout(PAGE_TYPED_S)  # it restarts servers a dozen times
async def test_the_page_works(machine: Machine, reader: Reader, postgres: PostgresWithPassword) -> None:
    typed = [block for block in blocks(PAGE) if block.language == "sh"]
    drop_role, back_to_sqlite, watch_sqlite = (
        typed.pop(next(place for place, block in enumerate(typed) if text in block.text))
        for text in ("dropuser", "new.db", "9464")
    )
    stop, cluster, restart = (
        next(place for place, block in enumerate(typed) if text in block.text)
        for text in ("systemctl stop", "pg_createcluster", "state drain")
    )
    await asyncio.to_thread(follow, reader, typed[:stop])
    async with httpx.AsyncClient(trust_env=False, headers={"Host": "ledger.example"}) as client:
        answer = await client.get(f"http://127.0.0.1:{machine.plain_port}/api/health?at=80")
    assert (answer.status_code, answer.headers["Location"]) == (
        301,
        "https://ledger.example/api/health?at=80",
    )

    rights = rights_of_database(postgres)
    assert rights[0] == "postgres", "the owner could drop the database"

    # The cluster is lost, with changes that no dump has.
    load = Load(machine)
    async with load.running():
        await load.until_more()
    await load.client.aclose()
    await asyncio.to_thread(postgres.stop, "immediate")
    await asyncio.to_thread(follow, reader, [typed[stop]])
    await asyncio.to_thread(postgres.make_again)
    await asyncio.to_thread(reader.follow, typed[cluster])
    restore = typed[cluster + 1]
    await asyncio.to_thread(a_bad_dump_replaces_nothing, reader, postgres, restore)
    await asyncio.to_thread(follow, reader, [restore, *typed[cluster + 1 : restart]])
    assert [name.rstrip("0123456789") for name in databases(postgres)] == ["ledger", *["ledger_lost_"] * 2]
    assert rights_of_database(postgres) == rights
    # A server that posted nothing has perhaps not stored the last changes of the other server.
    journals = [(machine.units / f"ledger@{server}.journal").read_text() for server in machine.servers]
    assert any("With --accept-loss this server uses a database" in journal for journal in journals)
    assert not [*machine.root.glob("run/systemd/system/*/*")]

    # Both servers restart, are upgraded, and go back.
    load = Load(machine)
    async with load.running():
        await load.until_more()
        for block in typed[restart:]:
            await asyncio.to_thread(reader.follow, block)
            if "ln -sfT" in block.text:
                await asyncio.to_thread(reader.follow, typed[restart])
            await load.until_more()
        await secrets_change(machine, reader, postgres, typed[restart])
        await load.until_more()
    assert (machine.root / "opt" / "ledger-current").readlink() == machine.root / "opt" / "ledger-1"
    assert set(load.results) == {201}
    report = answer_of_command(machine.address, "verify")
    assert (report["ok"], report["checked"]["indexes_unchecked"]) == (True, None)

    # The script for the node exporter has written the times that two alerts read.
    lines = (machine.root / "exporter" / "ledger.prom").read_text().splitlines()
    metrics = dict(line.split() for line in lines if line)
    assert "ledger_archive_wait_seconds" not in metrics, "nothing archives"
    now = time.time()
    assert (alert("LedgerProxiesLost"), metrics["ledger_proxies_up"]) == ("ledger_proxies_up == 0", "1")
    assert alert("LedgerDumpOld") == "time() - ledger_dump_last_timestamp_seconds > 30 * 3600"
    assert now - PAGE_TYPED_S < float(metrics["ledger_dump_last_timestamp_seconds"]) <= now
    assert alert("LedgerCertificateEnds") == "ledger_certificate_end_timestamp_seconds - time() < 14 * 86400"
    of_a_day = now + 86_400
    assert of_a_day - PAGE_TYPED_S < float(metrics["ledger_certificate_end_timestamp_seconds"]) <= of_a_day

    # The database hangs: both servers report it, in time for Prometheus.
    assert alert("LedgerStorageLost") == "ledger_storage_up == 0"
    assert alert("LedgerDatabaseOlder") == "ledger_storage_older == 1"
    with postgres.stopped():
        for server in machine.servers:
            seen = await looked_until(
                lambda server=server: machine.metrics(server), lambda seen: seen["ledger_storage_up"] == 0
            )
            assert seen["ledger_storage_older"] == 0
        assert await load.post(load.keys[0]) == 503
    await looked_until(lambda: load.post(load.keys[0]), lambda status: status == 201)
    await looked_until(machine.states, lambda states: states == ["UP", "UP"])

    # A server ends: Prometheus cannot read this one, and the other one answers everybody.
    ended, other = machine.servers
    machine.systemctl("stop", f"ledger@{ended}")
    with pytest.raises(httpx.ConnectError):
        await machine.metrics(ended)
    assert (await machine.metrics(other))["ledger_storage_up"] == 1
    assert [await load.post(key) for key in load.keys] == [201] * CLIENTS

    # The new servers and proxies give the old server its port, and its file the postings made on PostgreSQL.
    count = answer_of_command(machine.address, "verify")["checked"]["transactions"]
    await asyncio.to_thread(reader.follow, back_to_sqlite)
    for port in (machine.port, int(machine.here("8700")), *machine.servers):
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            pass
    script = machine.etc / "ledger" / "metrics.sh"
    await asyncio.to_thread(subprocess.run, [script], stderr=subprocess.DEVNULL, check=True)
    assert (machine.root / "exporter" / "ledger.prom").read_text().startswith("ledger_proxies_up 0\n")
    report = answer_of_command(machine.database, "verify")
    assert (report["ok"], report["checked"]["transactions"]) == (True, count)
    await load.client.aclose()

    # Nothing watches PostgreSQL any more.
    await asyncio.to_thread(reader.follow, watch_sqlite)
    assert not [*machine.etc.glob("cron.*/*"), *machine.root.glob("exporter/*")]
    prometheus = yaml.safe_load((machine.etc / "prometheus" / "prometheus.yml").read_text())
    (job,) = prometheus["scrape_configs"]
    metrics_of_unit = tomllib.loads((ROOT / "deploy" / "ledger.toml").read_text())["metrics"]
    assert job["static_configs"] == [{"targets": [metrics_of_unit, "127.0.0.1:9100"]}]

    # The ledger moves to PostgreSQL again, and the servers remember the first database.
    assert [file.name for file in machine.root.glob("var/ledger-*/*")] == ["postgresql.json"] * 2
    role, move, start = (
        next(block for block in typed if text in block.text)
        for text in ("password=$(openssl", "ledger-engine migrate", "keys create")
    )
    await asyncio.to_thread(reader.follow, drop_role)
    assert not databases(postgres)
    await asyncio.to_thread(follow, reader, [role, move, start])
    report = answer_of_command(machine.address, "verify")
    assert (report["ok"], report["checked"]["transactions"]) == (True, count)


async def secrets_change(
    machine: Machine, reader: Reader, postgres: PostgresWithPassword, restart: Block
) -> None:
    """Change the password and the sealing key as docs/secrets.md does, until nothing needs the old ones."""
    file = machine.etc / "ledger" / "secrets.env"
    *change, remove_old_key = [block for block in blocks(SECRETS) if block.run_by]
    before = dict(line.split("=", 1) for line in file.read_text().splitlines())
    await asyncio.to_thread(follow, reader, [*change, restart])
    after = dict(line.split("=", 1) for line in file.read_text().splitlines())
    assert after["PGPASSWORD"] != before["PGPASSWORD"]
    assert after["LEDGER_SECRET_KEY_PREVIOUS"] == before["LEDGER_SECRET_KEY"] != after["LEDGER_SECRET_KEY"]

    def new_key_opens_the_log_key() -> bool:
        ((secret,),) = rows(postgres, "ledger", "SELECT secret FROM log_keys")
        with suppress(WrongKey):
            return bool(Seal(after["LEDGER_SECRET_KEY"]).open(secret))
        return False

    await until(new_key_opens_the_log_key)
    await asyncio.to_thread(follow, reader, [remove_old_key, restart])
    assert before["LEDGER_SECRET_KEY"] not in file.read_text()


def a_bad_dump_replaces_nothing(reader: Reader, postgres: PostgresWithPassword, restore: Block) -> None:
    """Restore a dump that cannot be read, and one that contains no ledger, and type on after each error."""
    before, text = databases(postgres), restore.text.rstrip()
    empty = postgres.folder / "empty.dump"
    template = address(postgres, "template1")
    subprocess.run([programs() / "pg_dump", "-Fc", "-f", empty, template], check=True)
    for dump, error in ((Path("/nowhere.dump"), "could not open"), (empty, "not a ledger")):
        with pytest.raises(AssertionError, match=error):
            reader.follow(replace(restore, text=f"{{\n{text.replace('${dump:?}', str(dump))}\n}}"))
        assert databases(postgres) == sorted([*before, "ledger_new"])


def address(postgres: PostgresWithPassword, database: str) -> str:
    """Return the administrator's address of a database."""
    return f"host={postgres.sockets} port={postgres.port} user=postgres dbname={database}"


def rows(postgres: PostgresWithPassword, database: str, sql: LiteralString) -> list[tuple[str, ...]]:
    """Return the rows of a query of the administrator."""
    with psycopg.connect(address(postgres, database)) as connection:
        return connection.execute(sql).fetchall()


def databases(postgres: PostgresWithPassword) -> list[str]:
    """Return the names of the databases that belong to the ledger, in order."""
    names = rows(
        postgres, "postgres", "SELECT datname FROM pg_database WHERE datname LIKE 'ledger%' ORDER BY 1"
    )
    return [name for (name,) in names]


def rights_of_database(postgres: PostgresWithPassword) -> tuple[str, ...]:
    """Return the owner of the database `ledger`, and the rights to it and to its schema."""
    (row,) = rows(
        postgres,
        "ledger",
        "SELECT datdba::regrole::text, datacl::text, nspacl::text"
        " FROM pg_database, pg_namespace WHERE datname = 'ledger' AND nspname = 'public'",
    )
    return row


def follow(reader: Reader, typed: list[Block]) -> None:
    for block in typed:
        reader.follow(block)
