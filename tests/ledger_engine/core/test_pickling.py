"""What is pickled for another process comes back as it was."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from ledger_engine.core.pickling import Messages, UnreadableMessage, framed, pickled_by_fields
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger.transactions import NewTransaction


@pickled_by_fields
@dataclass(slots=True)
class Pair:
    left: object
    right: object = None


@pytest.mark.parametrize(
    "value",
    [
        Pair(1, Pair("a")),
        Tenant("prj_1", True, "member", frozenset({"read:users"}), 5, False, "key_1", "req_1", -7),
        NewTransaction("acc_1", 5, "credit", None, "acc_2"),
    ],
)
def test_a_value_comes_back_equal_and_is_an_object_of_its_own(value: object) -> None:
    again = pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    assert again == value
    assert type(again) is type(value)
    assert again is not value


def test_what_is_pickled_names_no_field() -> None:
    assert b"right" not in pickle.dumps(Pair(1, 2), pickle.HIGHEST_PROTOCOL)


def test_messages_come_whole_however_they_are_cut() -> None:
    sent = [("drop", "é"), ("jobs", (1, "a"), (2, "b\n")), ("stop", 0.5)]
    data = b"".join(map(framed, sent))
    for size in range(1, len(data) + 1):
        messages = Messages()
        found: list[tuple[Any, ...]] = []
        for start in range(0, len(data), size):
            found += messages.feed(data[start : start + size])
        assert found == sent


def test_what_cannot_be_a_message_is_refused_and_not_waited_for() -> None:
    with pytest.raises(UnreadableMessage, match="1869226587 bytes"):
        next(Messages().feed(b'["jobs",1]\n'))
