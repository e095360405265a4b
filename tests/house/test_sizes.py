"""Rooms stay small: no file over 600 lines, no function over 70 (CONTRIBUTING.md)."""

import ast
from pathlib import Path

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70


def test_no_file_is_over_600_lines(sources: list[Path]) -> None:
    long = {str(file): lines for file in sources if (lines := _lines(file)) > FILE_LINES_MAX}
    assert long == {}


def test_no_function_is_over_70_lines(sources: list[Path]) -> None:
    long = {
        f"{file}:{node.lineno} {node.name}": lines
        for file in sources
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert long == {}


def _lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())
