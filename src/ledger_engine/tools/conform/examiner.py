"""The examiner: sends requests to a server, and notes rule by rule whether the answers are right.

Some rules hold for every answer, for instance the rule about the rate limit's headers. The examiner checks
such rules in each answer.

The rules and their sentences are read from docs/interface.md. The package contains a copy of this page.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from ledger_client.answers import BoundedClient, Unread
from ledger_client.parsing import parsed

_BODY_SHOWN = 600  # characters of a body in a report
# The examiner gives up after this number of answers with 429 to one request. After each of these answers the
# examiner waits as many seconds as Retry-After names, but no more than 65.
_WAITS_MAX = 90


class Unreachable(Exception):
    """The server cannot be examined; the text gives the reason."""


class Unusable(Exception):
    """A check cannot continue: an answer was wrong, and the next requests of the check need this answer.

    The examiner has already noted the broken rules.
    """


@dataclass(frozen=True, slots=True)
class ExaminedExchange:
    """A request and its answer; `text` is the body of the answer.

    `sent` and `got` are the request and the answer as the report shows them, without secrets.
    """

    status: int
    headers: httpx.Headers
    text: str
    sent: str
    got: str

    @property
    def json(self) -> Any:
        """Return the answer's JSON; None if the answer is not JSON."""
        try:
            return parsed(self.text)
        except ValueError:
            return None

    def field(self, *names: str) -> Any:
        """Return a field of the answer, or a field inside a field; None if it is missing."""
        value = self.json
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    @property
    def items(self) -> list[dict[str, Any]]:
        """Return the objects of a list, with or without an envelope."""
        value = self.json
        value = value.get("data") if isinstance(value, dict) else value
        return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class RuleFault:
    """A broken rule: the right answer in words, the request, and the answer that came."""

    wanted: str
    request: str
    answer: str


def _read_rules() -> dict[str, str]:
    """Return the text of each rule in docs/interface.md, by the rule's name.

    If a rule is the row of a table, its text is the row's cells, joined by `;`.
    """
    here = Path(__file__).resolve()
    page = here.with_name("interface.md")
    if not page.is_file():  # the package runs from the repository, without the copy
        page = here.parents[4] / "docs" / "interface.md"
    rules = {}
    prose = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    for block in re.split(r"\n(?=[-|] ?)|\n\n", prose):
        if (rule := _RULE.search(block)) is not None:
            text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", _RULE.sub("", block))
            cells = [cell.strip() for cell in text.strip().strip("|").split("|")]
            text = "; ".join(filter(None, cells)) if block.startswith("|") else text.removeprefix("- ")
            rules[rule[1]] = " ".join(text.split())
    return rules


_RULE = re.compile(r'<a id="[^"]+"></a>\*\*(.+?)\*\*:?')
RULES = _read_rules()

_ID = re.compile(r"[A-Za-z0-9_.:~-]{1,200}")


def is_id(value: object) -> bool:
    """Return whether a value can be the id of an object, so that it can be inserted into a path."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def is_number(text: str) -> bool:
    """Return whether the value of a header is an integer of at most 15 digits, without a sign."""
    return text.isascii() and text.isdigit() and len(text) < 16


class Examiner:
    """Sends requests to one server with one key.

    `mark` is part of the names of accounts, the e-mail addresses and the idempotency keys that the
    examination sends. So a second examination of the same server, with another mark, does not collide with
    the objects of the first examination.

    `passed` contains the rules that an exchange has kept. `faults` contains the first fault of each rule that
    an exchange has broken; such a rule can also be in `passed`. `reasons` says why rules are not applicable.
    """

    def __init__(
        self,
        client: BoundedClient,
        key: str,
        mark: str,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.key = key
        self.mark = mark
        self.passed: set[str] = set()
        self.faults: dict[str, RuleFault] = {}
        self.reasons: dict[str, str] = {}
        self._client = client
        self._sleep = sleep
        self._secrets = [key]

    def hide(self, secret: object) -> None:
        """Mask a secret in the report from now on."""
        if isinstance(secret, str) and secret:
            self._secrets.append(secret)

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        anonymous: bool = False,
        content: bytes | None = None,
        patient: bool = True,
    ) -> ExaminedExchange:
        """Send a request, and return it with its answer. An `anonymous` request is sent without the key.

        The request's body is `body` as JSON, or the bytes `content`. If a `patient` request gets a 429, it is
        sent again after the time that the answer names. Raises Unreachable.
        """
        sent = {} if anonymous else {"Authorization": f"Bearer {self.key}"}
        sent |= headers or {}
        if body is not None:
            content = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        for _ in range(_WAITS_MAX):
            try:
                request = self._client.build_request(
                    method, path, params=params, headers=sent, content=content
                )
            # An id, a token or a cursor from the server has made the path or a header invalid.
            except (httpx.InvalidURL, ValueError) as error:
                raise Unreachable(f"{method} {path[:100]} cannot be sent: {error}") from error
            try:
                answer = await self._client.send(request)
            except Unread as error:
                raise Unreachable(f"{method} {path}: {error}") from error
            except httpx.HTTPError as error:
                why = str(error) or type(error).__name__
                raise Unreachable(f"No answer to {method} {request.url}: {why}") from error
            exchange = self._exchange(answer, sent, content)
            self._check_common_rules(method, path, exchange)
            if exchange.status != 429 or not patient:
                return exchange
            after = exchange.headers.get("Retry-After", "1")
            await self._sleep(min(float(after) if is_number(after) else 1.0, 65.0))
        raise Unreachable(f"{method} {path} is still rate limited after several tries.")

    def expect(self, rules: str, holds: object, exchange: ExaminedExchange, requirement: str) -> bool:
        """Note that the exchange keeps these rules if `holds` is true, and otherwise that it breaks them.

        `rules` contains the names of the rules, separated by spaces. `requirement` describes the right answer
        in the report. Return `holds` as a bool.
        """
        for rule in rules.split():
            assert rule in RULES, rule
            if holds:
                self.passed.add(rule)
            else:
                self.faults.setdefault(rule, RuleFault(requirement, exchange.sent, exchange.got))
        return bool(holds)

    def require(self, rules: str, holds: object, exchange: ExaminedExchange, requirement: str) -> None:
        """Note as `expect` does whether the exchange keeps these rules; raise Unusable if it breaks them."""
        if not self.expect(rules, holds, exchange, requirement):
            raise Unusable

    def skip(self, reason: str, *rules: str) -> None:
        """Note why these rules are not applicable on this server."""
        for rule in rules:
            assert rule in RULES, rule
            self.reasons.setdefault(rule, reason)

    def _check_common_rules(self, method: str, path: str, exchange: ExaminedExchange) -> None:
        """Check the rules that hold for every answer."""
        headers, status = exchange.headers, exchange.status
        limit, remaining = headers.get("X-RateLimit-Limit", ""), headers.get("X-RateLimit-Remaining", "")
        self.expect(
            "rates-headers",
            is_number(limit) and is_number(remaining) and int(remaining) <= int(limit),
            exchange,
            "X-RateLimit-Limit and X-RateLimit-Remaining, numbers",
        )
        reset = headers.get("X-RateLimit-Reset", "")
        self.expect(
            "rates-reset",
            is_number(reset) and abs(int(reset) - time.time()) < 86_400,
            exchange,
            "X-RateLimit-Reset, a Unix time in seconds",
        )
        self.expect(
            "rates-retry-after",
            ("Retry-After" in headers) == (status == 429),
            exchange,
            "Retry-After with a 429 and with nothing else",
        )
        text = exchange.text + str(headers)
        self.expect("auth-leaked-key", self.key not in text, exchange, "no API key in an answer")
        if path.startswith("/oauth/authorize"):
            return
        media = headers.get("Content-Type", "").partition(";")[0].strip()
        self.expect("service-json", media == "application/json", exchange, "application/json")
        if status >= 400:
            self.expect("errors-json", isinstance(exchange.json, dict), exchange, "a JSON object")
            self._check_error(path, exchange)

    def _check_error(self, path: str, exchange: ExaminedExchange) -> None:
        error, message = exchange.field("error"), exchange.field("message")
        if exchange.status == 429:
            is_right = error == "rate_limited" and any(letter.isdigit() for letter in str(message))
            self.expect(
                "errors-rate-limit-body", is_right, exchange, "error rate_limited, and the seconds in message"
            )
        elif path.startswith("/api"):
            is_right = isinstance(error, str) and isinstance(message, str)
            self.expect("errors-directory-body", is_right, exchange, "the texts error and message")
        elif path.startswith("/v1"):
            fields = {"type", "code", "message", "param"}
            is_right = isinstance(error, dict) and fields <= error.keys() and isinstance(error["code"], str)
            self.expect("errors-ledger-body", is_right, exchange, "error with type, code, message and param")

    def _exchange(
        self, answer: httpx.Response, request_headers: dict[str, str], content: bytes | None
    ) -> ExaminedExchange:
        request = [f"{answer.request.method} {answer.request.url}"[:300]]
        request += [f"{name}: {value}"[:200] for name, value in request_headers.items()]
        if content is not None:
            request += ["", content[:_BODY_SHOWN].decode("utf-8", "replace")]
        header_names = ("content-type", "retry-after", "request-id")
        lines = [
            f"{name}: {value}"
            for name, value in answer.headers.items()
            if name in header_names or name.startswith("x-rate")
        ]
        got = [f"{answer.status_code} {answer.reason_phrase}", *lines, "", answer.text[:_BODY_SHOWN]]
        return ExaminedExchange(
            answer.status_code,
            answer.headers,
            answer.text,
            self._masked("\n".join(request)),
            self._masked("\n".join(got)),
        )

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, f"{secret[:8]}…")
        return text
