"""What is opened for a served ledger."""

from __future__ import annotations

import pytest

from ledger_engine.core.settings import ServeSettings
from ledger_engine.server import ledger
from tests.postgres_server import emptied_database

pytestmark = pytest.mark.process


@pytest.fixture
def database() -> str:
    return emptied_database()


async def test_two_servers_count_requests_together_in_the_database(database: str) -> None:
    settings = ServeSettings(database)
    async with (
        ledger.open_engine_to_serve(settings, database) as first,
        ledger.open_engine_to_serve(settings, database) as second,
    ):
        used = 0
        while not used:
            verdict = await first.shared_state.rate_limits.count("address/1", 60, 10)
            after = await second.shared_state.rate_limits.peek("address/1", 60)
            used = 60 - after.remaining if after.reset == verdict.reset else 0
        assert used == 60 - verdict.remaining
