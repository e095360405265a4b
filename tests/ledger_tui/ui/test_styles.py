"""The dashboard's colours suit the terminal."""

from __future__ import annotations

import pytest

from ledger_tui.settings.config import Config
from ledger_tui.ui.styles import ABOUT, background_of
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.drawn import dashboard_drawn_for

LIVE_KEY = "sk_live_0123456789abcdefghijklmnopqrstuv"
_YELLOW, _RED, _GREEN = "3", "1", "2"


@pytest.mark.process
@pytest.mark.parametrize("term", ["xterm", "linux"])
def test_a_terminal_of_16_colors_shows_the_mode_and_a_problem_in_its_own_colors(term: str) -> None:
    with ContractServer(key=LIVE_KEY) as server:
        server.add_account("Till")
        with dashboard_drawn_for(server.url, LIVE_KEY, term=term) as dashboard:
            dashboard.sees("LIVE", "online", "Till")
            assert dashboard.screen.pens_of("LIVE") == {f"a1|b4{_YELLOW}|f30"}
            pens = {pen for line in dashboard.screen.cells for _character, pen in line}
            assert not [pen for pen in pens if "38;" in pen or "48;" in pen]
            for _request in range(30):  # also those that are on their way before the key is pressed
                server.refuse(401, {"error": {"type": "authentication_error", "message": "no"}})
            dashboard.press("2")
            dashboard.sees("401")
            cells = dashboard.screen.cells
            dashboard.reads_until(lambda: any(f"f3{_RED}" in pen for line in cells for _, pen in line), "red")


@pytest.mark.process
@pytest.mark.parametrize(
    ("environment", "background"),
    [
        ({"term": "xterm-256color"}, "b48;5;73"),
        ({"term": "xterm", "COLORTERM": "truecolor"}, "b48;2;95;179;161"),
        ({"term": "xterm"}, f"b4{_GREEN}"),
        ({"term": "xterm", "NO_COLOR": "1"}, "b47"),
    ],
    ids=["256", "true colour", "16", "none"],
)
def test_a_terminal_gets_as_many_colors_as_it_has(environment: dict[str, str], background: str) -> None:
    with ContractServer() as server, dashboard_drawn_for(server.url, server.key, **environment) as dashboard:
        dashboard.sees("TEST", "online")
        assert {pen.split("|")[0] for pen in dashboard.screen.pens_of("TEST")} == {background}


@pytest.mark.parametrize("theme", ABOUT)
def test_a_browser_gets_a_background_that_it_knows(theme: str) -> None:
    assert background_of(Config(theme=theme)).startswith("#")
