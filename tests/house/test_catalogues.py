"""The catalogues of errors and events match the code; `make catalogues` writes them."""

from pathlib import Path

from ledger_engine.events import outbox
from ledger_engine.http.errors import CODES, OAUTH_CODES
from tools import error_page, event_page


def test_the_catalogue_of_errors_is_what_the_code_gives(root: Path) -> None:
    written = (root / "docs" / "errors.md").read_text(encoding="utf-8")
    assert written == error_page.page(), "docs/errors.md is out of date: make catalogues"


def test_the_catalogue_of_events_is_what_the_code_gives(root: Path) -> None:
    written = (root / "docs" / "events.md").read_text(encoding="utf-8")
    assert written == event_page.page(), "docs/events.md is out of date: make catalogues"


def test_each_code_has_a_meaning_and_a_message() -> None:
    codes = {code for _, codes in CODES.values() for code in codes}
    assert error_page.MEANINGS.keys() == codes
    assert error_page.messages().keys() == codes
    assert error_page.OAUTH_MEANINGS.keys() == {code for codes in OAUTH_CODES.values() for code in codes}


def test_each_kind_of_event_has_a_meaning_and_an_example_of_that_kind() -> None:
    assert tuple(event_page.MEANINGS) == outbox.KINDS
    bodies = event_page.bodies()
    assert tuple(bodies) == outbox.KINDS
    assert all(f'"type":"{kind}"' in body for kind, body in bodies.items())
