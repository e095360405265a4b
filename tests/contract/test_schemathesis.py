"""Requests made up from the own document, good and bad: no 5xx, nothing undocumented, no hang."""

from __future__ import annotations

import contextlib
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as starting_from
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

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


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", GenerationMode, ids=lambda mode: mode.value)
def test_no_made_up_request_gets_an_answer_that_is_not_documented(
    server: Server, make_project: MakeProject, mode: GenerationMode, seed: int, soak: int
) -> None:
    reference = schemathesis.openapi.from_dict(httpx.get(f"{server.url}/openapi.json").json())
    sent = 0

    def ask(case: Case[Any], key: str) -> None:
        nonlocal sent
        sent += 1
        headers = {"Authorization": f"Bearer {key}"}
        case.call_and_validate(base_url=server.url, headers=headers, timeout=ANSWER_S, checks=CHECKS)

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
                starting_from(seed)(limited(given(case=cases)(ask)))(key=project.key)
    assert sent > 100
