"""Each rule of the contract pages is proven, and each test that names a rule names one that is there.

A rule is proven by a test that names it, or by `conform`, when a server that breaks it is told by its name.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from ledger_engine.http.errors import CODES
from ledger_engine.tools.conform.examiner import RULES
from tests.house.pages import rules
from tests.ledger_engine.tools.conform.broken import PROVEN


def proven(root: Path) -> Iterator[str]:
    """Yield the rules that tests name with `@holds(…)`."""
    for file in sorted((root / "tests").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "holds(" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "holds":
                yield from (str(rule.value) for rule in node.args if isinstance(rule, ast.Constant))


def test_every_rule_is_proven_and_every_named_rule_is_there(root: Path) -> None:
    names = {*RULES, *(name for _, name in rules())}
    tested = PROVEN | set(proven(root))
    assert {"rules without a test": names - tested, "names of no rule": tested - names} == {
        "rules without a test": set(),
        "names of no rule": set(),
    }


def test_the_examiner_has_the_rules_of_the_interface_in_its_words() -> None:
    assert list(RULES) == [name for _, name in rules() if name in RULES]
    assert len(RULES) == 118
    assert RULES["account-id"] == "`id`; string; starts with `acc_`"
    assert RULES["service-times"] == "A time is written in ISO 8601 and is UTC."
    assert not [
        name for name, sentence in RULES.items() if not sentence or re.search(r"[\[|]|\*\*", sentence)
    ]


def test_a_rule_has_one_name_that_is_its_anchor_and_no_other_rule_has() -> None:
    found = rules()
    assert len(found) > 150
    assert [rule for rule in found if rule[0] != rule[1]] == []
    assert len({name for _, name in found}) == len(found)


def test_the_table_of_codes_is_that_of_the_server(root: Path) -> None:
    page = (root / "docs" / "decisions.md").read_text(encoding="utf-8")
    status, written = 0, dict[int, set[str]]()
    for row in re.findall(r"(?m)^\| (?:(\d{3}) )?\|[^|]*\| (`[a-z_` ]+`) \|$", page):
        status = int(row[0] or status)
        written.setdefault(status, set()).update(row[1].replace("`", "").split())
    assert written == {status: set(codes) for status, (_, codes) in CODES.items()}
