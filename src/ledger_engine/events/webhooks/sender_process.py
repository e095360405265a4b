"""The sender in a process of its own, so that it keeps its pace and its order however busy the ledger is.

In the ledger's own event loop each delivery would wait for a turn among the requests, several times,
and take its time from them. Over here it costs the ledger a line out and a line back. The process is
handed finished requests: it knows no secret and no database, keeps nothing, and ends with its owner.

The lines are JSON arrays. To the sender: `["job", …]` with the fields of a Job, `["drop", endpoint]`,
`["stop", seconds]`. From it: the fields of an Answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from ledger_engine.events.webhooks.sealing import VARIABLE
from ledger_engine.events.webhooks.sending import Job, Sender, SendResult

RESTART_AFTER_S = (1, 2, 5, 10, 30)  # after it ended unasked, once, twice, …
HEALTHY_AFTER_S = 60  # so long without an end, and the next end counts as the first
STOP_TIMEOUT_S = 2  # after its last answer
NICENESS = 5  # where the machine is busy, requests go before webhooks
_GATHERED_S = 0.005  # answers are written together, so that their reader is not woken for each
_CHUNK = 1 << 18
_PROGRAM = "from ledger_engine.events.webhooks.sender_process import main; main()"

log = logging.getLogger("ledger_engine.events.webhooks.deliver")


class SenderProcess:
    """A Sender elsewhere. Jobs are taken while `is_ready`; each is answered through `report`, once."""

    def __init__(self, report: Callable[[SendResult], None]) -> None:
        self._report = report
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._unanswered: set[int] = set()
        self._stopping = False

    @property
    def is_ready(self) -> bool:
        """Whether jobs can be submitted now; asking for the first time starts the process."""
        if self._keeper is None and not self._stopping:
            self._keeper = asyncio.create_task(self._keep_running())
        return self._process is not None

    def submit(self, job: Job) -> None:
        """Hand over a job; an endpoint's first attempts are begun in the order they are given."""
        if self._process is None:  # it has ended since somebody asked whether it is ready
            self._report(SendResult(job.number, made=False))
            return
        self._unanswered.add(job.number)
        self._write(["job", *job])

    def drop(self, endpoint: str) -> None:
        """Have the endpoint's jobs given back that are not begun."""
        self._write(["drop", endpoint])

    async def stop(self, grace_s: float) -> None:
        """Begin nothing more, give what is under way so long to end, and end the process."""
        self._stopping = True
        if self._keeper is None:
            return
        if self._process is None:
            self._keeper.cancel()
        self._write(["stop", grace_s])
        await asyncio.wait([self._keeper], timeout=grace_s + STOP_TIMEOUT_S)
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        await asyncio.gather(self._keeper, return_exceptions=True)

    def _write(self, line: list[Any]) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(_encode(line))

    async def _keep_running(self) -> None:
        ended = 0
        while not self._stopping:
            began = time.monotonic()
            try:
                await self._run()
            except OSError as error:
                log.error("the webhook sender cannot be started: %s", error)
            except Exception:  # whatever it is: without this task nothing is sent any more
                log.exception("the webhook sender wrote something that cannot be read")
            if self._stopping:
                return
            if time.monotonic() - began >= HEALTHY_AFTER_S:
                ended = 0
            pause = RESTART_AFTER_S[min(ended, len(RESTART_AFTER_S) - 1)]
            ended += 1
            log.error("the webhook sender has ended; it is started again in %s s", pause)
            await asyncio.sleep(pause)

    async def _run(self) -> None:
        """Start the process and pass its answers on until it ends."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-c", _PROGRAM),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for its owner, who lets it finish
        )
        assert process.stdout is not None
        self._process = process
        try:
            lines = Lines()
            while data := await process.stdout.read(_CHUNK):
                for line in lines.feed(data):
                    answer = SendResult(*line)
                    self._unanswered.discard(answer.number)
                    self._report(answer)
        finally:
            self._process = None
            for number in self._unanswered:
                self._report(SendResult(number, made=False))
            self._unanswered.clear()
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class Lines:
    """Whole lines out of what a pipe gives."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Any]:
        """The values of the lines that end in `data`."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in whole]


def main() -> None:
    """The process: send what stdin says until it ends, which is when its owner does."""
    import uvloop

    os.nice(NICENESS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())
    # Threads that wait for a name server are not waited for.
    os._exit(0)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_CHUNK)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    gathered: list[bytes] = []

    def flush() -> None:
        if not transport.is_closing():  # else nobody reads any more: the owner was killed
            writer.write(b"".join(gathered))
        gathered.clear()

    def report(answer: SendResult) -> None:
        if not gathered:
            loop.call_later(_GATHERED_S, flush)
        gathered.append(_encode(list(answer)))

    sender = Sender(report)
    lines = Lines()
    while data := await reader.read(_CHUNK):
        for verb, *fields in lines.feed(data):
            if verb == "job":
                sender.submit(Job(*fields))
            elif verb == "drop":
                sender.drop(fields[0])
            else:
                await sender.stop(fields[0])
                flush()
                await writer.drain()
                return


def _encode(line: list[Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _environment() -> dict[str, str]:
    """Ours without secrets, and with our own way to the modules, which an archive sets up at its start."""
    kept = {name: value for name, value in os.environ.items() if name not in (VARIABLE, "LEDGER_API_KEY")}
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
