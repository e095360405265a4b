"""Rate limits over several processes. What they count is tested in `test_rate_limits`, as for one process."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ledger_engine.limits import Verdict, shared_windows
from ledger_engine.limits.shared_windows import SharedWindows, make_memory

AT = 29_833_333 * 60.0
MANY = 1_000_000

_COUNTS = f"""
import asyncio, sys
from ledger_engine.limits.shared_windows import SharedWindows
async def main():
    windows = SharedWindows(int(sys.argv[1]), lambda: {AT})
    for _ in range(int(sys.argv[2])):
        await windows.count("key_1", {MANY}, {MANY})
asyncio.run(main())
"""
_HAS_COUNTED = f"""
import asyncio, sys, time
from ledger_engine.limits.shared_windows import SharedWindows
windows = SharedWindows(int(sys.argv[1]), lambda: {AT})  # its end would end its locks
asyncio.run(getattr(windows, sys.argv[2])("key_1", *[9] * int(sys.argv[3])))
print("has counted", flush=True)
time.sleep(600)
"""
_HOLDS = """
import fcntl, sys, time
fcntl.lockf(int(sys.argv[1]), fcntl.LOCK_EX)
print("holds", flush=True)
time.sleep(600)
"""


@pytest.fixture
def memory() -> Iterator[int]:
    file = make_memory()
    yield file
    os.close(file)


def started(program: str, memory: int, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(memory), *arguments],
        pass_fds=[memory],
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.process
async def test_no_request_is_lost_when_processes_count_at_the_same_time(memory: int) -> None:
    for process in [started(_COUNTS, memory, "5000") for _ in range(2)]:
        assert process.communicate()[0] == ""
        assert process.returncode == 0
    assert (await SharedWindows(memory, lambda: AT).peek("key_1", MANY)).remaining == MANY - 10_000


@pytest.mark.process
@pytest.mark.parametrize(("method", "limits"), [("count", "2"), ("peek", "1")])
def test_a_process_that_has_counted_holds_nothing(memory: int, method: str, limits: str) -> None:
    process = started(_HAS_COUNTED, memory, method, limits)
    assert process.stdout is not None
    assert process.stdout.readline() == "has counted\n"
    fcntl.lockf(memory, fcntl.LOCK_EX | fcntl.LOCK_NB)  # which fails when another process holds any part
    process.kill()
    process.communicate()


@pytest.mark.process
async def test_a_process_that_is_killed_while_it_counts_stops_nobody(memory: int) -> None:
    process = started(_HOLDS, memory)
    assert process.stdout is not None
    assert process.stdout.readline() == "holds\n"
    process.kill()
    process.communicate()
    assert (await SharedWindows(memory).count("key_1", 10, 10)).wait == 0


async def test_a_full_bucket_forgets_who_sent_the_fewest_requests(
    memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_windows, "BUCKETS", 1)
    windows = SharedWindows(memory, lambda: AT)
    await windows.count("key_1", 2, 9)
    await windows.count("key_1", 2, 9)
    for number in range(3 * shared_windows.CALLERS):
        assert (await windows.count(f"address/{number}", 60, 9)).remaining == 59
    assert (await windows.count("key_1", 2, 9)).wait > 0, "it is still known"


async def test_callers_of_one_bucket_each_have_their_own_counts(
    memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_windows, "BUCKETS", 1)
    at = AT
    windows = SharedWindows(memory, lambda: at)
    for number in range(5):
        for _ in range(number + 1):
            await windows.count(f"key_{number}", 9, 9)
    assert [(await windows.peek(f"key_{number}", 9)).remaining for number in range(5)] == [8, 7, 6, 5, 4]
    assert await windows.count("key_4", 5, 9) == Verdict(5, 0, int(AT) + 60, wait=60)
    assert await windows.count("key_0", 9, 1) == Verdict(9, 0, int(AT) + 60, wait=1)
    at += 1
    assert await windows.count("key_0", 9, 1) == Verdict(9, 7, int(AT) + 60)
    at += 59
    assert [(await windows.count(f"key_{number}", 9, 9)).remaining for number in range(5)] == [8] * 5
