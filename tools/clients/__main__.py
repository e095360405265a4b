"""Generate a client with each generator and use it against a server; one line for each.

`python -m tools.clients` tries all, `python -m tools.clients hey spectral` those whose names have one of the
words. Everything is installed below build/clients. The exit status is 0 when none failed and at least one
worked; what could not be installed is named, and counts as neither.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.servers import ledger
from tools.clients.generators import GENERATORS, LINTERS
from tools.clients.trying import FAILED, WORKED, Outcome, try_generator, try_linter

FOLDER = Path(__file__).resolve().parents[2] / "build" / "clients"


def main() -> None:
    words = sys.argv[1:]
    FOLDER.mkdir(parents=True, exist_ok=True)
    document = FOLDER / "openapi.json"
    document.write_text(json.dumps(_served(), indent=1, ensure_ascii=False), encoding="utf-8")
    outcomes = []
    for name, attempt in _attempts(document):
        if not words or any(word in name for word in words):
            outcomes.append(attempt())
            print(outcomes[-1], flush=True)
    sys.exit(status(outcomes))


def status(outcomes: Sequence[Outcome]) -> int:
    """Return the exit status: 1 if one failed, or if none worked."""
    states = {outcome.state for outcome in outcomes}
    return 1 if FAILED in states or WORKED not in states else 0


def _attempts(document: Path) -> Iterator[tuple[str, Callable[[], Outcome]]]:
    for generator in GENERATORS:
        yield generator.name, partial(try_generator, generator, document, _folder(generator.name))
    for linter in LINTERS:
        yield linter.name, partial(try_linter, linter, document, _folder(linter.name))


def _folder(name: str) -> Path:
    return FOLDER / re.sub(r"\W+", "-", name).strip("-")


def _served() -> object:
    """Return the document of a server with test helpers, which is that of every server and more."""
    with (
        TemporaryDirectory() as data,
        ledger(Path(data) / "ledger.db", "--test-helpers") as url,
        urllib.request.urlopen(f"{url}/openapi.json") as answer,
    ):
        document: object = json.load(answer)
    return document


if __name__ == "__main__":
    main()
