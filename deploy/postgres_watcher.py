"""The program that ends what run_on_postgres.py has started, should that end without doing so (`kill -9`).

It reads what there is until the pipe is closed, which the system does however the other one ends. A line has
its values between tabs: `folder PATH PG_CTL USER`, with `-` for the same user, and `process NUMBER` of a
server, or `ended NUMBER`.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

STOP_S = 15

folders, processes = [], []
for line in sys.stdin:
    kind, *values = line.rstrip("\n").split("\t")
    if kind == "process":
        processes.append(int(values[0]))
    elif kind == "folder":
        folders.append(values)
    elif kind == "ended":
        processes.remove(int(values[0]))
for ending in (signal.SIGTERM, signal.SIGKILL):
    for each in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, ending)
    until = time.monotonic() + STOP_S
    while processes and time.monotonic() < until:
        time.sleep(0.05)
        for each in list(processes):
            try:
                os.kill(each, 0)
            except ProcessLookupError:
                processes.remove(each)
for folder, pg_ctl, user in folders:
    subprocess.run(
        [pg_ctl, "-D", folder, "-m", "immediate", "-w", "stop"],
        user=None if user == "-" else user,
        cwd="/",
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    shutil.rmtree(folder, ignore_errors=True)
