"""Runs the sender in a process of its own, so that the load of the server delays no delivery.

In the server's event loop each delivery would wait several times for its turn among the requests, and would
slow the requests down. With this process the server writes at most one message and reads at most one line for
each delivery. The process receives finished requests to send: it knows no secret and no database, and stores
nothing. The process ends when its owner, the server, ends.

The owner writes pickled tuples, each preceded by its length: `("jobs", …)` with the fields of each
AttemptJob, `("drop", endpoint)`, `("until", moment)`, `("stop", seconds)`. The process answers with JSON
arrays, one per line, with the fields of each SendResult. The owner never unpickles the output of the process,
because the process reads the answers of receivers that are not trusted.

The process is started from the program's files on the disk. If the program was updated while the owner ran,
these files belong to another version. So the owner passes the form of its messages (`FORM`), and the process
ends if it expects another form.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Protocol

from ledger_engine.core.processes import OTHER_PROGRAM, Messages, UnreadableMessage, framed
from ledger_engine.core.records import dumps
from ledger_engine.events.webhooks.sending import AttemptJob, Sender, SendResult

# Seconds until the process is restarted: after its first unexpected end, after the second, and so on.
RESTART_AFTER_S = (1, 2, 5, 10, 30)
HEALTHY_AFTER_S = 60  # if the process ran this long, its next unexpected end counts as the first
STOP_TIMEOUT_S = 2  # seconds for the process to end after its last result
NICENESS = 5  # a lower priority than the server's, so that on a busy machine requests come before webhooks
# Results that arrive within this many seconds are written together, so that the owner wakes less often.
_GATHERED_S = 0.02
_CHUNK = 1 << 18
_LINE_MAX = 1 << 27  # bytes; far more than the results of all jobs that may be in progress take
# Raise the number in this text if the messages change although their fields stay the same.
FORM = f"1 {' '.join(AttemptJob._fields)} -> {' '.join(SendResult._fields)}"
# The process is in a process group of its own, so that Ctrl-C reaches only the owner, which lets the process
# finish. The process is not in a session of its own: Linux may divide the processors' time by session, and in
# this case the niceness would have an effect only within the session.
_PROGRAM = (
    f"import os; os.setpgrp(); from ledger_engine.events.webhooks.sender_process import main; main({FORM!r})"
)
# The process gets the environment variables whose names begin with these texts. They configure loaders (of
# libraries, of Python and of the one-file binary), certificates, name servers, languages and time zones.
_VARIABLES = (
    *("PATH", "LD_", "DYLD_", "PYTHON", "_PYI_", "TMPDIR", "SSL_CERT_", "OPENSSL_CONF"),
    *("RES_OPTIONS", "LOCALDOMAIN", "LANG", "LC_", "TZ"),
)

log = logging.getLogger("ledger_engine.events.webhooks.deliver")


class AnySender(Protocol):
    """A sender, in a process of its own or in the server's process."""

    @property
    def is_ready(self) -> bool: ...
    def submit(self, job: AttemptJob) -> None: ...
    def drop(self, endpoint: str) -> None: ...
    def send_until(self, moment: float) -> None: ...
    async def stop(self, grace_s: float) -> None: ...


Report = Callable[[SendResult], None]
MakeSender = Callable[[Report], AnySender]


class SenderProcess:
    """A Sender in another process. Submit jobs only while `is_ready`.

    `report` is called once for each job, with its result.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._open_numbers: set[int] = set()
        self._unwritten: list[AttemptJob] = []
        self._until = math.inf
        self._stopping = False

    @property
    def is_ready(self) -> bool:
        """Return whether jobs can be submitted; the first call starts the process."""
        if self._keeper is None and not self._stopping:
            self._keeper = asyncio.create_task(self._keep_running())
        return self._process is not None

    def submit(self, job: AttemptJob) -> None:
        """Submit a job.

        An endpoint's first attempts are started in the order in which they were submitted.
        """
        if self._process is None:  # the process has ended since `is_ready`
            self._report(SendResult(job.number, made=False))
            return
        self._open_numbers.add(job.number)
        if not self._unwritten:  # one message for all jobs that are submitted before `_write_jobs` runs
            asyncio.get_running_loop().call_soon(self._write_jobs)
        self._unwritten.append(job)

    def drop(self, endpoint: str) -> None:
        """For each job of the endpoint that has not been started, report that no attempt was made."""
        self._write("drop", endpoint)

    def send_until(self, moment: float) -> None:
        """Start no attempt at or after this moment of the monotonic clock."""
        self._until = moment
        self._write("until", moment)

    async def stop(self, grace_s: float) -> None:
        """Start nothing more, wait up to `grace_s` seconds for attempts in progress, and end the process."""
        self._stopping = True
        if self._keeper is None:
            return
        if self._process is None:
            self._keeper.cancel()
        self._write("stop", grace_s)
        await asyncio.wait([self._keeper], timeout=grace_s + STOP_TIMEOUT_S)
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        await asyncio.gather(self._keeper, return_exceptions=True)

    def _write_jobs(self) -> None:
        jobs, self._unwritten = self._unwritten, []
        if jobs:
            # Send plain tuples, because pickling a NamedTuple calls Python code.
            self._write("jobs", *map(tuple, jobs))

    def _write(self, *message: object) -> None:
        self._write_jobs()  # write jobs first, to keep the order of the messages
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(framed(message))

    async def _keep_running(self) -> None:
        failures = 0
        while not self._stopping:
            began = time.monotonic()
            status = None
            try:
                status = await self._run()
            except OSError as error:
                log.error("the webhook sender cannot be started: %s", error)
            except Exception:  # any error, because without this task nothing would be sent
                log.exception("the results of the webhook sender cannot be used")
            if self._stopping:
                return
            if time.monotonic() - began >= HEALTHY_AFTER_S:
                failures = 0
            pause = RESTART_AFTER_S[min(failures, len(RESTART_AFTER_S) - 1)]
            failures += 1
            if status == OTHER_PROGRAM:
                log.error(
                    "The program was replaced on the disk while this server runs, and its webhook sender "
                    "does not fit this server: webhooks wait until the server is started again; "
                    "trying again in %s s",
                    pause,
                )
            else:
                log.error("the webhook sender has ended; restarting it in %s s", pause)
            await asyncio.sleep(pause)

    async def _run(self) -> int:
        """Start the process, report its results until it ends, and return its exit status."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-c", _PROGRAM),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_MAX,
            env=_environment(),
        )
        assert process.stdout is not None
        self._process = process
        if self._until != math.inf:
            self._write("until", self._until)
        try:
            async for line in process.stdout:
                if not line.endswith(b"\n"):
                    break  # a partial line: somebody killed the process while it wrote
                for fields in json.loads(line):
                    result = SendResult(*fields)
                    self._open_numbers.discard(result.number)
                    self._report(result)
        finally:
            self._process = None
            self._unwritten.clear()
            for number in self._open_numbers:
                self._report(SendResult(number, made=False))
            self._open_numbers.clear()
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            status = await process.wait()
        return status


def main(form: str) -> None:
    """Run the process: send the jobs from stdin, until the owner stops the process or the owner itself ends.

    `form` is the owner's FORM. If it differs from FORM in this process, the exit status is OTHER_PROGRAM.
    """
    import uvloop

    if form != FORM:
        sys.exit(OTHER_PROGRAM)
    os.nice(NICENESS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_serve())
        except UnreadableMessage as error:
            sys.exit(f"The webhook sender cannot read what the server wrote: {error}.")
    # Exit at once, without waiting for lookup threads whose name server does not answer.
    os._exit(0)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_CHUNK)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    results: list[SendResult] = []

    def flush() -> None:
        if not transport.is_closing():  # the transport is closing if somebody killed the owner
            writer.write(dumps(results).encode() + b"\n")
        results.clear()

    def report(result: SendResult) -> None:
        if not results:
            loop.call_later(_GATHERED_S, flush)
        results.append(result)

    sender = Sender(report)
    messages = Messages()
    while data := await reader.read(_CHUNK):
        for verb, *fields in messages.feed(data):
            if verb == "jobs":
                for job in fields:
                    sender.submit(AttemptJob(*job))
            elif verb == "drop":
                sender.drop(fields[0])
            elif verb == "until":
                sender.send_until(fields[0])
            else:
                await sender.stop(fields[0])
                flush()
                await writer.drain()
                return


def _environment() -> dict[str, str]:
    """Return the environment variables that the sender needs, with our sys.path in PYTHONPATH.

    The one-file archive sets sys.path in its own start-up code, which the sender's process does not run. The
    sender gets no other variables, because any of them may contain a secret.
    """
    variables = {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)}
    return variables | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
