"""Rate limits that several processes count together, in memory that they share.

The memory is a table of buckets, and the hash of a caller's name says in which bucket the caller's counts
are. Each bucket has a lock of the system's, on one byte of the file behind the memory: the system releases it
when the process that holds it ends, however it ends.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import tempfile
import time
from functools import lru_cache
from hashlib import blake2b

from ledger_engine.limits import Verdict, WallClock, end_of_minute, verdict_of

if sys.platform != "win32":
    import fcntl

BUCKETS = 16_384
CALLERS = 16  # in one bucket; of more within a minute, those with the fewest requests are forgotten
_NAME = 16  # bytes of the hash of a caller's name
_COUNTS = struct.Struct("<IIII")  # the minute, the requests in it, the second, the requests in it
_NAMES = CALLERS * _NAME
_BUCKET = _NAMES + CALLERS * _COUNTS.size
_KEY = 16  # bytes before the buckets: the key of the hash, so that nobody can choose a bucket
_START = mmap.PAGESIZE


def make_memory() -> int:
    """Return the descriptor of empty memory for `SharedWindows`, which other processes may inherit.

    Only the buckets that are used take memory, at most 8 MB.
    """
    if sys.platform == "linux":
        file = os.memfd_create("ledger-rate-limits")
    else:
        file, path = tempfile.mkstemp(prefix="ledger-rate-limits-")
        os.unlink(path)
    os.ftruncate(file, _START + BUCKETS * _BUCKET)
    os.pwrite(file, os.urandom(_KEY), 0)
    return file


class SharedWindows:
    """Counts the requests of all processes that have the same memory, as `Windows` does for one process."""

    def __init__(self, file: int, wall_clock: WallClock = time.time) -> None:
        """Use the memory of `file`, which stays open."""
        self._wall_clock = wall_clock
        self._file = file
        self._memory = mmap.mmap(file, _START + BUCKETS * _BUCKET)
        key = self._memory[:_KEY]
        self._name_of = lru_cache(10_000)(
            lambda who: blake2b(who.encode(), digest_size=_NAME, key=key).digest()
        )

    async def count(self, who: str, per_minute: int, per_second: int) -> Verdict:
        """Count one request of `who`; one refused because of its burst does not count for the minute."""
        return self._ask(who, per_minute, per_second)

    async def peek(self, who: str, per_minute: int) -> Verdict:
        """Return the verdict without counting, for requests that are never refused."""
        return self._ask(who, per_minute, None)

    def _ask(self, who: str, per_minute: int, per_second: int | None) -> Verdict:
        """Count one request and return its verdict; without `per_second` only look."""
        name = self._name_of(who)
        bucket = int.from_bytes(name[:4], "little") % BUCKETS
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, bucket)
        try:
            # The time is read while nobody else counts this caller, so no count is older than the one before.
            now = int(self._wall_clock())
            offset, in_minute, in_second = self._find(name, bucket, now)
            if per_second is None:
                return Verdict(per_minute, max(0, per_minute - in_minute), end_of_minute(now))
            verdict = verdict_of(now, in_minute, in_second, per_minute, per_second)
            if not verdict.wait:
                second = now & 0xFFFFFFFF
                _COUNTS.pack_into(self._memory, offset, now // 60, in_minute + 1, second, in_second + 1)
            return verdict
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, bucket)

    def _find(self, name: bytes, bucket: int, now: int) -> tuple[int, int, int]:
        """Return where the caller's counts are, and what they are in this minute and in this second."""
        start = _START + bucket * _BUCKET
        found = self._memory.find(name, start, start + _NAMES)
        if found < 0:
            number = self._free(start, now // 60)
            offset = start + _NAMES + number * _COUNTS.size
            _COUNTS.pack_into(self._memory, offset, 0, 0, 0, 0)
            self._memory[start + number * _NAME : start + (number + 1) * _NAME] = name
            return offset, 0, 0
        offset = start + _NAMES + (found - start) // _NAME * _COUNTS.size
        minute, in_minute, second, in_second = _COUNTS.unpack_from(self._memory, offset)
        if minute != now // 60:
            return offset, 0, 0
        return offset, in_minute, in_second if second == now & 0xFFFFFFFF else 0

    def _free(self, start: int, minute: int) -> int:
        """Return the number of the entry to use for another caller: an unused one, else the least used."""
        uses = [
            in_minute + 1 if counted_in == minute else 0
            for counted_in, in_minute, _, _ in _COUNTS.iter_unpack(
                self._memory[start + _NAMES : start + _BUCKET]
            )
        ]
        return uses.index(min(uses))
