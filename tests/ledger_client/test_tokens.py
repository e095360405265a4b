"""The tokens in use: when they are refreshed, by whom, and what is stored of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from ledger_client import AsyncLedger, Ledger
from ledger_client.errors import AuthenticationError, LedgerError, NotConnected
from ledger_client.records import TokenPair, token_pair
from ledger_client.tokens import EARLY_S, NoTokens, NotStored, Tokens, TokenStore
from tests.house.pages import ROOT, blocks
from tests.ledger_tui.contract_server import KEY, ContractServer

PAIR = TokenPair(access_token="at_1", refresh_token="rt_1")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Stored:
    access_token: str | None
    refresh_token: str | None
    expires_at: float | None


class Store:
    """Holds one pair; `fault` is what is wrong with it."""

    def __init__(self) -> None:
        self.stored: Stored | None = None
        self.fault: NotStored | None = None
        self.turns: list[StringIO] = []

    def read(self) -> Stored | None:
        if self.fault is not None:
            raise self.fault
        return self.stored

    def keep(self, pair: TokenPair, expires_at: float) -> None:
        assert not self.turns[-1].closed, "a pair is kept within the turn that made it"
        if self.fault is not None:
            raise self.fault
        self.stored = Stored(pair.access_token, pair.refresh_token, expires_at)

    def acquire_lock(self) -> StringIO:
        self.turns.append(StringIO())
        return self.turns[-1]


class Issuer:
    """Gives the pair after the one whose refresh token it gets, or refuses."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.refusal: LedgerError | None = None

    async def __call__(self, refresh_token: str) -> TokenPair:
        self.sent.append(refresh_token)
        if self.refusal is not None:
            raise self.refusal
        number = int(refresh_token.removeprefix("rt_")) + 1
        return TokenPair(access_token=f"at_{number}", refresh_token=f"rt_{number}")


def access(tokens: Tokens) -> str:
    assert tokens.pair is not None
    return tokens.pair.access_token


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def shared(store: Store, issuer: Issuer) -> Tokens:
    """Tokens of a store in which the first pair is."""
    tokens = Tokens(issuer, store)
    await tokens.begin(PAIR)
    return tokens


# ---------------------------------------------------------------------- time


def timed(clock: Clock, pair: TokenPair | None = PAIR, issuer: Issuer | None = None) -> Tokens:
    tokens = Tokens(issuer or Issuer(), clock=clock)
    if pair is not None:
        tokens.take(pair)
    return tokens


def test_a_pair_is_due_five_minutes_before_it_ends() -> None:
    clock = Clock()
    tokens = timed(clock)
    assert (tokens.left, tokens.due_in) == (3600, 3600 - EARLY_S)
    clock.now += 3600 - EARLY_S
    assert (tokens.left, tokens.due_in) == (EARLY_S, 0)
    clock.now += 10_000
    assert (tokens.left, tokens.due_in) == (0, 0)


def test_a_token_that_lasts_shorter_than_the_margin_is_due_at_half_its_time() -> None:
    assert timed(Clock(), replace(PAIR, expires_in=60)).due_in == 30


def test_without_a_refresh_token_nothing_is_due() -> None:
    assert timed(Clock(), None).due_in is None
    tokens = timed(Clock(), replace(PAIR, refresh_token=None))
    assert (tokens.due_in, tokens.left) == (None, 3600)


async def test_a_token_that_cannot_be_refreshed_is_used_to_its_end(issuer: Issuer) -> None:
    clock = Clock()
    tokens = timed(clock, PAIR, issuer)
    issuer.refusal = NotConnected("lost")
    for clock.now, asked in ((4299, 0), (4300, 1), (4310, 1), (4315, 2)):  # 15 s later once more
        assert (await tokens.access(), len(issuer.sent)) == ("at_1", asked)
    clock.now = 4601
    with pytest.raises(NotConnected):
        await tokens.access()


async def test_a_refresh_token_that_is_refused_is_not_sent_again(issuer: Issuer) -> None:
    clock = Clock()
    tokens = timed(clock, PAIR, issuer)
    issuer.refusal = AuthenticationError("It was used before.", status=401)
    clock.now += 3400
    assert [await tokens.access(), await tokens.access()] == ["at_1", "at_1"], "it is good until it ends"
    assert (tokens.due_in, tokens.left, issuer.sent) == (None, 200, ["rt_1"])
    with pytest.raises(NoTokens):
        await tokens.refresh()


async def test_an_answer_without_a_refresh_token_keeps_the_one_before(issuer: Issuer) -> None:
    async def again(refresh_token: str) -> TokenPair:
        return TokenPair(access_token="at_2")

    tokens = Tokens(again)
    tokens.take(PAIR)
    await tokens.refresh()
    assert tokens.pair == TokenPair(access_token="at_2", refresh_token="rt_1")


# ---------------------------------------------------------------------- a store


async def test_a_pair_is_rotated_and_kept_in_one_turn(shared: Tokens, store: Store) -> None:
    assert await shared.refresh()
    assert access(shared) == "at_2"
    assert store.stored is not None
    assert store.stored.refresh_token == "rt_2"
    assert all(turn.closed for turn in store.turns)


async def test_a_pair_stored_by_another_process_is_taken_and_the_own_one_not_sent(
    shared: Tokens, store: Store, issuer: Issuer
) -> None:
    store.stored = Stored("at_7", "rt_7", 9e9)
    await shared.refresh()
    assert (access(shared), issuer.sent) == ("at_7", [])


async def test_a_pair_that_cannot_be_stored_is_still_used_and_said(shared: Tokens, store: Store) -> None:
    store.fault = NotStored("secrets.json: others may read it.")
    await shared.refresh()
    assert access(shared) == "at_2"
    assert "others may read it" in shared.problem


async def test_a_process_that_cannot_read_what_is_stored_does_not_begin(
    shared: Tokens, store: Store, issuer: Issuer
) -> None:
    store.fault = NotStored("secrets.json: is not JSON.")
    with pytest.raises(NotStored, match="not JSON"):
        await Tokens(issuer, store).access()


async def test_after_a_refusal_what_somebody_signs_in_with_elsewhere_is_taken(
    shared: Tokens, store: Store, issuer: Issuer
) -> None:
    issuer.refusal = AuthenticationError("It was used before.", status=401)
    with pytest.raises(AuthenticationError):
        await shared.refresh()
    with pytest.raises(NoTokens):
        await shared.refresh()
    assert issuer.sent == ["rt_1"]
    clock = Clock()
    shared.clock, clock.now = clock, clock.now + 1e9  # it has expired
    with pytest.raises(NoTokens):
        await shared.access()
    store.stored = Stored("at_7", "rt_7", 9e9)
    clock.now += 60
    assert await shared.access() == "at_7"


async def test_a_process_begins_with_what_is_stored_and_refreshes_what_is_about_to_expire(
    store: Store, issuer: Issuer
) -> None:
    with pytest.raises(NoTokens, match="sign in"):
        await Tokens(issuer, store).access()
    store.stored = Stored("at_7", "rt_7", 9e9)
    assert await Tokens(issuer, store).access() == "at_7"
    store.stored = Stored("at_7", "rt_7", 1.0)
    assert await Tokens(issuer, store).access() == "at_8"
    assert store.stored.refresh_token == "rt_8"


async def test_a_process_whose_stored_tokens_are_refused_has_none(store: Store, issuer: Issuer) -> None:
    issuer.refusal = AuthenticationError("It was used before.", status=401)
    store.stored = Stored("at_7", "rt_7", 1.0)
    tokens = Tokens(issuer, store)
    assert not await tokens.resume()
    assert tokens.pair is None


class FileStore:
    """A file, as two processes share it."""

    def __init__(self, file: Path, kept: Callable[[str | None], object]) -> None:
        self._file, self._kept = file, kept

    def read(self) -> Stored | None:
        if not self._file.exists():
            return None
        access_token, refresh_token, expires_at = self._file.read_text().split()
        return Stored(access_token, refresh_token, float(expires_at))

    def keep(self, pair: TokenPair, expires_at: float) -> None:
        self._file.write_text(f"{pair.access_token} {pair.refresh_token} {expires_at}")
        self._kept(pair.refresh_token)

    def acquire_lock(self) -> AbstractContextManager[object]:
        return FileLock(self._file.with_suffix(".lock"), 60, thread_local=False).acquire()


@pytest.fixture
def server() -> Iterator[ContractServer]:
    with ContractServer() as running:
        yield running


async def test_two_clients_of_a_store_spend_each_refresh_token_once(
    server: ContractServer, tmp_path: Path
) -> None:
    kept: list[str | None] = []
    server.token_seconds = 60  # which is about to expire, so each process that begins refreshes it
    async with AsyncLedger(server.url) as anyone:
        pair = await anyone.tokens.create(KEY)
    file = tmp_path / "tokens"
    file.write_text(f"{pair.access_token} {pair.refresh_token} 1")
    clients = [AsyncLedger(server.url, FileStore(file, kept.append), attempts=1) for _ in range(2)]
    await asyncio.gather(*(each.request("GET", "/v1/accounts") for each in clients for _ in range(3)))
    for each in clients:
        await each.close()
    assert kept
    assert len({*kept}) == len(kept)
    assert [*server.refresh_tokens] == kept[-1:], "a token that was used before would have been refused"


def test_a_client_that_uses_itself_in_on_refresh_gets_an_error(server: ContractServer) -> None:
    def look(pair: TokenPair) -> None:
        ledger.request("GET", "/v1/accounts")

    with Ledger(server.url) as anyone:
        pair = replace(anyone.tokens.create(KEY), expires_in=0)
    with Ledger(server.url, pair, on_refresh=look) as ledger, pytest.raises(RuntimeError, match="on_refresh"):
        ledger.request("GET", "/v1/accounts")


# ---------------------------------------------------------------------- the store of docs/client.md

_HOLDS_THE_LOCK = """
import fcntl, sys
with open("tokens.lock", "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def stores(
    server: ContractServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], TokenStore]:
    """Return the class of the page; tokens that are about to expire are stored."""
    (code,) = (each.text for each in blocks(ROOT / "docs" / "client.md") if "class TokenFile" in each.text)
    page: dict[str, Any] = {}
    exec(code.partition("\nurl = ")[0], page)  # without the requests of the example
    monkeypatch.chdir(tmp_path)
    server.token_seconds = 60
    with Ledger(server.url) as anyone:
        page["TokenFile"]().keep(anyone.tokens.create(KEY), expires_at=0)
    made: Callable[[], TokenStore] = page["TokenFile"]
    return made


def in_a_loop(work: Coroutine[Any, Any, None]) -> Future[None]:
    """Run the work in a loop of a thread that does not outlive the test run, even if it hangs."""
    done: Future[None] = Future()

    def run() -> None:
        try:
            done.set_result(asyncio.run(work))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


@contextmanager
def locked_by_another_process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDS_THE_LOCK], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        yield holder


class LockStore:
    """A store without tokens; `asked` is set when a client is about to take the lock."""

    def __init__(self, acquire_lock: Callable[[], AbstractContextManager[object]]) -> None:
        self._acquire_lock = acquire_lock
        self.asked = threading.Event()

    def read(self) -> None:
        return None

    def keep(self, pair: TokenPair, expires_at: float) -> None:
        """Forget the pair."""

    def acquire_lock(self) -> AbstractContextManager[object]:
        self.asked.set()
        return self._acquire_lock()


@pytest.mark.process
def test_a_lock_that_another_process_holds_leaves_the_loop_free(
    stores: Callable[[], TokenStore], issuer: Issuer
) -> None:
    store, beats, taken = LockStore(stores().acquire_lock), threading.Semaphore(0), threading.Event()

    async def beat() -> None:
        while not taken.is_set():
            beats.release()
            await asyncio.sleep(0.001)

    async def work() -> None:
        heart = asyncio.create_task(beat())
        await Tokens(issuer, store).begin(PAIR)
        taken.set()
        await heart

    with locked_by_another_process() as holder:
        done = in_a_loop(work())
        assert store.asked.wait(60)
        while beats.acquire(blocking=False):
            pass
        for _ in range(50):
            assert beats.acquire(timeout=60), "the loop stands still"
        assert not taken.is_set()
        holder.communicate()
        done.result(60)


@pytest.mark.process
def test_a_client_that_stops_waiting_for_the_lock_does_not_hold_it_afterwards(
    stores: Callable[[], TokenStore], issuer: Issuer
) -> None:
    store = LockStore(stores().acquire_lock)

    async def work(holder: subprocess.Popen[bytes]) -> None:
        waiting = asyncio.create_task(Tokens(issuer, store).begin(PAIR))
        await asyncio.to_thread(store.asked.wait)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting  # while another process holds the lock
        await asyncio.to_thread(holder.communicate)
        await Tokens(issuer, store).begin(PAIR)

    with locked_by_another_process() as holder:
        in_a_loop(work(holder)).result(60)


async def test_the_thread_that_takes_the_lock_releases_it(tmp_path: Path, issuer: Issuer) -> None:
    lock = FileLock(tmp_path / "lock", 60, thread_local=True)
    for _ in range(2):
        await Tokens(issuer, LockStore(lock.acquire)).begin(PAIR)


async def test_clients_that_wait_for_the_lock_leave_its_holder_a_thread(
    stores: Callable[[], TokenStore], issuer: Issuer
) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    await asyncio.gather(*(Tokens(issuer, stores()).begin(PAIR) for _ in range(5)))


def test_two_clients_in_one_loop_with_the_store_of_the_page_take_turns(
    server: ContractServer, stores: Callable[[], TokenStore]
) -> None:
    async def work() -> None:
        clients = [AsyncLedger(server.url, stores(), attempts=1) for _ in range(2)]
        await asyncio.gather(*(each.request("GET", "/v1/accounts") for each in clients))
        await asyncio.gather(*(each.close() for each in clients))

    in_a_loop(work()).result(60)


def test_threads_that_refresh_with_the_store_of_the_page_take_turns(
    server: ContractServer, stores: Callable[[], TokenStore]
) -> None:
    def refresh() -> None:
        with Ledger(server.url, stores(), attempts=1) as ledger:
            ledger.request("GET", "/v1/accounts")

    async def both() -> None:
        await asyncio.gather(*(asyncio.to_thread(refresh) for _ in range(2)))

    in_a_loop(both()).result(60)


# ---------------------------------------------------------------------- what a server answers


@pytest.mark.parametrize(
    "answer", [None, {}, {"access_token": 5}, {"access_token": "a\nb"}, {"access_token": "ä"}]
)
def test_an_answer_without_an_access_token_is_no_pair(answer: object) -> None:
    with pytest.raises(ValueError, match="no access token"):
        token_pair(answer)


def test_other_faults_of_an_answer_are_left_out() -> None:
    assert token_pair({"access_token": "at_1", "refresh_token": 5, "expires_in": {}}) == TokenPair(
        access_token="at_1", token_type=None, scope=None
    )
