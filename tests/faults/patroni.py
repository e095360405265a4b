"""Three nodes of PostgreSQL under Patroni, with etcd and HAProxy, as `deploy/ha` sets them up."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.ledger_engine.waiting import wait_until
from tests.postgres_cluster import Cluster, programs

DEPLOY = Path(__file__).parents[2] / "deploy"
NEEDED = ("etcd", "patroni", "haproxy", "psql")
PASSWORD = "only-for-this-test"


def missing() -> list[str]:
    """Return which of the programs are not installed; an older Patroni does not tell who follows."""
    absent = [each for each in NEEDED if shutil.which(each) is None]
    if "patroni" not in absent:
        said = subprocess.run(["patroni", "--version"], capture_output=True, text=True, check=False).stdout
        found = re.search(r"\d+", said)
        if found is None or int(found[0]) < 4:
            absent.append("patroni 4")
    return absent


class Node:
    """One node: Patroni, the PostgreSQL that it runs, and a proxy for all that comes and goes."""

    def __init__(self, name: str, folder: Path, etcd: int, user: str | None) -> None:
        self.name = name
        self.port, self.rest = free_port(), free_port()  # as the others reach it
        self._user = user
        self._log = folder / f"{name}.log"
        own_port, own_rest, to_etcd = free_port(), free_port(), free_port()
        ways = {self.port: own_port, self.rest: own_rest, to_etcd: etcd}
        self._network_config = folder / f"{name}.network.cfg"
        self._network_config.write_text(
            "defaults\n mode tcp\n timeout connect 2s\n timeout client 1h\n timeout server 1h\n"
            + "".join(
                f"listen way{here}\n bind 127.0.0.1:{here}\n server there 127.0.0.1:{there}\n"
                for here, there in ways.items()
            )
        )
        self._network: subprocess.Popen[bytes] | None = None
        self._environment = {
            **os.environ,
            "PATRONI_NAME": name,
            "PATRONI_RESTAPI_LISTEN": f"127.0.0.1:{own_rest}",
            "PATRONI_RESTAPI_CONNECT_ADDRESS": f"127.0.0.1:{self.rest}",
            "PATRONI_POSTGRESQL_LISTEN": f"127.0.0.1:{own_port}",
            "PATRONI_POSTGRESQL_CONNECT_ADDRESS": f"127.0.0.1:{self.port}",
            "PATRONI_POSTGRESQL_DATA_DIR": str(folder / name),
            "PATRONI_POSTGRESQL_BIN_DIR": str(programs()),
            "PATRONI_POSTGRESQL_PGPASS": str(folder / f"{name}.pgpass"),
            "PATRONI_ETCD3_HOSTS": f"127.0.0.1:{to_etcd}",
            "PATRONI_ETCD3_USE_PROXIES": "true",
            "PATRONI_SUPERUSER_PASSWORD": PASSWORD,
            "PATRONI_REPLICATION_PASSWORD": PASSWORD,
        }
        self._data = folder / name
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._network is None:
            self._network = subprocess.Popen(["haproxy", "-db", "-f", str(self._network_config)])
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["patroni", str(DEPLOY / "ha" / "patroni.yml")],
                env=self._environment,
                user=self._user,
                cwd=self._data.parent,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """End all its processes at once, as a machine without power does."""
        process, self._process = self._process, None
        if process is None:
            return
        for each in [process.pid, *self._of_postgres()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        process.wait(60)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop all its processes meanwhile, as a machine that hangs does."""
        assert self._process is not None
        processes = [self._process.pid, *self._of_postgres()]
        for each in processes:
            os.kill(each, signal.SIGSTOP)
        try:
            yield
        finally:
            for each in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGCONT)

    @contextlib.contextmanager
    def cut_off(self) -> Iterator[None]:
        """Let nothing through meanwhile, in either direction and without a word, as a dead switch does."""
        assert self._network is not None
        self._network.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._network.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        self.kill()
        if self._network is not None:
            self._network.kill()
            self._network.wait()

    def _of_postgres(self) -> list[int]:
        try:
            postmaster = int((self._data / "postmaster.pid").read_text().split()[0])
            children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        except (OSError, ValueError, IndexError):
            return []
        return [postmaster, *map(int, children)]


class HighlyAvailable:
    """Three nodes; `address` is that of the database of the ledger, through HAProxy."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ledger-patroni-"))
        user = Cluster(self.folder, "").user  # PostgreSQL refuses to be run by root
        self.folder.chmod(0o755)
        if user is not None:
            shutil.chown(self.folder, user)
        etcd, peer = free_port(), free_port()
        client, others = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"
        words = ["etcd", "--data-dir", str(self.folder / "etcd"), "--listen-client-urls", client]
        words += ["--advertise-client-urls", client, "--listen-peer-urls", others]
        words += ["--initial-advertise-peer-urls", others, "--initial-cluster", f"default={others}"]
        self._others = [self._run(words)]
        self.nodes = [Node(f"db{number}", self.folder, etcd, user) for number in (1, 2, 3)]
        for node in self.nodes:
            node.start()
        port = free_port()
        text = (DEPLOY / "ha" / "haproxy.cfg").read_text().replace("bind :5432", f"bind 127.0.0.1:{port}")
        for node in self.nodes:
            text = re.sub(
                rf"server {node.name} .*", f"server {node.name} 127.0.0.1:{node.port} port {node.rest}", text
            )
        (self.folder / "haproxy.cfg").write_text(text)
        self._others.append(self._run(["haproxy", "-db", "-f", str(self.folder / "haproxy.cfg")]))
        self.until_whole()
        environment = {**os.environ, "PGHOST": "127.0.0.1", "PGPORT": str(port), "PGPASSWORD": PASSWORD}
        environment["LEDGER_DATABASE_PASSWORD"] = PASSWORD
        script = ["sh", str(DEPLOY / "postgres-role.sh")]
        wait_until(
            lambda: subprocess.run(script, env=environment, capture_output=True, check=False).returncode == 0
        )
        self.address = f"postgresql://ledger:{PASSWORD}@127.0.0.1:{port}/ledger"

    def _run(self, words: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def members(self) -> dict[str, str]:
        """Return the role of each node that runs and follows, as any of them sees it."""
        for node in self.nodes:
            with contextlib.suppress(httpx.HTTPError, ValueError):
                found = httpx.get(f"http://127.0.0.1:{node.rest}/cluster", timeout=2, trust_env=False).json()
                return {
                    each["name"]: each["role"]
                    for each in found["members"]
                    if each["state"] == ("running" if each["role"] == "leader" else "streaming")
                }
        return {}

    def primary(self) -> Node | None:
        """Return the node that answers as the primary."""
        for node in self.nodes:
            with contextlib.suppress(httpx.HTTPError):
                url = f"http://127.0.0.1:{node.rest}/primary"
                if httpx.get(url, timeout=2, trust_env=False).status_code == 200:
                    return node
        return None

    def until_another(self, before: Node) -> None:
        """Wait until another node is the primary."""
        wait_until(lambda: self.primary() not in (None, before), every_s=0.1)

    def until_whole(self) -> None:
        """Wait until there are a primary and two standbys, one of them synchronous."""
        for _ in range(5):  # a copied node takes its time
            with contextlib.suppress(AssertionError):
                wait_until(
                    lambda: sorted(self.members().values()) == ["leader", "replica", "sync_standby"],
                    every_s=0.5,
                )
                return
        raise AssertionError(self.members())

    def switch_over(self, primary: Node) -> None:
        """Have another node be the primary, as an operator asks for it."""
        url = f"http://127.0.0.1:{primary.rest}/switchover"
        answer = httpx.post(url, json={"leader": primary.name}, timeout=120, trust_env=False)
        assert answer.status_code == 200, answer.text

    def remove(self) -> None:
        for each in self._others:
            each.kill()
            each.wait()
        for node in self.nodes:
            node.remove()
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
