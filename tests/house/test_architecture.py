"""docs/architecture.md names each package, in the order in which the packages may import each other."""

import re
import tomllib
from pathlib import Path

import pytest

PROGRAMS = ["ledger_engine", "ledger_tui"]


@pytest.fixture
def page(root: Path) -> str:
    return (root / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_package_is_named(program: str, root: Path, page: str) -> None:
    packages = {file.parent.name for file in (root / "src" / program).glob("*/__init__.py")}
    assert {name for name in packages if f"| `{name}/` |" not in page} == set()


def test_each_module_and_folder_that_it_names_is_there(root: Path, page: str) -> None:
    named = re.findall(r"`([\w/]+(?:\.py|/))`", page)
    assert len(named) > 80
    assert [name for name in named if not any(root.glob(f"src/**/{name}"))] == []


def test_the_packages_of_the_engine_stand_in_the_order_of_their_layers(root: Path, page: str) -> None:
    table = page.split("## The packages of the engine")[1].split("Within `http/`")[0]
    named = re.findall(r"(?m)^\| `(\w+)/`", table)
    contracts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = contracts["contracts"][0]["layers"]
    rank = {name: rank for rank, layer in enumerate(layers) for name in re.findall(r"\w+", layer)}
    assert [rank[name] for name in named] == sorted(rank[name] for name in named)
