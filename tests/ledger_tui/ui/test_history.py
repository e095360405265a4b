from ledger_tui.ui.view import Location, NavigationHistory, RecentObjects, recent_of

A, B, C = Location("accounts"), Location("transactions", {"type": "debit"}), Location("accounts", {}, "acc_1")


def test_back_and_forward_are_a_browsers() -> None:
    history = NavigationHistory()
    history.leave(A)
    history.leave(B)
    assert history.back(C) == B
    assert history.back(B) == A
    assert history.back(A) is None
    assert history.forward(A) == B
    assert history.forward(B) == C
    assert history.forward(C) is None


def test_going_somewhere_new_forgets_what_was_ahead() -> None:
    history = NavigationHistory()
    history.leave(A)
    assert history.back(B) == A
    history.leave(A)
    assert history.forward(C) is None
    assert history.back(C) == A


def test_a_spot_is_not_come_back_to_from_itself() -> None:
    history = NavigationHistory()
    history.leave(A)
    history.leave(B)
    assert history.back(B) == A


def test_it_is_of_limited_length() -> None:
    history = NavigationHistory()
    for number in range(500):
        history.leave(Location("accounts", {}, str(number)))
    steps = 0
    here = A
    while (spot := history.back(here)) is not None:
        here, steps = spot, steps + 1
    assert steps == 100


def test_the_objects_looked_at_last_come_first_and_once() -> None:
    recent = RecentObjects()
    for number in (*range(60), 30):
        recent.saw(recent_of("accounts", {"id": f"acc_{number}", "name": f"Account {number}"}))
    seen = [each.record_id for each in recent]
    assert seen[:2] == ["acc_30", "acc_59"]
    assert len(seen) == len(set(seen)) == 50


def test_an_object_is_called_by_its_name_number_or_text() -> None:
    assert recent_of("accounts", {"id": "acc_1", "name": "Till"}).label == "Till"
    assert recent_of("invoices", {"id": "inv_1", "number": None, "customer": "Ada"}).label == "Ada"
    assert recent_of("orders", {"id": "ord_1"}).label == ""
