"""The environment and the version of processes that a program starts, and the messages between them."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ledger_engine
from ledger_engine.core.processes import Messages, UnreadableMessage, fingerprint, framed, pickled_by_fields
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger.transactions import NewTransaction

# Environment and version


def test_the_fingerprint_changes_with_a_file_and_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "ledger_engine"
    for name in ("__init__.py", "core/__init__.py", "core/ids.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(ledger_engine.__file__).parent / name, package / name)
    monkeypatch.setattr(ledger_engine, "__file__", str(package / "__init__.py"))
    first = fingerprint()
    (package / "core/ids.py").touch()
    (package / "core/ids.pyc").write_bytes(b"compiled")
    assert fingerprint() == first
    (package / "core/ids.py").rename(package / "core/names.py")
    second = fingerprint()
    with (package / "core/names.py").open("a") as file:
        file.write("#")
    assert len({first, second, fingerprint()}) == 3


# Messages


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
