"""Our server keeps each rule that can be seen, and a server that breaks one is told by that rule's name."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest

from ledger_client.answers import BoundedClient
from ledger_engine.http.app import create_app
from ledger_engine.http.gate.gate import AuthRateLimit
from ledger_engine.store.engine import Engine
from ledger_engine.tools.conform import examination, examiner, writing
from ledger_engine.tools.conform.examination import RuleVerdict, examine, junit
from ledger_engine.tools.conform.examiner import RULES, ExaminedExchange, Examiner, Unusable
from ledger_engine.tools.conform.reading import READING
from ledger_engine.tools.conform.writing import WRITING
from tests.ledger_engine.conftest import MakeKey
from tests.ledger_engine.tools.conform.broken import BROKEN, PROVEN, Breakage, Reply, wrapped

Examine = Callable[..., Awaitable[dict[str, RuleVerdict]]]
_RUNS = itertools.count()


def client_of(transport: httpx.AsyncBaseTransport) -> BoundedClient:
    return BoundedClient(
        bytes_max=1_000_000, seconds_max=60, transport=transport, base_url="http://ledger.test"
    )


async def no_wait(_: object) -> None:
    return None


@pytest.fixture
async def examined(engine: Engine, make_key: MakeKey) -> Examine:
    """Return a function that examines the application, broken or not, and returns the verdicts by rule."""
    now_s = time.time()

    async def wait(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    app = create_app(engine, auth_rate_limit=AuthRateLimit(25, 25), wall_clock=lambda: now_s)
    key = await make_key(role="owner")

    async def run(breakage: Breakage | None = None, *, read_only: bool = False) -> dict[str, RuleVerdict]:
        number = next(_RUNS)
        served = app if breakage is None else wrapped(app, breakage)
        transport = httpx.ASGITransport(app=served, client=(f"127.0.1.{number}", 50_000))
        async with BoundedClient(
            bytes_max=1_000_000, seconds_max=60, transport=transport, base_url="http://ledger.test"
        ) as client:
            mark = f"run{number}"
            found = await examine(client, key, mark, read_only=read_only, sleep=wait)
        assert [verdict.rule for verdict in found] == list(RULES)
        assert key not in str(found)
        return {verdict.rule: verdict for verdict in found}

    return run


def results(verdicts: dict[str, RuleVerdict], result: str) -> set[str]:
    return {rule for rule, verdict in verdicts.items() if verdict.result == result}


@pytest.mark.slow
async def test_our_server_keeps_each_rule_that_a_broken_one_is_told_by_and_no_other_is_seen(
    examined: Examine,
) -> None:
    verdicts = await examined()
    assert {rule: verdicts[rule].fault for rule in results(verdicts, "failed")} == {}
    assert results(verdicts, "passed") == PROVEN
    assert all(verdicts[rule].reason for rule in results(verdicts, "not applicable"))


@pytest.mark.slow
async def test_each_broken_server_is_told_by_the_rule_that_it_breaks(
    examined: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(BROKEN) >= 40
    checks = (*READING, *WRITING)
    monkeypatch.setattr(examination, "WRITING", ())
    seen = {}
    for check in checks:
        monkeypatch.setattr(examination, "READING", (check,))
        seen[check] = results(await examined(), "passed")
    missed = {}
    for name, (rule, breakage) in BROKEN.items():
        with monkeypatch.context() as patch:
            # Those that look at the rule come first, as none of them needs another.
            by_use = sorted(checks, key=lambda check: rule not in seen[check])
            patch.setattr(examination, "READING", by_use)
            patch.setattr(examination, "_require_ledger", no_wait)
            _end_at(patch, rule)
            verdicts = await examined(breakage)
        fault = verdicts[rule].fault
        if fault is None:
            missed[name] = (rule, results(verdicts, "failed"))
        else:
            assert fault.wanted, name
            assert "http://ledger.test/" in fault.request, name
            assert fault.answer[:3].isdigit(), name
    assert missed == {}


def _end_at(patch: pytest.MonkeyPatch, rule: str) -> None:
    """End each check at its next note, and before its next request, once the rule is found broken.

    A whole examination of each server would take five times as long, and the verdict on the rule stands.
    """
    note, send = Examiner.expect, Examiner.send

    def expect(ask: Examiner, *noted: Any) -> bool:
        holds = note(ask, *noted)
        end_if_found(ask)
        return holds

    async def send_on(ask: Examiner, *request: Any, **options: Any) -> ExaminedExchange:
        end_if_found(ask)
        return await send(ask, *request, **options)

    def end_if_found(ask: Examiner) -> None:
        if rule in ask.faults:
            raise Unusable

    patch.setattr(Examiner, "expect", expect)
    patch.setattr(Examiner, "send", send_on)


ODD = [
    None,
    [],
    "x",
    7,
    {},
    {"data": 7},
    {"data": [7, {}], "has_more": True},
    {"error": [], "id": {}, "key": 7},
]


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.slow
async def test_no_answer_however_odd_ends_the_examination(examined: Examine, odd: Any) -> None:
    def breakage(reply: Reply) -> None:
        if reply.path != "/api/health":  # which tells that this is a ledger
            reply.data = odd
        reply.headers |= {
            "x-ratelimit-limit": "9" * 5000,
            "x-ratelimit-reset": "\u00b2",
            "retry-after": "soon",
        }

    verdicts = await examined(breakage)
    assert {"rates-headers", "rates-reset", "rates-retry-after"} <= results(verdicts, "failed")


async def test_read_only_makes_nothing(examined: Examine, engine: Engine) -> None:
    verdicts = await examined(read_only=True)
    assert results(verdicts, "failed") == set()
    assert {"get-accounts", "errors-404", "rates-headers", "auth-bearer"} <= results(verdicts, "passed")
    assert verdicts["post-accounts"].result == "not applicable"
    for table in ("accounts", "users", "tokens", "events"):
        assert await engine.read(lambda unit, table=table: unit.execute(f"SELECT 1 FROM {table}")) == []


@pytest.mark.slow
async def test_the_report_as_junit_has_a_case_for_each_rule(examined: Examine) -> None:
    verdicts = await examined(BROKEN["float money"][1])
    suite = ElementTree.fromstring(junit([*verdicts.values()], "http://ledger.test"))
    cases = {case.get("name"): case for case in suite}
    assert list(cases) == list(RULES)
    failed = {name for name, case in cases.items() if case.find("failure") is not None}
    assert failed == results(verdicts, "failed")
    assert int(suite.get("failures", "")) == len(failed) > 0


async def test_a_part_that_a_server_does_not_offer_is_not_applicable_and_no_fault(
    examined: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "READING", ())
    monkeypatch.setattr(examination, "WRITING", (writing.invoices, writing.people, writing.rates))

    def breakage(reply: Reply) -> None:
        if reply.path.endswith("/finalize"):
            reply.status = 404
        if reply.is_("POST", "/v1/api_keys"):
            reply.status = 405
        if reply.is_("DELETE", "/api/users/*"):
            reply.status = 403
        if reply.is_("POST", "/v1/auth/token", 429):
            reply.status = 401
        if reply.is_("GET", "/api/orders"):
            reply.data["next_cursor"] = None

    verdicts = await examined(breakage)
    beyond = "beyond the contract"
    for rule, reason in (
        ("invoice-void", beyond),
        ("delete-invoices-id", beyond),
        ("auth-403", beyond),
        ("user-deactivate", "the key does not have the role admin"),
        ("rates-over", "the limit was not reached"),
    ):
        assert verdicts[rule].result == "not applicable", rule
        assert reason in str(verdicts[rule].reason), rule


async def test_an_answer_without_end_ends_the_examination() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 100_000

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=endless()))
    async with BoundedClient(
        bytes_max=1_000_000, seconds_max=60, transport=transport, base_url="http://ledger.test"
    ) as client:
        with pytest.raises(examiner.Unreachable, match="larger than 1 MB"):
            await examine(client, "sk_test_x", "run", read_only=True, sleep=no_wait)
