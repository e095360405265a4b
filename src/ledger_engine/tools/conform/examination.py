"""An examination: its checks in their order, and the report with a verdict on each rule."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from ledger_client.answers import BoundedClient
from ledger_engine.tools.conform.examiner import RULES, Examiner, RuleFault, Unreachable, Unusable
from ledger_engine.tools.conform.reading import READING
from ledger_engine.tools.conform.writing import WRITING

_UNSEEN = "cannot be seen over HTTP alone"
_READ_ONLY = "needs requests that write"
_UNREACHED = "an earlier request that this rule needs has failed"


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """The verdict on one rule: `passed`, `failed` with the fault, or `not applicable` with the reason."""

    rule: str
    sentence: str
    result: str
    fault: RuleFault | None = None
    reason: str | None = None

    def shown(self) -> dict[str, Any]:
        """Return the verdict as a JSON object."""
        result: dict[str, Any] = {"rule": self.rule, "sentence": self.sentence, "result": self.result}
        if self.fault is not None:
            result |= {"wanted": self.fault.wanted, "request": self.fault.request}
            result["answer"] = self.fault.answer
        if self.reason is not None:
            result["reason"] = self.reason
        return result


async def examine(
    client: BoundedClient,
    key: str,
    mark: str,
    *,
    read_only: bool,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> list[RuleVerdict]:
    """Examine the server, and return a verdict on every rule. Raises Unreachable.

    Pass a new `mark` for each examination; see `Examiner`.
    """
    examiner = Examiner(client, key, mark, sleep)
    await _require_ledger(examiner)
    cut_short = False
    for check in (*READING, *(() if read_only else WRITING)):
        try:
            await check(examiner)
        except Unusable:
            cut_short = True
    if client.base_url.scheme == "https":
        examiner.passed.add("service-https")
    else:
        examiner.skip("the server was asked without TLS", "service-https")
    otherwise = _READ_ONLY if read_only else _UNREACHED if cut_short else _UNSEEN
    return [_verdict(examiner, rule, sentence, otherwise) for rule, sentence in RULES.items()]


async def _require_ledger(examiner: Examiner) -> None:
    """Raise Unreachable unless the server answers the health check or a list as a ledger does."""
    if isinstance((await examiner.send("GET", "/api/health")).field("ok"), bool):
        return
    answer = await examiner.send("GET", "/v1/accounts")
    if not isinstance(answer.field("data"), list) and not isinstance(answer.field("error"), dict):
        raise Unreachable(
            f"This is not a ledger: GET /api/health and GET /v1/accounts ({answer.status}) do not answer"
            " with the JSON of a ledger. Check the address."
        )


def junit(verdicts: list[RuleVerdict], url: str) -> bytes:
    """Return the report as JUnit XML, with a test case for each rule."""
    results = [verdict.result for verdict in verdicts]
    suite = ElementTree.Element(
        "testsuite",
        name=f"conform {url}",
        tests=str(len(results)),
        failures=str(results.count("failed")),
        skipped=str(results.count("not applicable")),
        errors="0",
    )
    for verdict in verdicts:
        case = ElementTree.SubElement(suite, "testcase", classname="contract", name=verdict.rule)
        if verdict.fault is not None:
            failure = ElementTree.SubElement(case, "failure", message=f"expected: {verdict.fault.wanted}")
            text = f"{verdict.sentence}\n\n{verdict.fault.request}\n\n{verdict.fault.answer}"
            failure.text = "".join(letter for letter in text if letter.isprintable() or letter == "\n")
        elif verdict.result != "passed":
            ElementTree.SubElement(case, "skipped", message=str(verdict.reason))
    document: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return document


def _verdict(examiner: Examiner, rule: str, sentence: str, otherwise: str) -> RuleVerdict:
    if rule in examiner.faults:
        return RuleVerdict(rule, sentence, "failed", fault=examiner.faults[rule])
    if rule in examiner.passed:
        return RuleVerdict(rule, sentence, "passed")
    return RuleVerdict(rule, sentence, "not applicable", reason=examiner.reasons.get(rule, otherwise))
