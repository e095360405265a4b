"""The sender in a process of its own: it comes when it is wanted, comes again, and goes with its owner."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ledger_engine.core.processes import framed
from ledger_engine.core.records import dumps
from ledger_engine.events.webhooks import sender_process
from ledger_engine.events.webhooks.sender_process import SenderProcess
from ledger_engine.events.webhooks.sending import AttemptJob, SendResult
from tests.ledger_engine.waiting import until, wait_until
from tests.receivers import Receiver, hang, receiving

pytestmark = pytest.mark.process


def job(number: int, receiver: Receiver, body: str = "{}") -> AttemptJob:
    headers = [("Host", "x"), ("Content-Length", str(len(body.encode()))), ("Ledger-Event-Id", str(number))]
    return AttemptJob(
        number, "whe_1", True, False, "127.0.0.1", receiver.port, False, "/hook", dumps(headers), body
    )


class Owner:
    """Has a sender process and what it answered."""

    def __init__(self) -> None:
        self.answers: list[SendResult] = []
        self._news = asyncio.Event()
        self.sender = SenderProcess(self._take)

    async def ready(self) -> None:
        async with asyncio.timeout(60):
            while not self.sender.is_ready:
                self._news.clear()
                with_patience = asyncio.wait_for(self._news.wait(), 0.02)
                await asyncio.gather(with_patience, return_exceptions=True)

    async def answered(self, count: int) -> list[SendResult]:
        async with asyncio.timeout(60):
            while len(self.answers) < count:
                self._news.clear()
                await self._news.wait()
        return self.answers

    def _take(self, answer: SendResult) -> None:
        self.answers.append(answer)
        self._news.set()


@asynccontextmanager
async def owning() -> AsyncIterator[Owner]:
    owner = Owner()
    try:
        await owner.ready()
        yield owner
    finally:
        await owner.sender.stop(0)


def child() -> int:
    """Return the id of our only child process that is a sender."""
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=True
    )
    senders = [int(pid) for pid in found.stdout.split() if _is_sender(int(pid))]
    assert len(senders) == 1
    return senders[0]


def _is_sender(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"sender_process" in file.read()
    except FileNotFoundError:
        return False


async def test_jobs_go_out_in_their_order_with_their_bytes() -> None:
    body = '{"name":"Kaffeerösterei \\n"}'
    async with receiving() as receiver, owning() as owner:
        for number in range(200):
            owner.sender.submit(job(number, receiver, body))
        answers = await owner.answered(200)
        assert receiver.events == [str(number) for number in range(200)]
        assert {request.body for request in receiver.received} == {body.encode()}
    assert [(answer.number, answer.status, answer.error) for answer in answers] == [
        (number, 200, None) for number in range(200)
    ]


async def test_jobs_submitted_in_one_turn_of_the_loop_are_one_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[str] = []

    def noted(message: tuple[Any, ...]) -> bytes:
        written.append(message[0])
        return framed(message)

    async with receiving(hang) as receiver, owning() as owner:
        monkeypatch.setattr(sender_process, "framed", noted)
        for number in range(5):
            owner.sender.submit(job(number, receiver))
        owner.sender.drop("whe_1")
        answers = await owner.answered(4)
        assert written == ["jobs", "drop"]
    assert not any(answer.made for answer in answers)


async def test_it_is_started_when_it_is_asked_for_and_not_before() -> None:
    owner = Owner()
    assert not owner.sender.is_ready
    await owner.ready()
    await owner.sender.stop(0)
    assert not owner.sender.is_ready
    never_asked, just_asked = SenderProcess(owner.answers.append), SenderProcess(owner.answers.append)
    assert not just_asked.is_ready
    for sender in (never_asked, just_asked):
        await sender.stop(0)
        assert not sender.is_ready


async def test_it_has_a_process_group_of_its_own_in_our_session() -> None:
    """For Ctrl-C, and so that it comes after us for the processors."""
    async with owning():
        pid = child()
        await until(lambda: os.getpgid(pid) == pid)
        assert os.getsid(pid) == os.getsid(0)
        wanted = min(19, os.getpriority(os.PRIO_PROCESS, 0) + sender_process.NICENESS)
        await until(lambda: os.getpriority(os.PRIO_PROCESS, pid) == wanted)


async def test_a_job_for_a_process_that_has_ended_comes_back() -> None:
    owner = Owner()
    async with receiving() as receiver:
        owner.sender.submit(job(1, receiver))
        assert await owner.answered(1) == [SendResult(1, made=False)]
        assert receiver.received == []


async def test_until_when_it_may_send_counts_also_when_it_was_said_before_there_was_a_process() -> None:
    owner = Owner()
    owner.sender.send_until(0)
    async with receiving() as receiver:
        await owner.ready()
        owner.sender.submit(job(1, receiver))
        assert await owner.answered(1) == [SendResult(1, made=False)]
        await owner.sender.stop(0)
        assert receiver.received == []


async def test_a_dropped_job_comes_back() -> None:
    async with receiving(hang) as receiver, owning() as owner:
        for number in range(3):
            owner.sender.submit(job(number, receiver))
        await receiver.until_received(1)
        owner.sender.drop("whe_1")
        answers = await owner.answered(2)
    assert {answer.number for answer in answers} >= {1, 2}
    assert not any(answer.made for answer in answers)


async def test_stopping_gives_every_job_back() -> None:
    async with receiving(hang) as receiver:
        owner = Owner()
        await owner.ready()
        for number in range(5):
            owner.sender.submit(job(number, receiver))
        await receiver.until_received(1)
        await owner.sender.stop(0.05)
    assert sorted(answer.number for answer in owner.answers) == [0, 1, 2, 3, 4]
    assert not any(answer.made for answer in owner.answers)


async def test_a_process_that_dies_gives_its_jobs_back_and_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sender_process, "RESTART_AFTER_S", (0.01,))
    async with receiving(hang) as receiver, owning() as owner:
        owner.sender.submit(job(1, receiver))
        await receiver.until_received(1)
        os.kill(child(), signal.SIGKILL)
        assert await owner.answered(1) == [SendResult(1, made=False)]
        await owner.ready()
        owner.sender.submit(job(2, receiver))
        await receiver.until_received(2)


async def test_a_process_that_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sender_process, "RESTART_AFTER_S", (0.01,))
    good = sys.executable
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    owner = Owner()
    assert not owner.sender.is_ready
    await until(lambda: caplog.text.count("cannot be started") > 1)
    assert not owner.sender.is_ready
    monkeypatch.setattr(sys, "executable", good)
    await owner.ready()
    await owner.sender.stop(0)


async def test_a_sender_of_another_version_is_refused_in_the_log_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sender_process, "RESTART_AFTER_S", (0.01,))
    program = sender_process._PROGRAM
    monkeypatch.setattr(sender_process, "_PROGRAM", program.replace(sender_process.FORM, "0 fields of old"))
    owner = Owner()
    async with receiving() as receiver:
        await owner.ready()
        owner.sender.submit(job(1, receiver))
        assert await owner.answered(1) == [SendResult(1, made=False)]
        await until(lambda: "webhooks wait until the server is started again" in caplog.text)
        monkeypatch.setattr(sender_process, "_PROGRAM", program)  # the version before is back
        while not owner.answers[-1].made:
            await owner.ready()
            owner.sender.submit(job(2, receiver))
            await owner.answered(len(owner.answers) + 1)
        await owner.sender.stop(0)
    assert receiver.events == ["2"]


def test_it_ends_when_its_owner_is_killed() -> None:
    program = """
import asyncio, sys
from ledger_engine.events.webhooks.sender_process import SenderProcess
async def main():
    sender = SenderProcess(print)
    while not sender.is_ready:
        await asyncio.sleep(0.01)
    print(sender._process.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    sender = int(owner.stdout.readline())
    assert _is_sender(sender)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    wait_until(lambda: not _is_sender(sender))


def test_it_gets_no_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = (
        "LEDGER_SECRET_KEY",
        "LEDGER_API_KEY",
        "LEDGER_DATABASE",
        "LEDGER_LIMITS",
        "PGPASSWORD",
        "AWS_TOKEN",
    )
    for name in secrets:
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("SSL_CERT_FILE", "own.pem")
    given = sender_process._environment()
    assert "hunter2" not in given.values()
    assert (given["LANG"], given["SSL_CERT_FILE"]) == ("C.UTF-8", "own.pem")


async def test_after_a_healthy_while_an_end_counts_as_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_process, "RESTART_AFTER_S", (0.01, 1000))
    monkeypatch.setattr(sender_process, "HEALTHY_AFTER_S", 0)
    async with owning() as owner:
        for _ in range(2):
            os.kill(child(), signal.SIGKILL)
            await until(lambda: not owner.sender.is_ready)
            await owner.ready()


async def test_when_its_owner_is_killed_it_ends_without_a_word() -> None:
    async with receiving() as receiver:
        reading, writing = os.pipe()
        pipe = asyncio.subprocess.PIPE
        sender = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", sender_process._PROGRAM),
            stdin=pipe,
            stdout=writing,
            stderr=pipe,
            env=sender_process._environment(),
        )
        assert sender.stdin is not None
        assert sender.stderr is not None
        # Its owner's ends of the pipes go, and it sees that of the one it writes to first.
        os.close(writing)
        os.close(reading)
        for number in range(1, 101):
            sender.stdin.write(framed(("jobs", job(number, receiver))))
            await receiver.until_received(number)
        sender.stdin.close()
        assert (await sender.stderr.read(), await sender.wait()) == (b"", 0)


def test_it_ends_with_a_sentence_when_it_cannot_read_what_is_written() -> None:
    ended = subprocess.run(
        [sys.executable, "-P", "-c", sender_process._PROGRAM],
        input='["jobs", 1]\n',
        capture_output=True,
        text=True,
        env=sender_process._environment(),
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(
        "The webhook sender cannot read what the server wrote: a message cannot be "
    )
    assert len(ended.stderr.splitlines()) == 1
