"""All dialogs share these rules."""

from textual.screen import Screen

from tests.ledger_tui.driving import Driver


def styles_of(screen: Screen[object]) -> dict[object, object]:
    """Return the styles of each widget and of its parts."""
    return {
        widget: (widget.styles.base.css, {name: part.css for name, part in widget._component_styles.items()})
        for widget in screen.walk_children(with_self=True)
    }


async def test_the_styles_from_mounting_are_the_final_ones(with_till: Driver) -> None:
    for key in ("escape", "question_mark", "n", "J", "colon", "o", "ctrl+t", "ctrl+e"):
        await with_till.press(key)
        screen = with_till.app.screen
        assert (screen is with_till.app.dashboard) == (key == "escape")
        at_first = styles_of(screen)
        screen.update_node_styles(animate=False)
        assert styles_of(screen) == at_first
        await with_till.press("escape")
