"""What a service of `Type=notify` tells systemd (sd_notify(3))."""

from __future__ import annotations

import contextlib
import os
import socket
import sys


def tell(state: str) -> None:
    """Tell systemd a state such as `READY=1`, if it has started this process and waits for that."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address or sys.platform == "win32":
        return
    if address.startswith("@"):  # an abstract socket, which has no file
        address = f"\0{address[1:]}"
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.sendto(state.encode(), address)
