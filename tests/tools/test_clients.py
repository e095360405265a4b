"""What `make clients` says of a generator: it worked, failed with the reason, or is not installed."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.clients import trying
from tools.clients.__main__ import status
from tools.clients.generators import GENERATORS, GO, LINTERS, TYPESCRIPT, Generator
from tools.clients.trying import FAILED, NOT_INSTALLED, WORKED, Broken, Outcome

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "clients.md"
ANY = Generator("any", "openapi_python_client.py", generate=(), call=())


def test_each_generator_has_a_program_and_pinned_packages() -> None:
    for generator in GENERATORS:
        assert (trying.CALLS / generator.program).is_file()
        assert all(re.fullmatch(r"[\w-]+==[\w.]+", package) for package in generator.python)
        assert generator.python or generator.node
    for tool in (*GENERATORS, *LINTERS):
        assert all(re.fullmatch(r".+@\d+\.\d+\.\d+", package) for package in tool.node)


def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    outcome = trying.try_generator(
        dataclasses.replace(ANY, needs=("no-such-program",)), tmp_path / "openapi.json", tmp_path / "any"
    )
    assert str(outcome) == "any: not installed: there is no no-such-program on this machine"


@pytest.mark.process
@pytest.mark.parametrize(
    ("step", "state"), [("install", NOT_INSTALLED), ("generate", FAILED), ("check", FAILED)]
)
def test_a_command_that_fails_is_named_with_what_it_said(tmp_path: Path, step: str, state: str) -> None:
    failing = (sys.executable, "-c", "raise SystemExit('no schema is known')")
    outcome = trying.try_generator(
        dataclasses.replace(ANY, **{step: (failing,)}), tmp_path / "openapi.json", tmp_path / "any"
    )
    assert outcome.state == state
    assert "no schema is known" in outcome.why
    assert (tmp_path / "any").exists() is (step != "install")  # half an installation is not kept


MADE: dict[str, Any] = {
    "account": "acc_1",
    "transaction": "txn_1",
    "listed": ["txn_1"],
    "refused": "duplicate_idempotency_key",
}


@pytest.mark.parametrize(
    ("made", "balance"),
    [
        (MADE, 0),
        ({**MADE, "listed": []}, trying.AMOUNT),
        ({**MADE, "listed": ["txn_1", "txn_2"]}, trying.AMOUNT),
        ({**MADE, "refused": None}, trying.AMOUNT),
    ],
)
def test_a_client_that_did_not_do_what_it_says_is_found_out(
    monkeypatch: pytest.MonkeyPatch, made: dict[str, Any], balance: int
) -> None:
    def served(url: str) -> dict[str, Any]:
        if "/accounts/" in url:
            return {"id": "acc_1", "name": "Till", "balance": balance}
        return {"id": "txn_1", "account": "acc_1"}

    monkeypatch.setattr(trying, "_get", served)
    with pytest.raises(Broken):
        trying.check(made, "http://ledger.example")
    balance = trying.AMOUNT  # which `served` answers with from now on
    trying.check(MADE, "http://ledger.example")


def test_a_warning_of_a_linter_is_a_complaint() -> None:
    redocly = "validating ../openapi.json...\n  3:2       warning  info-license  Info object should …\n"
    spectral = "    3:9    warning  info-contact   Info object must have …\n 9:1  error  parser  Unknown\n"
    assert trying.complaints(redocly) == ["3:2 warning info-license Info object should …"]
    assert len(trying.complaints(spectral)) == 2
    assert trying.complaints("No results with a severity of 'error' found!\nYou have 0 warnings.\n") == []


def test_nothing_installed_is_no_success() -> None:
    worked, failed, absent = (Outcome("any", state) for state in (WORKED, FAILED, NOT_INSTALLED))
    assert status([worked, absent]) == 0
    assert status([worked, failed]) == 1
    assert status([absent, absent]) == 1


def test_the_page_names_each_generator_and_its_release() -> None:
    page = PAGE.read_text(encoding="utf-8")
    packages = {package for each in GENERATORS for package in (*each.python[:1], *each.node[:1])}
    for package in packages - {TYPESCRIPT, GO}:
        name, release = re.split(r"==|(?<=.)@", package)
        assert f"{name.removesuffix('-cli')} {release}" in page
    assert all(generator.name.partition(" ")[0] in page for generator in GENERATORS)
