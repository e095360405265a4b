"""The status bar fits its words into the width."""

from ledger_tui.client.session import Session
from ledger_tui.ui.status_bar import breadcrumbs, connection


def test_a_long_sentence_gives_way_to_what_comes_of_it() -> None:
    session = Session()
    session.ended("the server ended and had a great many words to say about the reasons for it")
    assert connection(session, 40).plain == "✕ the server ended and … · R restarts it"


def test_a_try_that_is_due_is_under_way_and_seconds_are_never_none() -> None:
    now = 100.0
    session = Session(clock=lambda: now)
    session.lost("connection refused")
    session.will_retry(2, 0.5)
    assert connection(session).plain == "✕ connection refused · try 2 in 1 s"
    now += 0.5
    assert connection(session).plain == "✕ connection refused · trying now…"


def test_the_way_back_folds_from_its_beginning_and_keeps_its_last_step() -> None:
    trail = ("Overview", "Invoice INV-000001", "Account Till")
    assert breadcrumbs(trail, 80).plain == "   Overview › Invoice INV-000001 › Account Till ›"
    assert breadcrumbs(trail, 45).plain == "   … › Invoice INV-000001 › Account Till ›"
    assert breadcrumbs(trail, 24).plain == "   … › Account Till ›"
    assert breadcrumbs(trail, 14).plain == "   … › Accoun…"
    assert breadcrumbs(trail, 8).plain == breadcrumbs((), 80).plain == ""
