"""Stands for systemctl where systemd does not run: starts and stops the server as the unit says.

The first argument is the unit's file, whose folder has the process id. Of the unit it follows `ExecStart`,
`EnvironmentFile`, `Type=notify` and `StateDirectory`; of another unit than the ledger nothing.
"""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from configparser import ConfigParser
from pathlib import Path

unit_file, state, *words = sys.argv[1:]
PROCESS = Path(unit_file).with_suffix(".pid")


def start() -> None:
    unit = ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read(unit_file, encoding="utf-8")
    service = unit["Service"]
    for folder in service["StateDirectory"].split():
        Path(state, folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    said = f"ledger-{os.getpid()}"  # an abstract socket, as a path has at most 107 characters
    environment = {"PATH": os.defpath, "NOTIFY_SOCKET": f"@{said}"}
    lines = Path(service["EnvironmentFile"].removeprefix("-")).read_text().splitlines()
    environment |= dict(line.split("=", 1) for line in lines if line)
    journal = Path(unit_file).with_suffix(".journal").open("ab")
    known = os.fstat(journal.fileno())
    environment["JOURNAL_STREAM"] = (
        f"{known.st_dev}:{known.st_ino}"  # by which a program finds that it is one
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{said}")
        listener.settimeout(60)
        server = subprocess.Popen(
            shlex.split(service["ExecStart"]),
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=journal,
            stderr=journal,
            start_new_session=True,
        )
        PROCESS.write_text(str(server.pid))
        while b"READY=1" not in listener.recv(4096):
            pass


def stop() -> None:
    server = int(PROCESS.read_text())
    os.kill(server, signal.SIGTERM)
    PROCESS.unlink()
    while Path(f"/proc/{server}/exe").exists():  # a process that has ended has none
        time.sleep(0.05)


if words[-1] != "ledger":
    sys.exit()
if words[0] in ("enable", "start"):
    start()
elif words[0] == "stop":
    stop()
elif words[0] == "status":
    print("active (running)", (Path("/proc") / PROCESS.read_text() / "cmdline").read_text())
