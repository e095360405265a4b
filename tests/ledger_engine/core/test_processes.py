"""The messages between the processes that a program starts."""

from __future__ import annotations

from typing import Any

import pytest

from ledger_engine.core.processes import Messages, UnreadableMessage, framed


def test_messages_come_whole_however_they_are_cut() -> None:
    sent = [("drop", "é"), ("jobs", (1, "a"), (2, "b\n")), ("stop", 0.5)]
    data = b"".join(map(framed, sent))
    for size in range(1, len(data) + 1):
        messages = Messages()
        found: list[tuple[Any, ...]] = []
        for start in range(0, len(data), size):
            found += messages.feed(data[start : start + size])
        assert found == sent


def test_an_object_that_cannot_be_a_message_is_refused_and_not_waited_for() -> None:
    with pytest.raises(UnreadableMessage, match="1869226587 bytes"):
        next(Messages().feed(b'["jobs",1]\n'))
