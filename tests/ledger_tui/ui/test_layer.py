"""While a dialog lies over a changing list, the dashboard writes little to its terminal."""

from __future__ import annotations

from itertools import count

import httpx
import pytest

from ledger_tui.server.embedded import Address
from tests.ledger_tui.drawn import dashboard_drawn_for


@pytest.mark.process
def test_a_list_that_changes_behind_a_dialog_is_written_at_most_three_times(
    own_project: Address,
) -> None:
    headers, numbers = {"Authorization": f"Bearer {own_project.key}"}, count()

    def add(path: str, **body: object) -> str:
        key = {"Idempotency-Key": f"written-{next(numbers)}"}
        answer = httpx.post(f"{own_project.url}{path}", json=body, headers=headers | key)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    till = add("/v1/accounts", name="Till", currency="EUR")

    def post(description: str) -> None:
        add("/v1/transactions", account=till, amount=100, type="credit", description=description)

    for _row in range(40):
        post("early")

    with dashboard_drawn_for(own_project.url, own_project.key) as dashboard:

        def written_for_four_rows(name: str) -> int:
            before = dashboard.bytes_written
            for number in range(4):
                post(f"{name}{number}")
                dashboard.sees(f"{name}{number}")
            return dashboard.bytes_written - before

        dashboard.sees("online")
        dashboard.press("2")
        dashboard.sees("early")
        of_the_list = written_for_four_rows("list")
        dashboard.press("\x14")  # ctrl+t
        dashboard.sees("Theme")
        behind_a_dialog = written_for_four_rows("behind")
        assert behind_a_dialog <= 3 * of_the_list
