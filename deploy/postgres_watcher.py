"""Ends the processes of run_on_postgres.py and removes its folders, if it was killed (`kill -9`).

The watcher reads lines from stdin until the pipe is closed. The system closes the pipe when
run_on_postgres.py ends, in whatever way. A line is `folder PATH PG_CTL USER` (a cluster's folder; USER is `-`
for the watcher's own user), `process NUMBER` (a server that started) or `ended NUMBER` (a server that ended).
Tabs separate the values of a line.
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
