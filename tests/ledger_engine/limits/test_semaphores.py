"""Places: how many may do something at a time."""

from __future__ import annotations

import asyncio

import pytest

from ledger_engine.limits import Full, HeldPlaces, Place

SEAT = Place("seats", 2)


async def test_no_more_places_are_held_than_there_are() -> None:
    places = HeldPlaces()
    async with places.hold(SEAT), places.hold(SEAT):
        with pytest.raises(Full):
            async with places.hold(SEAT):
                pass
        async with places.hold(Place("tables", 1)):
            pass
    async with places.hold(SEAT), places.hold(SEAT):
        pass


async def test_of_several_places_none_is_taken_when_one_is_not_free() -> None:
    places = HeldPlaces()
    table = Place("tables", 1)
    async with places.hold(table):
        with pytest.raises(Full) as refused:
            await places.take([SEAT, table])
    assert refused.value.place == table
    async with places.hold(SEAT), places.hold(SEAT):
        pass


async def test_who_waits_gets_the_place_when_it_is_given_back() -> None:
    places = HeldPlaces()
    lease = Place("lease", 1)
    order = []

    async def work(name: str) -> None:
        async with places.hold(lease, wait=True):
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")

    await places.take([lease])
    first, second = asyncio.create_task(work("first")), asyncio.create_task(work("second"))
    given_up = asyncio.create_task(work("given up"))
    await asyncio.sleep(0)
    given_up.cancel()
    assert order == []
    places.give_back([lease])
    await asyncio.gather(first, second)
    assert order == ["first begins", "first ends", "second begins", "second ends"]
