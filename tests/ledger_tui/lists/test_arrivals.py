"""The rows that were under the cursor of a list until newer rows arrived."""

from ledger_tui.lists.list_model import ListModel
from ledger_tui.resources.registry import BY_KIND
from tests.ledger_tui.alone import unconnected
from tests.ledger_tui.lists.test_list_model import HEIGHT, accounts, answer


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def following_list(clock: Clock) -> ListModel:
    """Return a model with the row of account 1, which follows the newest row."""
    context = unconnected()
    context.session.clock = clock
    model = ListModel(BY_KIND["accounts"], context)
    answer(model, model.page_for(0, HEIGHT), accounts(1))
    return model


def test_of_several_arrivals_the_row_that_was_under_the_cursor_a_second_ago_is_being_read() -> None:
    clock = Clock()
    model = following_list(clock)
    assert model.row_being_read is None
    for number in (2, 3, 4):  # at 100.0, 100.4 and 100.8
        model.push(accounts(number))
        clock.now += 0.4
    clock.now = 101.2
    assert model.row_being_read == 2  # account 2, which was under the cursor at 100.2
    clock.now = 101.5
    assert model.row_being_read == 1
    clock.now = 101.9
    assert model.row_being_read is None
    assert model.has_arrived_just_now  # an action still needs a second press
    clock.now = 102.9
    assert not model.has_arrived_just_now


def test_rows_that_arrive_together_count_as_one_arrival() -> None:
    clock = Clock()
    model = following_list(clock)
    model.push(accounts(4, 3, 2))
    assert model.row_being_read == 3


def test_a_row_that_the_user_chose_is_being_read() -> None:
    clock = Clock()
    for choose in (lambda model: model.move(0), lambda model: model.follow(), lambda model: model.hold()):
        model = following_list(clock)
        model.push(accounts(2))
        assert model.row_being_read == 1
        choose(model)
        assert model.row_being_read is None


def test_other_filters_forget_the_rows_that_were_under_the_cursor() -> None:
    clock = Clock()
    model = following_list(clock)
    model.push(accounts(2))
    model.set_filters({})
    answer(model, model.page_for(0, HEIGHT), accounts(2, 1))
    assert model.row_being_read is None
