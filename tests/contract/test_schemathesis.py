"""Requests made up from the own document, good and bad.

No answer is a 5xx or undocumented, none hangs, and no request that fits the document is refused for its form.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as starting_from
from hypothesis.errors import Unsatisfiable
from hypothesis.stateful import run_state_machine_as_test
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from ledger_engine.http.bodies import FORM
from tests.contract.conftest import MakeProject, Project, Server

EXAMPLES = 2  # of each operation, good and bad
ANSWER_S = 60.0
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
CONFIG = SchemathesisConfig.from_dict(
    {
        # No text may contain U+0000 (docs/decisions.md#conventions-strict).
        "generation": {"allow-x00": False},
        # Credentials, ids, states and tags that fit the document, but not the ledger's present state.
        "checks": {
            "positive_data_acceptance": {
                "expected-statuses": ["2xx", "3xx", "401", "403", "404", "409", "412", "429"]
            }
        },
    }
)
# Rules for a 400 that depend on the state, the time or the network, or that compare two values. JSON Schema
# cannot express them.
STATE_CODES = {"invalid_cursor", "currency_mismatch", "insufficient_funds", "balance_out_of_range"}
STATE_CODES |= {"invalid_client", "invalid_grant", "invalid_scope"}
STATE_RULES = re.compile(
    r"\w+ must not be (in the future|later than \w+)\."
    r"|\w+ must be an ISO 8601 date or date-time, .*"  # no such day; tests/ledger_engine/core/test_clock.py
    r"|Give \w+ or ending_before, not both\."
    # The schema of an invoice allows both and neither, because generators make invalid classes from `not`.
    r"|Give amount or lines(, not both)?\."
    r"|The total of the (lines|items) must be .*"
    r"|destination must be another account\."
    r"|url .*",  # the address of a name, and the networks that may be reached
    re.DOTALL,
)


KnownIds = Callable[[str], str | None]


def depends_on_state(case: Case[Any], answer: Any) -> bool:
    """Return whether an answer refuses the request by a rule that the document cannot express."""
    if answer.status_code != 400:
        return False
    if case.operation.path == "/oauth/authorize":
        return True  # a page: the app is not known
    body = answer.json()
    error = body["error"] if isinstance(body["error"], dict) else body
    code = error.get("code", body["error"])
    message = error.get("message", error.get("error_description"))
    if message.startswith("email must be an address"):
        return not case.body["email"].isprintable()  # JSON Schema cannot name the classes of characters
    if case.media_type == FORM and message.endswith("is given more than once."):
        return True  # an undeclared field of several values
    return code in STATE_CODES or STATE_RULES.fullmatch(message) is not None


def prepared(body: Any, ids: KnownIds) -> Any:
    """Return a body with ids of objects that exist, and without integers written as 5.0.

    JSON Schema regards 5.0 as an integer, and the interface does not (docs/decisions.md#conventions-strict).
    """
    if isinstance(body, dict):
        return {name: prepared(value, ids) for name, value in body.items()}
    if isinstance(body, list):
        return [prepared(item, ids) for item in body]
    if isinstance(body, float) and body.is_integer():
        return int(body)
    if isinstance(body, str):
        return ids(body[:4]) or body
    return body


def known_id(project: Project, path: str) -> str | None:
    """Return the id of an object that the path can be requested for."""
    api = project.api

    def made(path: str, body: Any) -> str:
        answer = api.post(path, json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    kind = path.split("/")[2]
    if "{id}" not in path:
        return None
    if kind == "accounts":
        return made("/v1/accounts", {"name": "Till", "currency": "EUR"})
    if kind == "transactions":
        account = known_id(project, "/v1/accounts/{id}")
        return made("/v1/transactions", {"account": account, "amount": 1, "type": "credit"})
    if kind == "invoices":
        account = known_id(project, "/v1/accounts/{id}")
        return made("/v1/invoices", {"account": account, "customer": "C", "amount": 1})
    if kind == "users":
        return made("/api/users", {"name": "Ada", "email": "ada@example.com"})
    if kind == "orders":
        user = known_id(project, "/api/users/{id}")
        return made("/api/orders", {"user_id": user, "items": [{}]})
    if kind == "webhook_endpoints":
        return made("/v1/webhook_endpoints", {"url": "http://127.0.0.1:9/"})
    if kind in ("api_keys", "projects"):
        return made(f"/v1/{kind}", {"name": "other"})
    newest = api.get(f"/v1/{kind}").json()["data"]
    return str(newest[0]["id"]) if newest else None


def known_ids(project: Project) -> KnownIds:
    """Return a function that returns the id of an object of the project, by the prefix of its kind."""
    made: dict[str, str | None] = {}

    def id_of(prefix: str) -> str | None:
        path = {"acc_": "/v1/accounts/{id}", "usr_": "/api/users/{id}"}.get(prefix)
        if path is not None and prefix not in made:
            made[prefix] = known_id(project, path)
        return made.get(prefix)

    return id_of


def document_of(server: Server) -> Any:
    return schemathesis.openapi.from_dict(httpx.get(f"{server.url}/openapi.json").json(), config=CONFIG)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", GenerationMode, ids=lambda mode: mode.value)
def test_no_made_up_request_gets_an_answer_that_is_not_documented(
    server: Server, make_project: MakeProject, mode: GenerationMode, seed: int, soak: int
) -> None:
    reference = document_of(server)
    sent = 0

    def ask(case: Case[Any], key: str, ids: KnownIds) -> None:
        nonlocal sent
        sent += 1
        if mode is GenerationMode.POSITIVE:
            case.body = prepared(case.body, ids)
        headers = {"Authorization": f"Bearer {key}"}
        answer = case.call(base_url=server.url, headers=headers, timeout=ANSWER_S)
        accepts = [] if depends_on_state(case, answer) else [positive_data_acceptance]
        case.validate_response(answer, checks=CHECKS + accepts)

    limited = settings(
        max_examples=EXAMPLES * soak,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    for found in reference.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if operation.path == "/v1/events/stream":
            continue  # it does not end
        # A project for each: one operation takes its keys away, another puts it on a smaller plan.
        project = make_project()
        id = known_id(project, operation.path)
        # With a made up id most are 404; the long form tries those too.
        for path_parameters in [None] if id is None else [{"id": id}, None][: 1 if soak == 1 else 2]:
            cases = operation.as_strategy(generation_mode=mode, path_parameters=path_parameters)
            # An operation with nothing to get wrong has no bad requests.
            with contextlib.suppress(Unsatisfiable):
                starting_from(seed)(limited(given(case=cases)(ask)))(key=project.key, ids=known_ids(project))
    assert sent > 100


ROUNDS = 100
WALKS = {
    "a paid invoice": (["create_invoice", "finalize_invoice", "pay_invoice"], "/pay"),
    "a void invoice": (["create_invoice", "finalize_invoice", "void_invoice"], "{id}"),
    "a restored user": (["create_user", "deactivate_user", "restore_user"], "/restore"),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("operations", "end"), WALKS.values(), ids=WALKS)
def test_a_program_that_follows_the_links_walks_from_a_new_object_to(
    server: Server, project: Project, seed: int, operations: list[str], end: str
) -> None:
    machine: Any = document_of(server).include(operation_id=operations).as_state_machine()
    walked: list[str] = []
    ids = known_ids(project)

    class Walk(machine):
        def get_call_kwargs(self, case: Case[Any]) -> dict[str, Any]:
            case.body = prepared(case.body, ids)
            headers = {"Authorization": f"Bearer {project.key}"}
            return {"base_url": server.url, "headers": headers, "timeout": ANSWER_S}

        def validate_response(self, response: Any, case: Case[Any], **kwargs: Any) -> None:
            if response.status_code == 200:
                walked.append(case.operation.path)
            accepts = [] if depends_on_state(case, response) else [positive_data_acceptance]
            case.validate_response(response, checks=CHECKS + accepts)

    limited = settings(
        max_examples=1,
        stateful_step_count=10,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    for number in range(ROUNDS):
        run_state_machine_as_test(starting_from(seed + number)(Walk), settings=limited)
        if any(path.endswith(end) for path in walked):
            break
    else:
        pytest.fail(f"no way of {ROUNDS} led to {end}")
