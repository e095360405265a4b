"""Measure the processor time of processes, and limit it, as if each process had its own small machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_PERIOD_US = 10_000
_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def limited(name: str, share: float) -> Iterator[list[str] | None]:
    """Yield the words to put before a command, so that it gets this share of a processor.

    Yields None if this machine cannot limit the share: this needs Linux's control groups (version 1 or 2) and
    the right to make a group. The command gets its share before the other programs on the machine.
    """
    old = (_GROUPS / "cpu").is_dir()
    group = (_GROUPS / "cpu" if old else _GROUPS) / f"ledger-bench-{os.getpid()}-{name}"
    quota = round(share * _PERIOD_US)
    settings = (
        {"cpu.cfs_period_us": f"{_PERIOD_US}", "cpu.cfs_quota_us": f"{quota}", "cpu.shares": "262144"}
        if old
        else {"cpu.max": f"{quota} {_PERIOD_US}", "cpu.weight": "10000"}
    )
    try:
        group.mkdir()
    except OSError:
        yield None
        return
    try:
        for file, text in settings.items():
            (group / file).write_text(text)
    except OSError:
        group.rmdir()
        yield None
        return
    try:
        yield ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]
    finally:
        group.rmdir()


def used_s(process: int) -> float:
    """Return the processor time of a process, its threads, and its children that have ended."""
    return sum(_times(process)[:4]) / _TICKS


def used_with_children_s(process: int) -> float:
    """Return the processor time of a process and of all its children."""
    total = used_s(process)
    for each in Path("/proc").glob("[0-9]*"):
        try:
            times = _times(int(each.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
        if times[4] == process:
            total += sum(times[:4]) / _TICKS
    return total


def busy_s() -> tuple[float, ...]:
    """Return for how long each of the machine's processors was busy since it started."""
    lines = Path("/proc/stat").read_text().splitlines()
    fields = [line.split() for line in lines if line.startswith("cpu") and line[3] != " "]
    return tuple((sum(map(int, each[1:9])) - int(each[4]) - int(each[5])) / _TICKS for each in fields)


def _times(process: int) -> tuple[int, int, int, int, int]:
    """Return a process's user and system time, those of its ended children, and the id of its parent."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    own_user, own_system, user, system = map(int, fields[11:15])
    return own_user, own_system, user, system, int(fields[1])
