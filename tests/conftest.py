"""Options and fixtures for all tests: the choice of quick tests, the length of fault runs, the seed of
random runs.
"""

import gc
import json
import random
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from cryptography import x509
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import settings

from ledger_engine.core.settings import Location
from tests.certificates import make_certificate
from tests.locations import new_ledger
from tests.made_once import compile_routes_once

# No test may depend on speed, and a failure must show how to reproduce it.
settings.register_profile("ledger", deadline=None, print_blob=True)
settings.load_profile("ledger")

compile_routes_once()

# A client without a time limit of its own would wait 5 s for an answer; a busy machine may take longer.
for part in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, part, 60.0)

# The tests and the modules they import exist until the end: checking them repeatedly in garbage collections
# takes a twentieth of the CPU time.
gc.disable()

# The marks of tests that `--quick` leaves out; hypothesis marks its own tests.
NOT_QUICK = "not (process or browser or dashboard or hypothesis or slow)"
# Folders in which every test has one of these marks: reading them would take a quarter of the collecting.
# `make check` runs the tests in `house`.
NEVER_QUICK = {Path(__file__).parent / each for each in ("browser", "contract", "dist", "faults", "house")}
NEVER_QUICK.add(Path(__file__).parent / "ledger_tui" / "screens")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ledger")
    group.addoption("--soak", type=int, default=1, metavar="N", help="make the fault runs N times as long")
    group.addoption(
        "--quick", action="store_true", help="leave out what starts a process or a dashboard, or is slow"
    )
    group.addoption(
        "--served-by",
        choices=("serve", "hypercorn", "uvicorn", "granian"),
        default="serve",
        help="serve the contract's tests by this ASGI server, and leave those out that are about ours",
    )
    group.addoption(
        "--database",
        choices=("sqlite", "postgres"),
        default="sqlite",
        help="what the tests of the engine run on, unless they are of one of both",
    )
    group.addoption(
        "--whole-textual",
        action="store_true",
        help="test dashboards on Textual as it is, which costs more CPU time",
    )
    group.addoption("--tally", type=Path, metavar="FILE", help="add what the fault runs counted to FILE")
    group.addoption("--steps", type=int, metavar="N", help="have the model take at least N steps")
    group.addoption(
        "--seed", type=int, metavar="N", help="start random runs from N; a failure shows the N it had"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make `--quick` and `--database postgres` deselect tests by their marks."""
    left_out = [NOT_QUICK] if config.getoption("--quick") else []
    left_out += ["not sqlite"] if config.getoption("--database") == "postgres" else []
    for each in left_out:
        asked_for = config.option.markexpr
        config.option.markexpr = f"({asked_for}) and {each}" if asked_for else each


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--quick`, leave out folders without a quick test, and do not even read them."""
    return True if config.getoption("--quick") and collection_path in NEVER_QUICK else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests whose length `--soak` sets, for `-m soak`; a long run has no time limit."""
    for item in items:
        if "soak" in getattr(item, "fixturenames", ()):
            item.add_marker("soak")
            if config.getoption("--soak") > 1:
                item.add_marker(pytest.mark.timeout(0), append=False)


def pytest_collection_finish() -> None:
    """Exclude the objects that the collection of tests created, garbage included, from garbage collection."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)


def pytest_unconfigure() -> None:
    """Collect garbage once, and make the later collections by pytest and Python cheap, which would visit
    all live objects several times.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
    """Leave the keywords out of the reports that the processes of a run send, which halves the time to
    send them.
    """
    data = yield
    if data is not None and "keywords" in data:
        data["keywords"] = {}
    return data


@pytest.fixture(scope="session", autouse=True)
def no_processes(request: pytest.FixtureRequest) -> None:
    """With `--quick`, make a test fail that starts a process."""
    if request.config.getoption("--quick"):
        sys.addaudithook(_refuse_processes)


def _refuse_processes(event: str, _arguments: tuple[Any, ...]) -> None:
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec"):
        raise AssertionError("a quick test starts no process: mark it with pytest.mark.process")


@pytest.fixture(scope="session")
def kind(request: pytest.FixtureRequest) -> str:
    """Return the kind of database for the tests, the value of `--database`."""
    return str(request.config.getoption("--database"))


@pytest.fixture
def location(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Location:
    """Return the location of an empty ledger for a test."""
    return new_ledger(getattr(request, "param", kind), tmp_path)


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> int:
    """Return how many times as long as its short form a long test has to be: 1, or the value of `--soak`."""
    return int(request.config.getoption("--soak"))


class Tally(Protocol):
    """Adds to the counts of a long test, such as kills and acknowledged changes."""

    def __call__(self, **counts: int) -> None: ...


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """Return the counter for a long test; its sums are added to the file of `--tally`."""
    sums: Counter[str] = Counter()
    yield sums.update
    file: Path | None = request.config.getoption("--tally")
    if file is not None:
        with file.open("a", encoding="utf-8") as opened:
            opened.write(json.dumps({"test": request.node.nodeid, "counts": sums}) + "\n")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Return the seed of a random run, and print it, so that pytest shows it if the test fails."""
    given = request.config.getoption("--seed")
    chosen = random.SystemRandom().randrange(2**32) if given is None else int(given)
    print(f"--seed {chosen}")
    return chosen


@pytest.fixture(scope="session", autouse=True)
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Trust a single certificate authority.

    Reading the usual 140 authorities takes 30 ms for each HTTP client, and no test leaves this machine.
    """
    certificate, _key = make_certificate(tmp_path_factory.mktemp("authority"), x509.DNSName("localhost"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(certificate))
        yield
