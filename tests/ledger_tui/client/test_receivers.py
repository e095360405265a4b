"""Repairing the receiver of a webhook endpoint."""

import pytest

from ledger_tui.client.errors import ClientError
from ledger_tui.client.receivers import repair
from tests.ledger_tui.client.test_api import client
from tests.ledger_tui.contract_server import ContractServer


async def test_a_receiver_that_knows_no_repair_is_said_to_be_out_of_reach(server: ContractServer) -> None:
    async with client(server.url) as (api, _session, _traffic):
        server.refuse(200, {"id": "whe_1", "url": f"{server.url}/hooks"})
        with pytest.raises(ClientError, match="/hooks cannot be repaired from here"):
            await repair(api, "whe_1")
    assert ("POST", "/hooks/repair", {}) in server.requests
