"""The list of rules and the tests hold together."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.contract.rules import ELSEWHERE, LATER, RULES

ROOT = Path(__file__).parents[2]
HERE = ROOT / "tests" / "contract"


def shown() -> Iterator[str]:
    """The rules that tests of this folder say they show."""
    for file in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "holds":
                yield from (str(rule.value) for rule in node.args if isinstance(rule, ast.Constant))


def test_every_rule_has_a_test_or_is_still_to_come() -> None:
    assert set(RULES) - set(shown()) == LATER | set(ELSEWHERE)


def test_what_is_still_to_come_is_among_the_rules() -> None:
    assert set(RULES) >= LATER | set(ELSEWHERE)


def test_what_is_shown_elsewhere_is_there() -> None:
    assert [place for place in ELSEWHERE.values() if not any(ROOT.joinpath(place).rglob("test_*.py"))] == []
