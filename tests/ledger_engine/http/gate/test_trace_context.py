"""Which `traceparent` is one, as W3C Trace Context defines it."""

from __future__ import annotations

import pytest

from ledger_engine.http.gate.trace_context import traceparent_of

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{PARENT}-01"


def parsed(*values: str) -> str | None:
    lines = [(b"accept", b"*/*"), *[(b"traceparent", value.encode("latin-1")) for value in values]]
    return traceparent_of(lines)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (GOOD, GOOD),
        (f"00-{TRACE}-{PARENT}-00", f"00-{TRACE}-{PARENT}-00"),
        (f"00-{TRACE}-{PARENT}-03", f"00-{TRACE}-{PARENT}-03"),
        (f" \t{GOOD}\t ", GOOD),
    ],
)
def test_a_valid_one_is_kept_as_it_is(sent: str, kept: str) -> None:
    assert parsed(sent) == kept


@pytest.mark.parametrize("rest", ["", "-", "-what-the-future-will-be-like", "-\xe9"])
def test_one_of_a_later_version_becomes_one_of_version_00(rest: str) -> None:
    assert parsed(f"cc-{TRACE}-{PARENT}-09{rest}") == GOOD
    assert parsed(f"01-{TRACE}-{PARENT}-fe{rest}") == f"00-{TRACE}-{PARENT}-00"


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "nonsense",
        GOOD[:-1],
        f"{GOOD}-",
        f"{GOOD}-01",
        f"{GOOD}0",
        GOOD.upper(),
        f"{GOOD}\n",
        f"ff-{TRACE}-{PARENT}-01",
        f"0-{TRACE}-{PARENT}-01",
        f"0.-{TRACE}-{PARENT}-01",
        f"cc-{TRACE}-{PARENT}-01.more",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"cc-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE[1:]}-{PARENT}-01",
        f"00-{TRACE}0-{PARENT}-01",
        f"00-{TRACE[:-1]}.-{PARENT}-01",
        f"00-{TRACE}-{PARENT[1:]}-01",
        f"00-{TRACE}-{PARENT[:-1]}\xe9-01",
        f"00-{TRACE}-{PARENT}-0g",
        f"00_{TRACE}_{PARENT}_01",
    ],
)
def test_an_invalid_one_is_ignored(sent: str) -> None:
    assert parsed(sent) is None


def test_two_of_them_are_ignored_as_is_none() -> None:
    assert parsed(GOOD, GOOD) is None
    assert parsed() is None
