"""A copy that is pulled into PostgreSQL is the one that a file would have."""

from __future__ import annotations

import pytest
from quart import Quart

from tests.ledger_engine.conftest import MakeKey
from tests.ledger_engine.tools.pull.conftest import Pull
from tests.ledger_engine.tools.pull.test_pull import Copied, Fill, Interrupted, assert_equal, stopping_after
from tests.postgres_server import bare_database

pytestmark = pytest.mark.process


@pytest.fixture
def copy() -> str:
    return bare_database()


async def test_a_pull_that_was_interrupted_ends_equal_to_the_source(
    fill: Fill, pull_copy: Pull, copied: Copied, app: Quart, make_key: MakeKey
) -> None:
    await fill(40)
    with pytest.raises(Interrupted):
        await pull_copy(stopping_after(4))
    await pull_copy()
    await fill(10)
    await pull_copy()
    await assert_equal(copied, app, await make_key())
