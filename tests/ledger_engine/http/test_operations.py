"""What is declared of a route is done for it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from ledger_engine.http.operations import Operation
from tests.ledger_engine.exercises import OPERATIONS

SECRETS = {"access_token", "refresh_token", "secret", "key", "api_key"}


def names_of(answer: type[Any] | None) -> set[str]:
    if answer is None:
        return set()
    if is_dataclass(answer):
        return {field.name for field in fields(answer)}
    return set(getattr(answer, "model_fields", {}))


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_an_answer_with_a_secret_is_declared_as_one(operation: Operation) -> None:
    assert operation.secret == bool(names_of(operation.answer) & SECRETS)
