"""Whatever helpers are used in whatever order, the books stay right and say what was posted.

A random history of postings, clock, faults, snapshots and resets over HTTP. Each request that a fault hit is
sent again with its key until it is known whether it was made, as an app would.
"""

from __future__ import annotations

import copy
import itertools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, get_state_machine_test, initialize, invariant, rule

from tests import auditing
from tests.helped_server import ROOT, HelpedServer, Owned

ACTIONS: list[dict[str, Any]] = [
    {"cut": "before"},
    {"cut": "after_commit"},
    {"cut": "half"},
    {"status": 500},
    {"status": 429},
    {"delay_ms": 1},
]
NAMES = ("one", "two")


@dataclass
class Expected:
    """What the ledger has to say: the balance of each account, and how many postings there are."""

    balances: dict[str, int] = field(default_factory=dict)
    postings: int = 0


class Mix(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="ledger-mix-")
        self._server = HelpedServer(Path(self._folder.name, "ledger.db"))
        self._server.__enter__()
        self._own: Owned = self._server.owned()
        self._expected = Expected()
        self._snapshots: dict[str, Expected] = {}
        self._keys = itertools.count()

    def teardown(self) -> None:
        self._server.__exit__()
        self._folder.cleanup()

    @initialize()
    def register_an_endpoint_that_nobody_answers(self) -> None:
        self._own.made("/v1/webhook_endpoints", url="http://127.0.0.1:9/", events=["account.created"])

    def make(self, path: str, **body: Any) -> dict[str, Any] | None:
        """Create something once, whatever is in the way; None where only its existence is known."""
        headers = {"Idempotency-Key": f"key-{next(self._keys)}"}
        for _ in range(50):
            try:
                answer = self._own.api.post(path, json=body, headers=headers)
            except httpx.TransportError:
                continue
            if answer.status_code == 201:
                made: dict[str, Any] = answer.json()
                return made
            if answer.status_code == 409:
                return {"id": answer.headers["Idempotency-Original"]}
            assert answer.status_code in (500, 429), answer.text
        raise AssertionError("the faults have no end")

    def some(self, pick: int) -> str | None:
        accounts = list(self._expected.balances)
        return accounts[pick % len(accounts)] if accounts else None

    @rule()
    def open_an_account(self) -> None:
        made = self.make("/v1/accounts", name="Till", currency="EUR")
        assert made is not None
        self._expected.balances[made["id"]] = 0

    @rule(pick=st.integers(0, 9), amount=st.integers(1, 10**6), type=st.sampled_from(["credit", "debit"]))
    def post(self, pick: int, amount: int, type: str) -> None:
        account = self.some(pick)
        if account is not None:
            self.make("/v1/transactions", account=account, amount=amount, type=type)
            self._expected.balances[account] += amount if type == "credit" else -amount
            self._expected.postings += 1

    @rule(pick=st.integers(0, 9), to=st.integers(0, 9), amount=st.integers(1, 10**6))
    def transfer(self, pick: int, to: int, amount: int) -> None:
        source, destination = self.some(pick), self.some(to)
        if source is not None and destination is not None and source != destination:
            self.make(
                "/v1/transactions", account=source, amount=amount, type="debit", destination=destination
            )
            self._expected.balances[source] -= amount
            self._expected.balances[destination] += amount
            self._expected.postings += 2

    @rule(type=st.sampled_from(["invoice.paid", "order.shipped", "user.deactivated", "transaction.created"]))
    def make_an_event_happen(self, type: str) -> None:
        for made in self._own.helper("events", type=type)["objects"]:
            if made["object"] == "account":
                self._expected.balances[made["id"]] = made["balance"]
            self._expected.postings += made["object"] == "transaction"

    @rule(seconds=st.sampled_from([0, 1, 60, 4000, 86_400, 40 * 86_400]))
    def advance(self, seconds: int) -> None:
        self._own.helper("clock", advance=seconds)

    @rule(frozen=st.booleans())
    def freeze(self, frozen: bool) -> None:
        assert self._own.helper("clock", frozen=frozen)["frozen"] is frozen

    @rule(action=st.sampled_from(ACTIONS), times=st.integers(1, 3), probability=st.sampled_from([0.5, 1]))
    def set_a_fault(self, action: dict[str, Any], times: int, probability: float) -> None:
        body = {"match": {"method": "POST"}, "action": action, "times": times, "probability": probability}
        self._own.made(f"{ROOT}/faults", **body)

    @rule(webhook=st.sampled_from(["drop", "duplicate", "corrupt"]))
    def set_a_fault_in_webhooks(self, webhook: str) -> None:
        self._own.made(f"{ROOT}/faults", match={}, action={"webhook": webhook}, times=2)

    @rule(name=st.sampled_from(NAMES))
    def take_a_snapshot(self, name: str) -> None:
        if name in self._snapshots:
            assert self._own.api.delete(f"{ROOT}/snapshots/{name}").is_success
        self._own.made(f"{ROOT}/snapshots", name=name)
        self._snapshots[name] = copy.deepcopy(self._expected)

    @rule(name=st.sampled_from(NAMES))
    def restore(self, name: str) -> None:
        if name in self._snapshots:
            self._own.helper(f"snapshots/{name}/restore")
            self._expected = copy.deepcopy(self._snapshots[name])

    @rule()
    def reset(self) -> None:
        self._own.helper("reset")
        self._expected = Expected()

    @invariant()
    def the_books_are_right(self) -> None:
        engine, tenant = self._server.engine, self._own.tenant
        report = self._server.wait(engine.read(auditing.verify))
        assert (report.fault, report.transactions) == (None, self._expected.postings)
        rows = self._server.wait(
            engine.read(
                lambda unit: unit.execute(
                    "SELECT id, balance FROM accounts WHERE project = :project", {"project": tenant.project}
                )
            )
        )
        assert {row["id"]: row["balance"] for row in rows} == self._expected.balances


@pytest.mark.hypothesis
@pytest.mark.timeout(3600)
def test_the_books_stay_right_under_any_mix_of_helpers(soak: int, request: pytest.FixtureRequest) -> None:
    """At the usual length of a soak, 25, these are 20,000 steps."""
    run = get_state_machine_test(
        Mix,
        settings=settings(
            max_examples=1 if soak == 1 else 8 * soak,
            stateful_step_count=30 if soak == 1 else 100,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )
    seed(int(request.getfixturevalue("seed")))(run)()
