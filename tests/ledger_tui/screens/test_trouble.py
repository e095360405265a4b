"""What can go wrong is a state with a sentence, and it comes back by itself."""

from ledger_tui.state.session import Link
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import until


async def test_a_lost_server_is_a_state_with_a_count_and_comes_back(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Before")
    async with dashboards.open() as driver:
        await driver.sees("Before")
        server.stop()
        await driver.sees("✕ connection refused · try 2 in")
        assert "Before" in driver.text()
        with ContractServer(port=server.port) as again:
            again.add_account("After")
            await driver.sees("After", "● online")


async def test_a_server_that_is_not_there_at_first_is_waited_for(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.stop()
    async with dashboards.start() as driver:
        await driver.sees("Accounts  ✕ connection refused · try")
        assert "loading" not in driver.text()
        with ContractServer(port=server.port) as again:
            again.add_account("There")
            await driver.sees("There", "● online")


async def test_a_key_that_is_not_accepted_is_said(server: ContractServer, dashboards: Dashboards) -> None:
    async with dashboards.start(key="sk_test_wrong") as driver:
        await driver.sees("✕ 401: the server does not accept this key", "The key is not known.")
        server.key = "sk_test_wrong"
        await driver.sees("● online")


async def test_a_rate_limit_is_waited_out_visibly(server: ContractServer, dashboards: Dashboards) -> None:
    server.add_account("Till")
    async with dashboards.open() as driver:
        limited = {"error": "rate_limited", "message": "Wait 3 seconds"}
        server.refuse(429, limited, {"Retry-After": "3", "X-RateLimit-Remaining": "0"})
        await driver.press("r")
        await driver.sees("◔ rate limit: waiting", "Till", "● online")


async def test_a_failing_server_is_said_and_asked_again(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Till")
    async with dashboards.open() as driver:
        body = {
            "error": {
                "type": "api_error",
                "code": "storage_unavailable",
                "message": "Disk full.",
                "param": None,
            }
        }
        server.refuse(503, body)
        await driver.press("r")
        await driver.sees("✕ Disk full.", "✕ the server reports a failure of its own")
        await driver.sees("Till", "● online")
        assert driver.app.session.link is Link.ONLINE


async def test_another_program_at_the_address_is_said(server: ContractServer, dashboards: Dashboards) -> None:
    for _ in range(2):
        server.refuse(200, {"hello": "world"})
    async with dashboards.start() as driver:
        await driver.sees("✕ The answer is no ledger's. Is the address right?")
        await until(lambda: driver.view.window.loaded)


async def test_a_scarce_rate_limit_slows_the_looking(server: ContractServer, dashboards: Dashboards) -> None:
    server.limit = 60
    async with dashboards.open() as driver:
        assert driver.app.session.poll_seconds == 4.0
