"""The token screen shows the credential in use, exchanges and rotates tokens, and returns to the key."""

from ledger_tui.client.tokens import EARLY_S
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import KEY, ContractServer
from tests.ledger_tui.driving import Driver, until


async def test_whose_the_credential_is_and_what_it_may_do(driver: Driver) -> None:
    await driver.press("6")
    key = driver.app.tokens.key
    assert key is not None
    await driver.sees(
        f"sk_test_…{key[-4:]}", "API key", "owner", "enterprise", "200 in a second", "prj_", "key_"
    )
    assert key not in driver.text()


async def test_the_key_is_exchanged_for_tokens_that_are_then_used(
    server: ContractServer, bare: Driver
) -> None:
    await bare.press("6", sees="Every request sends the API key itself.")
    await bare.press("n")
    await bare.sees("expires in 59:5", "renews itself in 54:5", "rotated       not yet", "access token")
    server.key = "sk_test_another"  # from here on only the token opens anything
    await bare.press("1", "r")
    await until(lambda: bare.view.model.window.loaded)
    assert next(iter(server.access_tokens)) not in bare.text()


async def test_rotation_uses_each_refresh_token_once(server: ContractServer, bare: Driver) -> None:
    await bare.press("6")
    await bare.press("n", sees="not yet")
    first = {*server.refresh_tokens}
    await bare.press("L", sees="rotated       once")
    assert not first & server.refresh_tokens
    await bare.press("L", sees="rotated       2 times")


async def test_a_token_is_renewed_by_itself_before_it_ends(bare: Driver) -> None:
    await bare.press("6", "n", sees="renews itself in")
    pair = bare.app.tokens.tokens.pair
    assert pair is not None
    now = bare.app.tokens.tokens.clock()
    bare.app.tokens.tokens.clock = lambda: now + 3600 - EARLY_S
    await bare.sees("rotated       once")
    assert bare.app.tokens.tokens.pair != pair


async def test_a_refused_refresh_token_leads_back_to_the_key(server: ContractServer, bare: Driver) -> None:
    await bare.press("6", "n", sees="renews itself in")
    server.refresh_tokens.clear()
    await bare.press("L")
    await bare.sees(
        "The refresh token is not accepted: The refresh token is used up.", f"sk_test_…{KEY[-4:]}"
    )
    await bare.press("1", "r")
    await until(lambda: bare.view.model.window.loaded)


async def test_the_key_can_be_used_again(bare: Driver) -> None:
    await bare.press("6", "n", sees="renews itself in")
    await bare.press("U", sees=("Every request sends the API key itself.", f"sk_test_…{KEY[-4:]}"))


async def test_no_secret_stands_in_what_is_kept_of_the_traffic(server: ContractServer, bare: Driver) -> None:
    await bare.press("6", "n", sees="renews itself in")
    await bare.press("L", sees="once")
    kept = repr([*bare.app.traffic])
    assert KEY not in kept
    assert not [token for token in server.access_tokens | server.refresh_tokens if token in kept]


async def test_live_mode_is_said_in_words(server: ContractServer, dashboards: Dashboards) -> None:
    server.key = "sk_live_0123456789abcdefghijklmnopqrstuv"
    async with dashboards.open() as driver:
        await driver.press("6", sees="◆ LIVE: real money")


async def test_of_a_key_the_server_does_not_know_no_plan_is_claimed(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.limit = 60
    async with dashboards.start(key="sk_test_unknown") as driver:
        await driver.sees("✕ 401")
        await driver.press("6", sees="plan          unknown")
        assert "free" not in driver.text()
