"""API keys: created, rolled, revoked; a value is on the screen once and nowhere after."""

from ledger_tui.ui.dialogs import ConfirmScreen, ShownOnceScreen
from tests.ledger_tui.driving import Driver, until


async def create(driver: Driver, name: str = "reports") -> str:
    """Create a key in the form; return its value while its dialog is still open."""
    await driver.press("9", "n", sees="New API key")
    await driver.type(name, "tab", "tab", sees="● member")  # the fewest rights
    await driver.type("read:projects read:users", "ctrl+s")
    return await shown_secret(driver)


async def shown_secret(driver: Driver) -> str:
    await driver.sees("Shown once", "sk_test_")
    return next(word for word in driver.text().split() if word.startswith("sk_test_") and "…" not in word)


async def test_a_key_is_created_and_its_value_shown_once(driver: Driver) -> None:
    value = await create(driver)
    assert len(value) == len("sk_test_") + 32
    await driver.press("q", "n", "r", "enter", "space")  # nothing but esc closes it
    await driver.sees("y copy   esc I have it")
    assert isinstance(driver.app.screen, ShownOnceScreen)
    for key in ("y", "ctrl+c"):
        driver.app.copy_to_clipboard("")
        await driver.press(key)
        assert driver.app.clipboard == value
    await driver.press("escape", sees=("reports", "member", f"sk_test_…{value[-4:]}"))
    await driver.press("enter", sees="read:projects read:users")
    assert value not in driver.text()
    assert value not in repr(
        [record for slot in driver.view.model.window.slots for record in slot.rows or ()]
    )
    assert value not in repr([*driver.app.traffic])


async def test_a_key_has_no_trace_and_the_sentence_names_what_has(driver: Driver) -> None:
    await driver.press("9", sees="1 of 1")
    await driver.press("T", sees=("An API key has no trace.", "T traces accounts, transactions,"))


async def test_a_key_is_revoked_after_asking(driver: Driver) -> None:
    value = await create(driver)
    await driver.press("escape", sees=("reports", f"sk_test_…{value[-4:]}"))  # a question holds the list
    await driver.press("X", sees="Revoke API key reports, …")
    await driver.press("y", sees=(" is revoked", "✕ revoked"))
    assert driver.view.check_action("act", ("revoke",)) is None


async def test_a_key_is_rolled_and_the_new_value_shown_once(driver: Driver) -> None:
    old = await create(driver)
    await driver.press("escape", "L", "y")
    new = await shown_secret(driver)
    assert new != old
    await driver.press("escape", sees=("✕ revoked", f"…{new[-4:]}"))


async def test_the_dashboards_own_key_can_be_rolled_under_its_feet(driver: Driver) -> None:
    old = driver.app.tokens.key or ""
    await driver.press("9", sees=f"sk_test_…{old[-4:]}")
    await driver.press("L", "y")
    new = await shown_secret(driver)
    await driver.sees("This dashboard used the old key; it now uses the new one.")
    assert driver.app.tokens.key == new != old
    await driver.press("escape", "1", "r")
    await until(lambda: driver.view.model.window.loaded)
    await driver.sees("● online", "Till")


async def test_revoking_the_dashboards_own_key_says_what_comes_of_it(driver: Driver) -> None:
    await driver.press("9", sees="1 of 1")
    await driver.press("X", sees="This dashboard uses this key and will lose access.")
    await driver.press("y")
    assert isinstance(driver.app.screen, ConfirmScreen)
    last4 = (driver.view.selected or {})["last4"]
    await driver.press("ctrl+u")
    await driver.type(last4, "enter", sees="✕ 401: this key is not accepted")


async def test_in_live_mode_revoking_asks_for_its_last_characters(driver: Driver) -> None:
    await create(driver)
    await driver.press("escape")
    driver.turn_live()
    await driver.press("X", sees=("◆ LIVE · Confirm", "to confirm, then press enter"))
    assert f"Type {(driver.view.selected or {})['last4']} to confirm" in driver.text()
    await driver.press("y")
    assert isinstance(driver.app.screen, ConfirmScreen)


async def test_an_unknown_scope_is_reported_under_its_field(driver: Driver) -> None:
    await driver.press("9", "n")
    await driver.press("tab", "tab")
    await driver.type("read:everything", "ctrl+s", sees=("✕ ", "scopes"))
    assert len(driver.app.screen_stack) == 2
