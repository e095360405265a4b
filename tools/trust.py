"""Run the campaigns of tests against faults, and write their table into tests/trust/RESULTS.md.

`make trust SCALE=…` runs this program. A campaign is a few tests in their long form, which count their
actions. Each campaign has a control, which shows that the campaign notices a fault. Two campaigns run at a
time.
"""

from __future__ import annotations

import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "tests" / "trust" / "RESULTS.md"
BEGIN, END = "<!-- the last run -->", "<!-- end of the last run -->"


FULL = 100  # the number that SCALE=full means
AT_ONCE = 2


@dataclass(frozen=True)
class Campaign:
    """The names of some tests, and a sentence about their control.

    At full scale each test is `full` times as long as in its short form.
    """

    name: str
    tests: Sequence[str]
    control: str
    full: int

    def length(self, scale: float) -> int:
        """Return how many times as long as its short form each test is at this scale."""
        return max(1, round(self.full * scale / FULL))


CONTROLS = "tests/trust/test_controls.py"
FAULTS = "tests/faults/test_"
WIRE = "tests/ledger_engine/http/wire/test_"
# The shortest campaigns come first, so that an interrupted run has finished most campaigns.
CAMPAIGNS = (
    Campaign(
        "three clients over HTTP, linearizable",
        ("tests/trust/test_linearizability.py",),
        "a read from a stale cache is told apart",
        340,
    ),
    Campaign(
        "heads and bodies read as h11 and llhttp read them",
        (
            f"{WIRE}framing.py::test_wrong_chunks_are_read_as_h11_reads_them_or_refused",
            f"{WIRE}head.py::test_every_head_is_read_as_h11_reads_it",
            f"{WIRE}head.py::test_a_head_that_llhttp_accepts_is_read_as_it_reads_it",
        ),
        f"a reader that takes more than it may is found ({CONTROLS})",
        200,
    ),
    Campaign(
        "calls of a server that fail (disk full, errors of reading, writing, syncing)",
        (f"{FAULTS}storage.py::test_a_call_of_the_system_that_fails",),
        "the refusals are counted: without one the run fails",
        20,
    ),
    Campaign(
        "long reads of one project beside another",
        (f"{FAULTS}neighbours.py::test_long_reads_of_one_project_leave_the_others_served",),
        f"a server that keeps a descriptor of each statement is found ({FAULTS}neighbours.py)",
        100,
    ),
    Campaign(
        "memory and slow sockets",
        (f"{FAULTS}overload.py",),
        "a server that keeps slow sockets, or what they send, is found",
        34,
    ),
    Campaign(
        "mutated requests to a server",
        (
            "tests/contract/test_mutations.py::test_any_request_is_answered_in_order_and_leaves_the_next_one_unharmed",
        ),
        f"an answer with 500 fails the run ({CONTROLS})",
        125,
    ),
    Campaign(
        "damaged files, verified",
        (
            "tests/ledger_engine/verify/test_tampering.py"
            "::test_damaged_files_end_in_a_report_and_no_change_passes",
        ),
        "what is changed without a fault fails the run",
        25,
    ),
    Campaign(
        "kills of servers on PostgreSQL, and of PostgreSQL",
        (f"{FAULTS}several_servers.py::test_kills_of_servers_and_of_the_database_lose_and_double_nothing",),
        "an acknowledged change that is not there, or another, is seen",
        50,
    ),
    Campaign(
        "kills of a start that upgrades from the baseline",
        (
            f"{FAULTS}killed_migration.py::test_a_start_that_is_killed_while_it_migrates_leaves_one_version_whole",
        ),
        "a row that was changed is seen",
        100,
    ),
    Campaign(
        "kills while webhooks are sent",
        (f"{FAULTS}webhooks_survive_kills.py::test_every_event_reaches_every_endpoint_through_kills",),
        "an event that did not come is seen",
        50,
    ),
    Campaign(
        "jumping clocks",
        (
            f"{FAULTS}clock_jumps_over_starts.py::test_servers_with_jumping_clocks_revive_erase_and_flood_nothing",
            f"{FAULTS}clock_jumps_over_starts.py::test_a_server_that_revives_a_token_when_its_clock_goes_back_is_found",
        ),
        "a server that revives a token when its clock goes back is found",
        40,
    ),
    Campaign(
        "kills of a server",
        (
            f"{FAULTS}kill.py::test_an_acknowledged_write_survives_a_kill",
            f"{FAULTS}kill.py::test_of_fifty_creates_with_one_key_one_is_made_whenever_the_server_dies",
        ),
        "an acknowledged change that is not there, or another, is seen",
        300,
    ),
    Campaign(
        "cuts of the power",
        ("tests/trust/test_power_cuts.py",),
        "a disk that only says it has synced is seen",
        2000,
    ),
    Campaign(
        "kills and faults at the calls of `backup`, `restore` and `recover`",
        (f"{FAULTS}every_call.py::test_a_command_that_is_killed_or_fails_at_any_call_loses_nothing",),
        "a result that lacks a posting is seen",
        100,
    ),
    Campaign(
        "requests that coverage has chosen, to the reader",
        ("tests/trust/test_chosen_requests.py",),
        "a reader that fails at one header is found",
        100,
    ),
    Campaign(
        "the model, in process",
        ("tests/ledger_engine/test_model.py::test_the_engine_does_what_the_model_says[sqlite]",),
        f"a balance that is moved wrongly is found ({CONTROLS})",
        1050,
    ),
)


@dataclass(frozen=True)
class Result:
    """The result of a campaign: `said` is the last line of pytest's output, `counts` the tests' actions."""

    campaign: Campaign
    passed: bool
    said: str
    counts: Counter[str]
    seconds: float


def run(campaign: Campaign, scale: float, seed: int) -> Result:
    """Run a campaign to its end, and return its result."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tally = Path(folder, "tally")
        words = [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *campaign.tests),
            *("--soak", str(campaign.length(scale)), "--seed", str(seed)),
            *("--tally", str(tally), "--timeout", "3600"),
        ]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        counts: Counter[str] = Counter()
        for line in tally.read_text().splitlines() if tally.exists() else ():
            counts.update(json.loads(line)["counts"])
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    if done.returncode:
        print(done.stdout[-6000:], done.stderr[-2000:], sep="\n", file=sys.stderr)
    return Result(campaign, not done.returncode, lines[-1] if lines else "", counts, time.monotonic() - began)


def controls() -> bool:
    """Run the controls in test_controls.py, and return whether they pass."""
    words = [sys.executable, "-m", "pytest", "-q", "tests/trust/test_controls.py", "--timeout", "3600"]
    return not subprocess.run(words, cwd=ROOT).returncode


def table(
    begun: str, results: dict[Campaign, Result], scale: float, seed: int, minutes: float, controlled: bool
) -> str:
    """Return the table of a run, below a line about the commit, the machine and the scale."""
    named = "full" if scale == FULL else f"{scale:g}"
    rows = [
        f"Commit {begun}, `make trust SCALE={named} SEED={seed}`:"
        f" {minutes:.0f} minutes on {os.cpu_count()} processors ({platform.machine()}, Linux"
        f" {platform.release()}), Python {platform.python_version()}, {AT_ONCE} campaigns at a time. The"
        f" controls in {CONTROLS} {'passed' if controlled else '**failed**'}.",
        "",
        "| campaign | counted | result | time | control |",
        "| --- | --- | --- | --- | --- |",
    ]
    for campaign in CAMPAIGNS:
        each = results.get(campaign)
        if each is None:
            rows.append(f"| {campaign.name} | – | not run | – | {campaign.control} |")
            continue
        counted = ", ".join(
            f"{count:,} {name.replace('_', ' ')}" for name, count in each.counts.items() if count
        )
        outcome = "held" if each.passed else "**failed**"
        skipped = "; " + each.said if "skipped" in each.said else ""
        rows.append(
            f"| {campaign.name} | {counted or '–'} | {outcome}{skipped} | {each.seconds:.0f} s |"
            f" {campaign.control} |"
        )
    total = sum((each.counts for each in results.values()), Counter[str]())
    rows += [
        "",
        f"In all {total['kills'] + total['kills_of_postgresql']:,} kills and"
        f" {total['acknowledged']:,} acknowledged changes.",
    ]
    return "\n".join(rows)


def write(text: str) -> None:
    """Replace the table in RESULTS.md by the table of this run."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Run all campaigns, and write the page after each, so that an interrupted run leaves its results."""
    given = os.environ.get("SCALE", "1")
    scale = FULL if given == "full" else float(given)
    seed = int(os.environ.get("SEED", "0")) or random.SystemRandom().randrange(2**31)
    said = subprocess.run(
        ("git", "rev-parse", "--short=10", "HEAD"), cwd=ROOT, capture_output=True, text=True
    )
    begun, began = f"{said.stdout.strip()}, {datetime.now(UTC):%Y-%m-%d}", time.monotonic()
    controlled, results = controls(), dict[Campaign, Result]()
    with ThreadPoolExecutor(AT_ONCE) as lanes:
        for each in as_completed([lanes.submit(run, campaign, scale, seed) for campaign in CAMPAIGNS]):
            result = each.result()
            results[result.campaign] = result
            outcome = "held" if result.passed else "FAILED"
            print(f"{result.campaign.name}: {outcome}, {dict(result.counts)}", flush=True)
            minutes = (time.monotonic() - began) / 60
            write(table(begun, results, scale, seed, minutes, controlled))
    sys.exit(not (controlled and all(each.passed for each in results.values())))


if __name__ == "__main__":
    main()
