"""The lines that `serve` prints when it is ready: its address, and the key that is shown only once."""

from __future__ import annotations

import json
import os
import select
import stat
import struct
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, TextIO

import click

from ledger_engine.cli import discard_output
from ledger_engine.core.logs import printable
from ledger_engine.core.settings import Location, ServeSettings
from ledger_engine.core.tenant import mode_name
from ledger_engine.store.files import write_private

if TYPE_CHECKING:
    from ledger_engine.server import Announce, Ready

READ_WITHIN_S = 1.0  # seconds to wait until a line is read from a pipe; normally this takes milliseconds


def announcer(settings: ServeSettings, database_named: bool = True) -> Announce:
    """Return the function that announces a ready server.

    `database_named` is whether the user has named the database. If not, the announcement names it.
    """
    return partial(
        announce, issuer=settings.issuer, database=settings.database, database_named=database_named
    )


def announce(
    ready: Ready, issuer: str | None, database: Location | None, database_named: bool = True
) -> bool:
    """Print that the server is ready; return False if there is a new key and nobody could read it."""
    was_shown = True
    oauth = "" if issuer is None else f" (OAuth issuer {issuer.rstrip('/')})"
    if ready.url is not None:
        _say(f"Listening on {ready.url}{oauth}")
    if database is not None and not database_named:
        _say(f"The ledger is {database}; --database names another.")
    if ready.key is not None:
        if database is not None and _is_journal(sys.stdout):
            was_shown = _write_key(ready.key, database)
        else:
            # A reader such as `head -1` ends after the first line, and the key must not get lost. So check
            # before and after the key is printed whether there is a reader.
            had_reader = _has_reader(sys.stdout)
            is_printed = _say(f"A {_mode(ready.key)} key, shown only once: {ready.key}")
            was_shown = had_reader and is_printed and _has_reader(sys.stdout)
            if ready.url is not None:
                here = on_this_machine(ready.url)
                _say(f"Try it in another terminal ({here}/docs describes every request):")
                _say(f"export LEDGER_API_KEY={ready.key}")
                _say(f'curl {here}/v1/accounts -H "Authorization: Bearer $LEDGER_API_KEY"; echo')
    if ready.lacks_key:
        _say("This ledger has no API key: `ledger-engine keys create --mode test` creates one.")
    if ready.metrics_url is not None:
        _say(f"Metrics on {ready.metrics_url}")
    if ready.notice is not None:
        _say(ready.notice)
    return was_shown


def on_this_machine(url: str) -> str:
    """Return the server's URL for programs on this machine: with 127.0.0.1 for 0.0.0.0, and ::1 for ::."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def _is_journal(output: TextIO | None) -> bool:
    """Return whether the output goes to systemd's journal. Other users may read the journal.

    systemd sets the variable JOURNAL_STREAM to the device and inode of the stream to its journal.
    """
    if output is None:
        return False
    try:
        stream = os.fstat(output.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{stream.st_dev}:{stream.st_ino}"


def _has_reader(output: TextIO | None) -> bool:
    """Return False if the output is closed or goes to the null device, or if a pipe's reader ended early.

    The reader ended early if it has not taken the whole printed text. So this function waits until the reader
    has taken the text, but at most READ_WITHIN_S. If the reader takes longer, the result is True.
    """
    try:
        if output is None or os.path.samestat(os.fstat(output.fileno()), os.stat(os.devnull)):
            return False
    except (OSError, ValueError):  # a stream in memory has no descriptor
        return output is not None and not output.closed
    if not stat.S_ISFIFO(os.fstat(output.fileno()).st_mode):
        return True
    import fcntl
    import termios

    pipe = select.poll()
    pipe.register(output.fileno(), 0)  # 0: report only errors, such as a closed reader
    deadline = time.monotonic() + READ_WITHIN_S
    while True:
        has_ended = bool(pipe.poll(0))
        (unread,) = struct.unpack("i", fcntl.ioctl(output.fileno(), termios.FIONREAD, bytes(4)))
        if not unread or has_ended or time.monotonic() > deadline:
            return not unread or not has_ended
        time.sleep(0.001)


def _write_key(key: str, database: Location) -> bool:
    """Write the key to a private file next to the database; return whether the file was written."""
    kind_of_key = f"{_mode(key)} key"
    another = f"`ledger-engine keys create --mode {_mode(key)}` creates one."
    if isinstance(database, str):
        _say(f"No {kind_of_key} is shown in a journal; {another}")
        return False
    file = database.with_name(f"{database.name}.key")
    try:
        write_private(file, f"{key}\n")
    except OSError as error:
        _say(f"A new {kind_of_key} cannot be written to {file}: {error.strerror}; {another}")
        return False
    _say(f"A {kind_of_key} is in {file}; read it, then delete the file.")
    return True


def _mode(key: str) -> str:
    return mode_name(key.startswith("sk_live_"))


def announce_embedded(ready: Ready) -> bool:
    """Print the address and the key as JSON, for the dashboard that started this server."""
    return _say(json.dumps({"url": ready.url, "key": ready.key}))


def report_embedded(share: float) -> None:
    """Print which fraction of a demo's data is loaded, for the dashboard that started this server."""
    _say(json.dumps({"loaded": round(share, 3)}))


def _say(line: str) -> bool:
    # The output may be closed. The server continues, because its clients still use the socket.
    try:
        click.echo(printable(line))
    except OSError:
        discard_output()
        return False
    return True
