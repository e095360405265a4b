import time
from datetime import UTC, datetime

import pytest

from ledger_tui.client.session import ConnectionState, Mode, Session


def test_the_key_decides_the_mode() -> None:
    session = Session()
    session.begin("http://127.0.0.1:8700", "sk_live_x")
    assert session.mode is Mode.LIVE


def test_a_record_of_the_live_mode_outweighs_the_key() -> None:
    session = Session()
    session.begin("http://127.0.0.1:8700", "sk_test_x")
    session.saw_livemode(True)
    assert session.mode is Mode.LIVE


def test_without_key_or_record_the_mode_is_unknown() -> None:
    session = Session()
    session.begin("http://127.0.0.1:8700", "at_x")
    session.saw_livemode(None)
    assert session.mode is Mode.UNKNOWN


def test_an_answer_that_is_read_after_the_own_server_ended_does_not_hide_that() -> None:
    session = Session()
    session.begin("http://127.0.0.1:8700", None)
    session.ended("killed")
    session.answered(200, {"x-ratelimit-limit": "6000"})
    session.lost("connection refused")
    assert (session.state, session.sentence, session.limit) == (ConnectionState.ENDED, "killed", 6000)
    session.starting()
    session.begin("http://127.0.0.1:8701", None)
    session.answered(200, {})
    assert session.state is ConnectionState.ONLINE


def test_an_answer_ends_a_lost_connection() -> None:
    session = Session()
    session.lost("connection refused")
    session.will_retry(3, 2.0)
    assert (session.state, session.retries) == (ConnectionState.LOST, 3)
    session.answered(200, {})
    assert (session.state, session.retries, session.sentence) == (ConnectionState.ONLINE, 0, "")


def test_the_rate_limit_is_read_from_any_answer_and_nonsense_is_ignored() -> None:
    session = Session()
    session.answered(404, {"x-ratelimit-limit": "600", "x-ratelimit-remaining": "7"})
    session.answered(200, {"x-ratelimit-limit": "-1", "x-ratelimit-remaining": "²"})
    assert (session.limit, session.remaining) == (600, 7)


def test_an_answer_that_changes_only_the_rest_of_the_limit_has_nothing_redrawn() -> None:
    session, changes = Session(), []
    session.answered(200, {"x-ratelimit-remaining": "8"})
    session.on_change = lambda: changes.append(session.state)
    session.answered(200, {"x-ratelimit-remaining": "7"})
    assert changes == []
    session.answered(401, {})
    assert changes == [ConnectionState.REFUSED]


def test_a_wait_lasts_as_long_as_was_asked() -> None:
    now = 100.0
    session = Session(clock=lambda: now)
    session.rate_limited(12)
    assert session.waiting_seconds == 12
    now = 113.0
    assert session.waiting_seconds == 0


def test_looking_takes_at_most_a_quarter_of_the_plan() -> None:
    session = Session()
    session.answered(200, {"x-ratelimit-limit": "60"})
    assert 60 / session.poll_seconds <= 60 / 4
    session.answered(200, {"x-ratelimit-limit": "6000"})
    assert session.poll_seconds == 2.0


def test_reading_page_by_page_slows_down_when_half_of_the_limit_is_used() -> None:
    session = Session()
    session.answered(200, {"x-ratelimit-limit": "60", "x-ratelimit-remaining": "40"})
    assert session.look_pause < 1
    session.answered(200, {"x-ratelimit-limit": "60", "x-ratelimit-remaining": "29"})
    assert session.look_pause == session.pause_after(1) == 4.0


@pytest.mark.parametrize("offset", [10**400, -(10**30), 1e300, "1", None, True])
def test_a_clock_that_is_too_far_ahead_is_not_believed(offset: object) -> None:
    session = Session()
    session.saw_clock(offset)
    session.answered(200, {"date": "Fri, 31 Dec 9999999 23:59:59 GMT"})
    assert abs(session.server_time - time.time()) < 3600


def test_why_nothing_can_be_changed() -> None:
    session = Session()
    assert session.forbids_changes == ""
    session.saw_scopes(["read:projects"])
    assert session.forbids_changes == "Read-only: this credential lacks write:projects."
    session.saw_scopes(["read:projects", "write:projects"])
    assert session.forbids_changes == ""
    session.saw_scopes(None)
    assert session.forbids_changes == ""
    assert Session(read_only=True).forbids_changes == "Read-only: this dashboard changes nothing."


def test_the_servers_time_is_one_that_a_date_can_have() -> None:
    session = Session()
    session.answered(200, {"date": "Fri, 31 Dec 9999 23:59:59 -0900"})
    assert datetime.fromtimestamp(session.server_time, UTC).year == 9999


def test_a_request_without_an_answer_is_news_after_a_while_and_any_answer_ends_it() -> None:
    now = 100.0
    session = Session(clock=lambda: now)
    session.answered(200, {})
    first = session.sent()
    now += 2
    assert (session.unanswered_seconds, session.answers) == (0, True)
    now += 2
    assert (session.unanswered_seconds, session.answers) == (4, False)
    session.answered(200, {})  # to another request: it does answer
    assert session.answers
    now += 60
    session.done(first)
    assert session.answers


def test_a_server_that_was_a_ledger_once_is_not_called_another_program_for_one_strange_answer() -> None:
    session = Session()
    session.saw_no_ledger()
    session.answered(200, {})
    assert session.state is ConnectionState.FOREIGN
    session.saw_ledger()
    session.saw_no_ledger()
    assert session.state is ConnectionState.ONLINE
    session.begin("http://127.0.0.1:8701", "sk_test_x")
    session.saw_no_ledger()
    assert session.state is ConnectionState.FOREIGN
