"""Runs code like an ordinary user, because permissions of files do not bind root."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_VERSION_3 = 0x20080522  # of Linux's capset(2)


def bound_by_permissions(call: Callable[[], T]) -> T:
    """Return what `call` returns, from a thread that has given up root's rights."""
    with ThreadPoolExecutor(1, initializer=_give_up_rights) as thread:
        return thread.submit(call).result()


def _give_up_rights() -> None:
    """Give up all capabilities of this thread and of the threads that it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, none = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    if libc.capset(header, none):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
