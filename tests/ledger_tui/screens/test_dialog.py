"""What all dialogs have in common."""

from textual.screen import Screen

from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer


def styles_of(screen: Screen[object]) -> dict[object, object]:
    """Return the styles of each widget and of its parts."""
    return {
        widget: (widget.styles.base.css, {name: part.css for name, part in widget._component_styles.items()})
        for widget in screen.walk_children(with_self=True)
    }


async def test_the_styles_from_mounting_are_the_final_ones(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Till")
    async with dashboards.open() as driver:
        for key in ("escape", "question_mark", "n", "J", "colon", "o", "ctrl+t", "ctrl+e"):
            await driver.press(key)
            screen = driver.app.screen
            assert (screen is driver.app.dashboard) == (key == "escape")
            at_first = styles_of(screen)
            screen.update_node_styles(animate=False)
            assert styles_of(screen) == at_first
            await driver.press("escape")
