"""The screen of the credential also works if the server reports little."""

from __future__ import annotations

from ledger_tui.features.token import TokenView
from ledger_tui.resources.registry import PLACE_OF_KIND
from tests.ledger_tui.alone import unconnected


def lines(drawn: object) -> list[str]:
    assert isinstance(drawn, list)
    return [" ".join("".join(cell.text for cell in line).split()) for line in drawn]


def test_without_a_credential_it_says_that_there_is_none() -> None:
    view = TokenView(PLACE_OF_KIND["token"], unconnected())
    assert lines(view._draw_credential(60, 20))[:3] == ["in use none", "kind API key", "mode not known"]


def test_a_credential_of_a_user_says_for_whom_it_acts() -> None:
    view = TokenView(PLACE_OF_KIND["token"], unconnected())
    view.whoami = {"id": "key_1", "role": "member", "scopes": [], "user": "usr_1", "project": "prj_1"}
    shown = lines(view._draw_credential(60, 20))
    assert shown[shown.index("acts for usr_1") + 1] == "project prj_1"
    view.whoami = {**view.whoami, "user": None}
    assert lines(view._draw_credential(60, 20)) == [each for each in shown if "acts for" not in each]


def test_a_server_without_rate_limit_has_it_said() -> None:
    context = unconnected()
    view = TokenView(PLACE_OF_KIND["token"], context)
    assert "this minute this server does not send its rate limit" in lines(view._draw_limits(60, 20))
    context.session.limit, context.session.remaining = 600, 540
    shown = lines(view._draw_limits(60, 20))
    assert "this minute 540 of 600 left" in shown
    assert not any("no rate limit" in each for each in shown)


def test_what_has_no_limit_is_said_to_have_none() -> None:
    view = TokenView(PLACE_OF_KIND["token"], unconnected())
    view.whoami, view.billing = {"id": "key_1"}, {"stored_objects": 5560}
    assert lines(view._draw_limits(60, 20))[-2:] == ["stored 5,560 objects, no limit", "endpoints no limit"]
    view.whoami = {"id": "key_1", "stored_objects_max": 10_000, "webhook_endpoints_max": 16}
    assert lines(view._draw_limits(60, 20))[-2:] == ["stored 5,560 of 10,000 objects", "endpoints up to 16"]
