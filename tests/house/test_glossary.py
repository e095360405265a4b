"""The glossary is true: each class or type that it names is in the code."""

import ast
import re
from pathlib import Path

# `Tenant`, `GroupCommit`: a name in the form of a class, and nothing around it.
CODE_NAME = re.compile(r"`([A-Z][a-z]\w*)`")


def test_each_code_name_in_the_glossary_is_in_the_code(root: Path) -> None:
    names = set(CODE_NAME.findall((root / "docs" / "glossary.md").read_text(encoding="utf-8")))
    assert names, "the glossary names no class"
    defined: set[str] = set()
    for file in (root / "src").rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                defined.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                defined.add(node.target.id)  # such as `Work: TypeAlias = …`
    assert names - defined == set()
