"""The waiting works that go to the writer as one group."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from ledger_engine.store.group_commit import QUIET_TURNS, GroupCommit
from tests.ledger_engine.waiting import until


@dataclass(eq=False)
class Waiting:
    name: str
    long: bool = False

    @property
    def project(self) -> str:
        """A long work's project is its letter, without the stroke of a further one."""
        return self.name.rstrip("'")


class Writer:
    """A writer that notes each group and is done with it at once, but for the first, which is held."""

    def __init__(self) -> None:
        self.groups: list[str] = []
        self._news = asyncio.Event()
        self.group_commit: GroupCommit[Waiting] = GroupCommit(asyncio.get_running_loop(), self._take)

    def _take(self, group: list[Waiting]) -> None:
        self.groups.append("".join(each.name for each in group))
        self._news.set()
        if len(self.groups) > 1:
            asyncio.get_running_loop().call_soon(self.group_commit.done)

    async def until(self, count: int) -> list[str]:
        """Return the groups once there are so many; the first is done with when more are wanted."""
        if self.groups:
            self.group_commit.done()
        async with asyncio.timeout(60):
            while len(self.groups) < count:
                self._news.clear()
                await self._news.wait()
        return self.groups


@pytest.fixture
async def writer() -> Writer:
    """A writer that is busy with a first work."""
    writer = Writer()
    writer.group_commit.add(Waiting("_"))
    await writer.until(1)
    return writer


async def test_works_that_wait_together_are_one_group(writer: Writer) -> None:
    for name in "abc":
        writer.group_commit.add(Waiting(name))
    assert await writer.until(2) == ["_", "abc"]


async def test_short_works_come_before_a_long_work_which_forms_a_group_alone(writer: Writer) -> None:
    for name in "aXb":
        writer.group_commit.add(Waiting(name, long=name.isupper()))
    assert await writer.until(3) == ["_", "ab", "X"]


async def test_after_one_group_of_short_works_a_long_work_has_its_turn(writer: Writer) -> None:
    for name in "aXYb":
        writer.group_commit.add(Waiting(name, long=name.isupper()))
    take = writer.group_commit._hand_over

    def another_comes(group: list[Waiting]) -> None:
        take(group)
        if len(writer.groups) < 5:
            writer.group_commit.add(Waiting(str(len(writer.groups))))

    writer.group_commit._hand_over = another_comes
    assert await writer.until(6) == ["_", "ab", "X", "23", "Y", "4"]


async def test_works_that_waited_for_a_long_work_are_handed_over_as_soon_as_it_is_done() -> None:
    taken: list[str] = []
    group_commit: GroupCommit[Waiting] = GroupCommit(
        asyncio.get_running_loop(), lambda group: taken.append("".join(each.name for each in group))
    )
    group_commit.add(Waiting("X", long=True))
    await until(lambda: taken == ["X"])
    for name in "aYb":
        group_commit.add(Waiting(name, long=name.isupper()))
    group_commit.done()
    assert taken == ["X", "ab"], "the loop has had no turn, in which it would write the answer to X"
    group_commit.done()
    await until(lambda: taken == ["X", "ab", "Y"])
    group_commit.done()
    assert taken == ["X", "ab", "Y"]


async def test_a_long_work_of_another_project_comes_before_a_second_long_work_of_the_same_project(
    writer: Writer,
) -> None:
    for name in ("X", "X'", "X''", "Y"):
        writer.group_commit.add(Waiting(name, long=True))
    assert await writer.until(5) == ["_", "X", "Y", "X'", "X''"]


async def test_long_works_alone_come_one_after_the_other(writer: Writer) -> None:
    for name in "XY":
        writer.group_commit.add(Waiting(name, long=True))
    assert await writer.until(3) == ["_", "X", "Y"]


async def test_all_waiting_works_are_handed_over_at_the_end(writer: Writer) -> None:
    for name in "aXb":
        writer.group_commit.add(Waiting(name, long=name.isupper()))
    writer.group_commit.flush()
    assert writer.groups == ["_", "aXb"]


async def test_a_work_that_was_withdrawn_is_not_handed_over(writer: Writer) -> None:
    long, other = Waiting("X", long=True), Waiting("a")
    writer.group_commit.add(long)
    writer.group_commit.add(other)
    assert writer.group_commit.withdraw(long)
    assert await writer.until(2) == ["_", "a"]


async def test_nothing_is_handed_over_when_all_that_waited_was_withdrawn_or_flushed() -> None:
    """The writer would begin a group of nothing, and nobody would say that it is done."""
    taken: list[list[Waiting]] = []
    group_commit: GroupCommit[Waiting] = GroupCommit(asyncio.get_running_loop(), taken.append)
    flushed, one, other, last = (Waiting(name) for name in "abcd")
    group_commit.add(one)
    assert group_commit.withdraw(one)
    await turns()
    assert taken == []
    group_commit.add(flushed)
    group_commit.flush()
    await turns()
    assert taken == [[flushed]]
    for each in (one, other, last):
        group_commit.add(each)
    group_commit.done()  # four may come now: those that wait, and whoever was answered
    for each in (one, other):
        assert group_commit.withdraw(each)
    assert group_commit.withdraw(last)
    await turns()
    await until(lambda: group_commit._next_check is None)
    assert taken == [[flushed]]
    group_commit.add(last)
    await until(lambda: taken == [[flushed], [last]])


async def turns() -> None:
    """Let the event loop run what a group would wait for others."""
    for _ in range(QUIET_TURNS + 2):
        await asyncio.sleep(0)
