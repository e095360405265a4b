"""The reference's examples: every body and every answer has one, and each fits its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from jsonschema import ValidationError

from ledger_engine import __version__
from ledger_engine.access import projects
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.outbox import KINDS
from ledger_engine.http.app import RESOURCES
from ledger_engine.http.errors import CODES, OAUTH_CODES
from ledger_engine.http.openapi.documentation import document
from ledger_engine.sandbox import routes as test_helpers
from ledger_engine.sandbox.routes import make_happen
from tests.contract.clockwork import Clockwork
from tests.contract.documented import Documented, check_code, escaped

Declared = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    """Return the document of a server with test helpers, which is that of every server and more."""
    return document([*RESOURCES, test_helpers.routes])


@pytest.fixture(scope="module")
def documented(reference: dict[str, Any]) -> Documented:
    return Documented(reference)


def contents(pointer: str, described: dict[str, Any]) -> Iterator[Declared]:
    """Yield the pointer and the declaration of each media type of a body or an answer."""
    for media_type, content in described.get("content", {}).items():
        yield f"{pointer}/content/{escaped(media_type)}", content


def bodies(reference: dict[str, Any]) -> Iterator[Declared]:
    for root in ("paths", "webhooks"):
        for path, methods in reference[root].items():
            for method, operation in methods.items():
                pointer = f"/{root}/{escaped(path)}/{method}/requestBody"
                yield from contents(pointer, operation.get("requestBody", {}))


def answers(reference: dict[str, Any]) -> Iterator[Declared]:
    for path, methods in reference["paths"].items():
        for method, operation in methods.items():
            for status, answer in operation["responses"].items():
                yield from contents(f"/paths/{escaped(path)}/{method}/responses/{status}", answer)
    for name, answer in reference["components"]["responses"].items():
        yield from contents(f"/components/responses/{name}", answer)


def test_every_body_and_every_answer_of_text_has_an_example(reference: dict[str, Any]) -> None:
    every = [*bodies(reference), *answers(reference)]
    assert len(every) > 150
    assert [pointer for pointer, content in every if not content.get("examples")] == [
        "/paths/~1v1~1log~1tile~1%7Btile%7D/get/responses/200/content/application~1octet-stream"
    ]


def test_every_example_fits_the_schema_it_stands_beside(
    reference: dict[str, Any], documented: Documented
) -> None:
    unfit = {}
    for pointer, content in [*bodies(reference), *answers(reference)]:
        for example in content.get("examples", {}).values():
            try:
                documented.validate(f"{pointer}/schema", example["value"])
            except ValidationError as error:
                unfit[pointer] = error.message
    assert unfit == {}


def test_an_error_has_the_type_of_its_surface_so_that_clients_get_one_and_not_hundreds(
    reference: dict[str, Any],
) -> None:
    types = {
        content["schema"].get("$ref")
        for answer in reference["components"]["responses"].values()
        for content in answer["content"].values()
    }
    kinds = ("LedgerError", "DirectoryError", "OAuthError", "RateLimitedError")
    assert types == {f"#/components/schemas/{kind}" for kind in kinds}


def test_no_type_has_the_name_that_generators_make_for_a_field_of_another(reference: dict[str, Any]) -> None:
    """They name an object within a schema after both: `Fault.match` is `FaultMatch`."""
    made = set()
    for name, schema in reference["components"]["schemas"].items():
        for field, member in schema.get("properties", {}).items():
            if "properties" in member or "enum" in member:
                made.add((name + field).replace("_", "").lower())
    assert len(made) > 20
    assert made & {name.lower() for name in reference["components"]["schemas"]} == set()


def test_each_list_has_a_name_for_clients_to_use(reference: dict[str, Any]) -> None:
    for path, name in (
        ("/v1/accounts", "AccountList"),
        ("/v1/events", "EventList"),
        ("/api/users", "UserPage"),
    ):
        [content] = reference["paths"][path]["get"]["responses"]["200"]["content"].values()
        assert content["schema"] == {"$ref": f"#/components/schemas/{name}"}


@pytest.mark.parametrize("status", sorted(set(CODES) - {405}))
def test_an_error_says_which_codes_come_with_its_status(reference: dict[str, Any], status: int) -> None:
    kind, codes = CODES[status]
    for surface, field in (("Ledger", "code"), ("Directory", "error"), ("OAuth", "error")):
        if (surface, status) == ("OAuth", 412):
            continue  # no operation there changes an object
        answer = reference["components"]["responses"][f"{surface}{status}"]
        expected = OAUTH_CODES.get(status, ("invalid_request",)) if surface == "OAuth" else codes
        assert answer["x-error-codes"] == list(expected)
        assert f"`{field}`: {', '.join(f'`{code}`' for code in expected)}." in answer["description"]
        assert answer.get("x-error-type") == (kind if surface == "Ledger" else None)


def test_a_code_of_another_status_is_noticed(reference: dict[str, Any]) -> None:
    described = reference["components"]["responses"]["Ledger404"]
    check_code(described, {"error": {"type": "not_found", "code": "not_found"}})
    for wrong in ({"type": "not_found", "code": "missing_field"}, {"type": "conflict", "code": "not_found"}):
        with pytest.raises(AssertionError):
            check_code(described, {"error": wrong})


def test_the_webhooks_are_the_types_of_events(reference: dict[str, Any]) -> None:
    assert list(reference["webhooks"]) == list(KINDS)
    assert all(each["post"]["x-internal"] for each in reference["webhooks"].values())
    sent = [each["post"] for each in reference["webhooks"].values()]
    answered = [operation for path in reference["paths"].values() for operation in path.values()]
    names = [operation["operationId"] for operation in [*sent, *answered]]
    assert len(names) == len(set(names))
    assert not {tag for each in sent for tag in each["tags"]} & {
        tag for each in answered for tag in each["tags"]
    }


async def test_each_event_is_sent_as_its_webhook_says(clockwork: Clockwork, documented: Documented) -> None:
    project = await clockwork.engine.write(partial(projects.create, new=projects.NewProject("Roastery")))
    tenant = Tenant(project.id, livemode=False)
    for kind in KINDS:
        await clockwork.engine.write(partial(make_happen, tenant=tenant, type=kind))
    sent, _ = await clockwork.engine.read(partial(outbox.after, tenant=tenant, cursor="", limit=100))
    assert {message.type for message in sent} == set(KINDS)
    for message in sent:
        schema = f"/webhooks/{message.type}/post/requestBody/content/application~1json/schema"
        body = json.loads(message.body)
        documented.validate(schema, body)
        with pytest.raises(ValidationError):
            documented.validate(schema, {**body, "type": "account.nothing"})


def test_the_document_says_whom_to_ask_and_how_its_version_is_meant(reference: dict[str, Any]) -> None:
    info = reference["info"]
    assert info["version"] == __version__
    assert info["contact"]["name"]
    for word in ("info.version", "Semantic Versioning", "`/v1`", "/api/health"):
        assert word in info["description"]
