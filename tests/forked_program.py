"""A program for a shell, forked from the process that has imported everything (`forking`).

The arguments: the socket on which to ask for it, its text or nothing for `ledger-engine`, and its own.
"""

import os
import signal
import socket
import sys
from contextlib import suppress
from types import FrameType

from forking import Process


def hand_on(number: int, _frame: FrameType | None) -> None:
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)


HANDED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_, asking, program, *words = sys.argv
# A signal that comes before it can be handed on waits: the program would outlive the one that it stands for.
signal.pthread_sigmask(signal.SIG_BLOCK, HANDED_ON)
process = Process(
    words, stdin=0, stdout=1, stderr=2, program=program or None, forker=socket.socket(fileno=int(asking))
)
for each in HANDED_ON:
    signal.signal(each, hand_on)
signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDED_ON)
status = process.wait()
sys.exit(status if status >= 0 else 128 - status)
