"""What all tests share: how long the fault runs go, and from which seed the random ones start."""

import random

import pytest
from hypothesis import settings

# No test may depend on speed, and a failure must say how to get it again.
settings.register_profile("ledger", deadline=None, print_blob=True)
settings.load_profile("ledger")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ledger")
    group.addoption("--soak", type=int, default=1, metavar="N", help="make the fault runs N times as long")
    group.addoption(
        "--seed", type=int, metavar="N", help="start random runs from N; a failure shows the N it had"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests whose length `--soak` sets, for `-m soak`; a long run has no time limit."""
    for item in items:
        if "soak" in getattr(item, "fixturenames", ()):
            item.add_marker("soak")
            if config.getoption("--soak") > 1:
                item.add_marker(pytest.mark.timeout(0), append=False)


@pytest.fixture
def soak(request: pytest.FixtureRequest) -> int:
    """How many times its short length a fault run goes: 1, or what `--soak` says."""
    return int(request.config.getoption("--soak"))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Where a random run starts; printed, and shown by pytest when the test fails."""
    given = request.config.getoption("--seed")
    chosen = random.SystemRandom().randrange(2**32) if given is None else int(given)
    print(f"--seed {chosen}")
    return chosen
