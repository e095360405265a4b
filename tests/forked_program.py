"""A program for a shell, forked from the process that has imported everything (`forking`).

Its arguments: the socket on which to ask for the program, the program's text (empty for `ledger-engine`), and
the program's own arguments.
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
# A signal that arrives too early to be passed on must wait; if it ended this process, the forked program
# would outlive it.
signal.pthread_sigmask(signal.SIG_BLOCK, HANDED_ON)
process = Process(
    words, stdin=0, stdout=1, stderr=2, program=program or None, forker=socket.socket(fileno=int(asking))
)
for each in HANDED_ON:
    signal.signal(each, hand_on)
signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDED_ON)
status = process.wait()
sys.exit(status if status >= 0 else 128 - status)
