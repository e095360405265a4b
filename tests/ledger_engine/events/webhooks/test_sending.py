"""The sender: order within an endpoint, and no endpoint at another's cost."""

from __future__ import annotations

import asyncio
import itertools
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509

from ledger_engine.core.records import dumps
from ledger_engine.events.webhooks import sending
from ledger_engine.events.webhooks.addresses import parse_url
from ledger_engine.events.webhooks.sending import AttemptJob, Sender, SendResult
from tests.certificates import make_certificate
from tests.receivers import (
    Behaviour,
    Received,
    Receiver,
    answering,
    babble,
    bomb,
    close,
    drip,
    drip_head,
    flood,
    flood_head,
    hang,
    receiving,
    reset,
)

DEADLINE_S = 0.6  # for a receiver that never ends; any other may take long on a busy machine


class Sending:
    """A sender with what came of its jobs."""

    def __init__(self, deadline_s: float) -> None:
        self.answers: dict[int, SendResult] = {}
        self._numbers = itertools.count(1)
        self._news = asyncio.Event()
        self.sender = Sender(self._take, deadline_s)

    def submit(self, receiver: Receiver, *, endpoint: str = "whe_1", is_first: bool = True) -> int:
        """Hand over one job to the receiver's address; gives its number, which is its event's too."""
        number = next(self._numbers)
        target = parse_url(receiver.url, livemode=False)
        headers = [
            ("Host", target.host_header),
            ("Content-Length", "2"),
            ("Ledger-Event-Id", str(number)),
            ("Ledger-Attempt", "1"),
        ]
        self.sender.submit(
            AttemptJob(
                number,
                endpoint,
                is_first,
                False,
                target.host,
                target.port,
                target.tls,
                target.path,
                dumps(headers),
                "{}",
            )
        )
        return number

    async def outcome(self, number: int) -> SendResult:
        await self.until(lambda: number in self.answers)
        return self.answers[number]

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self._news.clear()
                await self._news.wait()

    def _take(self, answer: SendResult) -> None:
        assert answer.number not in self.answers
        self.answers[answer.number] = answer
        self._news.set()


@asynccontextmanager
async def sending_for(deadline_s: float = 60) -> AsyncIterator[Sending]:
    made = Sending(deadline_s)
    try:
        yield made
    finally:
        await made.sender.stop(0)


@pytest.mark.parametrize(
    ("behave", "status", "error"),
    [
        (answering(200), 200, None),
        (answering(204, b""), 204, None),
        (answering(299), 299, None),
        (
            answering(302, b"", "Location: http://169.254.169.254/"),
            302,
            "answered 302: redirects are not followed",
        ),
        (answering(308, b"", "Location: /elsewhere"), 308, "answered 308: redirects are not followed"),
        (answering(410), 410, "answered 410"),
        (answering(429, b"", "Retry-After: 1"), 429, "answered 429"),
        (answering(500), 500, "answered 500"),
        (bomb, 200, None),
        (flood, 200, None),
        (flood_head, None, "not a valid HTTP response"),
        (babble, None, "not a valid HTTP response"),
        (hang, None, "no complete answer within 0.6 s"),
        (drip, None, "no complete answer within 0.6 s"),
        (drip_head, None, "no complete answer within 0.6 s"),
        (reset, None, "Connection reset by peer"),
        (close, None, "the connection was closed without an answer"),
    ],
)
async def test_a_receivers_reaction_becomes_an_outcome(
    behave: Behaviour, status: int | None, error: str | None
) -> None:
    deadline_s = DEADLINE_S if behave in (hang, drip, drip_head) else 60
    async with receiving(behave) as receiver, sending_for(deadline_s) as sending:
        answer = await sending.outcome(sending.submit(receiver))
        assert len(receiver.received) == 1
    assert (answer.made, answer.status) == (True, status)
    assert (answer.error or "").startswith(error or "")
    assert (answer.error is None) == (error is None)


async def test_nobody_listens() -> None:
    async with receiving() as gone:
        pass
    async with sending_for() as sending:
        answer = await sending.outcome(sending.submit(gone))
    assert (answer.status, answer.error, answer.headers) == (None, "Connection refused", None)


async def test_first_attempts_come_in_the_order_they_were_given() -> None:
    async with receiving() as receiver, sending_for() as sending:
        given = [sending.submit(receiver) for _ in range(300)]
        await sending.until(lambda: len(sending.answers) == len(given))
        assert receiver.events == [str(number) for number in given]
        assert receiver.connections == 1


async def test_the_next_waits_until_the_one_before_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "OVERTAKE_S", 1000)
    go_on = asyncio.Event()

    async def wait(_: Received, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        await answering()(_, writer)

    async with receiving(wait) as receiver, sending_for() as sender:
        for _ in range(3):
            sender.submit(receiver)
        await receiver.until_received(1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert receiver.events == ["1"]
        go_on.set()
        await receiver.until_received(3)
        assert receiver.events == ["1", "2", "3"]


async def test_a_receiver_that_hangs_holds_up_its_own_lane_for_a_moment_only() -> None:
    async def hang_on_the_first(request: Received, writer: asyncio.StreamWriter) -> None:
        await (hang if request.event == "1" else answering())(request, writer)

    async with receiving(hang_on_the_first) as receiver, sending_for() as sender:
        for _ in range(50):
            sender.submit(receiver)
        await sender.until(lambda: len(sender.answers) == 49)
        assert receiver.events == [str(number) for number in range(1, 51)]
        assert 1 not in sender.answers


async def test_so_many_first_attempts_hang_at_one_receiver_and_not_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "OVERTAKE_S", 0.01)
    async with receiving(hang) as receiver, receiving() as good, sending_for() as sender:
        for _ in range(50):
            sender.submit(receiver)
        await receiver.until_received(sending.FIRSTS_MAX)
        # A bound cannot be waited for. While so much is done for another one, more would have come.
        given = [sender.submit(good, endpoint="good") for _ in range(200)]
        await good.until_received(len(given))
        assert len(receiver.received) == sending.FIRSTS_MAX


@pytest.mark.slow
@pytest.mark.parametrize("bad", [hang, drip, flood, reset, bomb, answering(500)])
async def test_bad_receivers_do_not_slow_a_good_one(bad: Behaviour, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many hang: the shared store is used up by them here, many times over."""
    monkeypatch.setattr(sending, "SHARED_MAX", 4)
    monkeypatch.setattr(sending, "OVERTAKE_S", 0.01)
    async with receiving(bad) as hanging, receiving() as good, sending_for(5) as sender:
        for endpoint in range(20):
            for is_first in (True, False):
                for _ in range(5):
                    sender.submit(hanging, endpoint=f"bad {endpoint}", is_first=is_first)
        given = [sender.submit(good, endpoint="good") for _ in range(200)]
        await good.until_received(len(given))
        assert good.events == [str(number) for number in given]


async def test_an_attempt_that_waits_for_the_shared_store_gets_it_when_it_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "SHARED_MAX", 1)
    is_free = asyncio.Event()

    async def hang_but_for_the_second(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.event != "2":
            await hang(request, writer)
        await is_free.wait()
        await answering()(request, writer)

    async with receiving(hang_but_for_the_second) as receiver, sending_for() as sender:
        # Each endpoint has one attempt of its own. The second of "a" takes the store, and that of "b" waits.
        for endpoint in ("a", "a", "b", "b"):
            sender.submit(receiver, endpoint=endpoint, is_first=False)
        await receiver.until_received(3)
        assert {*receiver.events} == {"1", "2", "3"}
        is_free.set()
        await receiver.until(lambda: "4" in receiver.events)


async def test_retries_go_beside_first_attempts() -> None:
    async def hang_first(request: Received, writer: asyncio.StreamWriter) -> None:
        await (hang if request.event == "1" else answering())(request, writer)

    async with receiving(hang_first) as receiver, sending_for() as sender:
        sender.submit(receiver)
        await receiver.until_received(1)
        retries = [sender.submit(receiver, is_first=False) for _ in range(10)]
        await sender.until(lambda: set(retries) <= set(sender.answers))


async def test_a_connection_closed_while_it_was_idle_is_no_failure() -> None:
    """Receivers close what is idle; a request that crosses with that goes out again on a new connection."""
    used: set[asyncio.StreamWriter] = set()

    async def close_on_the_second(request: Received, writer: asyncio.StreamWriter) -> None:
        await (close if writer in used else answering())(request, writer)
        used.add(writer)

    async with receiving(close_on_the_second) as receiver, sending_for() as sender:
        given = [sender.submit(receiver) for _ in range(20)]
        await sender.until(lambda: len(sender.answers) == len(given))
        assert list(dict.fromkeys(receiver.events)) == [str(number) for number in given]
    assert [answer.error for answer in sender.answers.values()] == [None] * 20


async def test_a_receiver_that_closes_at_once_each_time_has_failed() -> None:
    async with receiving() as receiver, sending_for() as sender:
        await sender.outcome(sender.submit(receiver))
        receiver.behave = close
        answer = await sender.outcome(sender.submit(receiver))
        assert answer.error == "the connection was closed without an answer"
        assert receiver.connections == 2


async def test_an_idle_connection_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "IDLE_S", 0.05)
    async with receiving() as receiver, sending_for() as sender:
        await sender.outcome(sender.submit(receiver))
        await receiver.until(lambda: receiver.closed)


async def test_a_dropped_job_was_never_sent() -> None:
    async with receiving(hang) as receiver, receiving() as other, sending_for() as sender:
        for is_first in (True, True, True, False, False, False, False, False):
            sender.submit(receiver, is_first=is_first)
        await receiver.until_received(1 + sending.RETRIES_MAX)
        kept = sender.submit(other, endpoint="whe_2")
        sender.sender.drop("whe_1")
        assert {number for number, answer in sender.answers.items() if not answer.made} == {2, 3, 8}
        assert (await sender.outcome(kept)).error is None


async def test_stopping_lets_what_is_under_way_end_and_gives_the_rest_back() -> None:
    go_on = asyncio.Event()

    async def wait(_: Received, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        await answering()(_, writer)

    async with receiving(wait) as receiver, receiving(hang) as hanging, sending_for() as sender:
        for _ in range(3):
            sender.submit(receiver)
        sender.submit(hanging, endpoint="whe_2")
        await receiver.until_received(1)
        await hanging.until_received(1)
        asyncio.get_running_loop().call_soon(go_on.set)
        await sender.sender.stop(0.5)
        assert {number: answer.made for number, answer in sender.answers.items()} == {
            1: True,
            2: False,
            3: False,
            4: False,
        }


async def test_a_receiver_over_tls_must_have_a_good_certificate(own_tls: ssl.SSLContext) -> None:
    async with receiving(tls=own_tls) as receiver, sending_for() as sender:
        answer = await sender.outcome(sender.submit(receiver))
        assert receiver.received == []
    assert answer.status is None
    assert (answer.error or "").startswith("TLS:")


async def test_a_receiver_over_tls_is_sent_to(
    own_tls: ssl.SSLContext, trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "_tls_context", lambda: trusting)
    async with receiving(tls=own_tls) as receiver, sending_for() as sender:
        answers = [await sender.outcome(sender.submit(receiver)) for _ in range(3)]
        assert receiver.connections == 1
    assert [answer.error for answer in answers] == [None] * 3


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a certificate for 127.0.0.1 that is its own authority, and its key."""
    return make_certificate(tmp_path_factory.mktemp("tls"), x509.IPAddress(IPv4Address("127.0.0.1")))


@pytest.fixture
def own_tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


@pytest.fixture
def trusting(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate[0]))


async def test_nothing_is_started_after_the_time_until_which_it_may_be() -> None:
    async with receiving() as receiver, sending_for() as sender:
        sender.sender.send_until(time.monotonic() + 3600)
        before = sender.submit(receiver)
        assert (await sender.outcome(before)).made
        sender.sender.send_until(time.monotonic())
        late = [sender.submit(receiver), sender.submit(receiver), sender.submit(receiver, is_first=False)]
        for number in late:
            assert not (await sender.outcome(number)).made
        assert [request.event for request in receiver.received] == [str(before)]
