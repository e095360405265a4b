"""The examiner waits when a server refuses for its rate, and gives up a server that does so for ever."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from ledger_client.answers import BoundedClient
from ledger_engine.tools.conform import examination, reading
from ledger_engine.tools.conform.examiner import ExaminedExchange, Examiner, Unreachable

Answer = Callable[[int], httpx.Response]


class Asked:
    """A server that answers each request by its number, and its examiner, whose waits are noted."""

    def __init__(self, answer: Answer, url: str = "http://ledger.test") -> None:
        self.requests = 0
        self.waits: list[float] = []
        self._answer = answer
        transport = httpx.MockTransport(self._serve)
        self.client = BoundedClient(bytes_max=1_000_000, seconds_max=60, transport=transport, base_url=url)
        self.ask = Examiner(self.client, "sk_test_x", "run", self.sleep)

    def _serve(self, _request: httpx.Request) -> httpx.Response:
        self.requests += 1
        return self._answer(self.requests)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def send(self, *, patient: bool = True) -> ExaminedExchange:
        return await self.ask.send("GET", "/v1/accounts", patient=patient)


def refusal(after: str) -> httpx.Response:
    return httpx.Response(429, headers={"Retry-After": after})


@pytest.mark.parametrize(("after", "waited"), [("7", 7), ("soon", 1), ("99999", 65)])
async def test_a_refusal_is_waited_out_as_long_as_it_says_and_no_longer_than_a_window(
    after: str, waited: float
) -> None:
    asked = Asked(lambda number: refusal(after) if number < 3 else httpx.Response(200, json=[]))
    assert (await asked.send()).status == 200
    assert asked.waits == [waited, waited]


async def test_a_refusal_that_is_looked_for_is_not_waited_out() -> None:
    asked = Asked(lambda _: refusal("7"))
    assert (await asked.send(patient=False)).status == 429
    assert asked.waits == []


async def test_a_server_that_refuses_again_and_again_is_given_up() -> None:
    asked = Asked(lambda _: refusal("1"))
    with pytest.raises(Unreachable, match="GET /v1/accounts is still rate limited after several tries"):
        await asked.send()
    assert asked.requests == len(asked.waits) < 100


@pytest.mark.parametrize(
    ("left", "verdict"), [(("9", "8"), "passed"), (("9", "9"), "failed"), (None, "unseen")]
)
async def test_the_rest_of_the_rate_is_compared_within_one_window(
    left: tuple[str, str] | None, verdict: str
) -> None:
    """Without `left`, each answer is of another window."""

    def answer(number: int) -> httpx.Response:
        shown = "9" if left is None else left[(number - 1) % 2]
        reset = str(number if left is None else 60)
        headers = {"X-RateLimit-Limit": "9", "X-RateLimit-Remaining": shown, "X-RateLimit-Reset": reset}
        return httpx.Response(200, json=[], headers=headers)

    asked = Asked(answer)
    await reading.remaining_requests(asked.ask)
    ask = asked.ask
    found = (
        "failed" if "rates-per-key" in ask.faults else "passed" if "rates-per-key" in ask.passed else "unseen"
    )
    assert found == verdict
    assert asked.requests == (6 if left is None else 2)


@pytest.mark.parametrize(("scheme", "result"), [("https", "passed"), ("http", "not applicable")])
async def test_that_a_server_has_tls_is_seen_by_its_address(
    scheme: str, result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "READING", ())
    asked = Asked(lambda _: httpx.Response(200, json={"ok": True}), f"{scheme}://ledger.test")
    verdicts = await examination.examine(asked.client, "sk_test_x", "run", read_only=True, sleep=asked.sleep)
    (found,) = [verdict for verdict in verdicts if verdict.rule == "service-https"]
    assert (found.result, found.reason is None) == (result, result == "passed")
