"""Stands for systemctl where systemd does not run: starts and stops services as their units say.

The first argument is the unit of the ledger; the other units and the process ids are next to it. The second
is the folder for the services' state. This program follows `ExecStart`, `Environment`, `EnvironmentFile`,
`Type=notify` and `StateDirectory` of a unit and its drop-ins, also of those in `run`. It restarts a service
instead of reloading it, and ignores a service without a unit.
"""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from configparser import ConfigParser, SectionProxy
from pathlib import Path

unit_file, state, verb, *words = sys.argv[1:]
UNITS = Path(unit_file).parent
RUNTIME = UNITS.parents[2] / "run" / "systemd" / "system"


class Service:
    """One service, such as `ledger`, or `ledger@8701` of the template `ledger@.service`."""

    def __init__(self, name: str) -> None:
        template, at, self._instance = name.partition("@")
        self.unit = UNITS / f"{template}{at}.service"
        self._process = UNITS / f"{name}.pid"
        self._journal = UNITS / f"{name}.journal"

    def start(self) -> None:
        settings = self._settings()
        folders = [Path(state, folder) for folder in settings.get("StateDirectory", "").split()]
        for folder in folders:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (
            self._journal.open("ab") as journal,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener,
        ):
            # An abstract socket, because a path has at most 107 characters.
            name = f"ledger-{os.getpid()}-{self._process.stem}"
            listener.bind(f"\0{name}")
            listener.settimeout(60)
            known = os.fstat(journal.fileno())
            server = subprocess.Popen(
                shlex.split(settings["ExecStart"]),
                cwd="/",
                env={
                    "PATH": os.defpath,
                    "NOTIFY_SOCKET": f"@{name}",
                    "STATE_DIRECTORY": ":".join(map(str, folders)),
                    # By this a program finds that its output is a journal.
                    "JOURNAL_STREAM": f"{known.st_dev}:{known.st_ino}",
                    **self._environment(settings),
                },
                stdin=subprocess.DEVNULL,
                stdout=journal,
                stderr=journal,
                start_new_session=True,
            )
            self._process.write_text(str(server.pid))
            while settings.get("Type") == "notify" and b"READY=1" not in listener.recv(4096):
                pass

    def stop(self) -> None:
        if not self._process.exists():
            return
        server = int(self._process.read_text())
        os.kill(server, signal.SIGTERM)
        self._process.unlink()
        while Path(f"/proc/{server}/exe").exists():  # a process that has ended has none
            time.sleep(0.05)

    def show(self) -> None:
        print("active (running)", (Path("/proc") / self._process.read_text() / "cmdline").read_text())

    def _settings(self) -> SectionProxy:
        unit = ConfigParser(interpolation=None, strict=False)
        unit.optionxform = str
        drop_ins = [
            file
            for units in (RUNTIME, UNITS)
            for file in sorted((units / f"{self.unit.name}.d").glob("*.conf"))
        ]
        text = "\n".join(file.read_text(encoding="utf-8") for file in (self.unit, *drop_ins))
        unit.read_string(text.replace("%i", self._instance))
        return unit["Service"]

    def _environment(self, settings: SectionProxy) -> dict[str, str]:
        file = settings.get("EnvironmentFile", "").removeprefix("-")
        lines = Path(file).read_text().splitlines() if file else []
        lines += shlex.split(settings.get("Environment", ""))
        return dict(line.split("=", 1) for line in lines if line)


for service in map(Service, words):
    if service.unit.exists():
        if verb in ("stop", "disable", "restart", "reload"):
            service.stop()
        if verb in ("enable", "start", "restart", "reload"):
            service.start()
        if verb == "status":
            service.show()
