import pytest

from ledger_tui.client.token_pair import EARLY_SECONDS, Tokens

ANSWER = {"access_token": "at_1", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "rt_1"}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_pair_is_due_five_minutes_before_it_ends() -> None:
    clock = Clock()
    tokens = Tokens(clock)
    tokens.take(ANSWER)
    assert (tokens.left, tokens.due_in) == (3600, 3600 - EARLY_SECONDS)
    clock.now += 3600 - EARLY_SECONDS
    assert (tokens.left, tokens.due_in) == (EARLY_SECONDS, 0)
    clock.now += 10_000
    assert (tokens.left, tokens.due_in) == (0, 0)


def test_a_token_that_lasts_shorter_than_the_margin_is_due_at_half_its_time() -> None:
    tokens = Tokens(Clock())
    tokens.take({**ANSWER, "expires_in": 60})
    assert tokens.due_in == 30


def test_without_a_refresh_token_nothing_is_due() -> None:
    tokens = Tokens(Clock())
    assert tokens.due_in is None
    tokens.take({"access_token": "at_1"})
    assert (tokens.due_in, tokens.left) == (None, 3600)


def test_a_pair_that_loses_its_refresh_token_lasts_to_its_end() -> None:
    tokens = Tokens(Clock())
    tokens.lose_refresh()  # before there are any
    assert tokens.pair is None
    tokens.take(ANSWER)
    tokens.lose_refresh()
    assert (tokens.due_in, tokens.left) == (None, 3600)


@pytest.mark.parametrize("answer", [{}, {"access_token": 5}, {"access_token": "a\nb"}, {"access_token": "ä"}])
def test_an_answer_without_an_access_token_is_refused_and_the_pair_kept(answer: dict[str, object]) -> None:
    tokens = Tokens(Clock())
    before = tokens.take(ANSWER)
    with pytest.raises(ValueError, match="no access token"):
        tokens.take(answer)
    assert tokens.pair is before
