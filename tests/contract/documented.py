"""Checks whether an answer, and the request that it accepts, are as /openapi.json says."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qsl, unquote

import httpx
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

DOCUMENT = "urn:ledger:openapi"


class Documented:
    """The document, and the operations of which a success was seen."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.seen: set[str] = set()
        resource = Resource.from_contents(document, default_specification=DRAFT202012)
        self._registry = Registry().with_resource(DOCUMENT, resource)
        self._paths = [
            (re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))), path, methods)
            # A path without parameters comes before one with them.
            for path, methods in sorted(document["paths"].items(), key=lambda item: item[0].count("{"))
        ]

    @property
    def operations(self) -> set[str]:
        """Return the ids of all operations."""
        return {
            operation["operationId"]
            for methods in self.document["paths"].values()
            for operation in methods.values()
        }

    def check(self, response: httpx.Response) -> None:
        """Fail unless the answer to a request for a documented operation is documented too.

        A request that succeeds must itself fit the document: no schema may refuse what the server accepts.
        """
        found = self._find(response.request)
        if found is None:
            return
        pointer, operation = found
        if response.is_success:
            self._check_request(response.request, pointer, operation)
        status = str(response.status_code)
        assert status in operation["responses"], f"{operation['operationId']}: {status} is not documented"
        pointer, described = self._follow(f"{pointer}/responses/{status}", operation["responses"][status])
        self._check_headers(response, described)
        media_type = response.headers["Content-Type"].partition(";")[0]
        assert media_type in described["content"], f"{pointer}: {media_type} is not documented"
        if media_type == "application/json":
            response.read()
            self.validate(f"{pointer}/content/{escaped(media_type)}/schema", response.json())
            check_code(described, response.json())
        if response.is_success:
            self.seen.add(operation["operationId"])

    def validate(self, pointer: str, value: Any) -> None:
        """Fail unless the value fits the schema at this place of the document."""
        Draft202012Validator({"$ref": f"{DOCUMENT}#{pointer}"}, registry=self._registry).validate(value)

    def _check_request(self, request: httpx.Request, pointer: str, operation: Any) -> None:
        path = unquote(request.url.path)
        template = pointer.split("/")[2].replace("~1", "/").replace("%7B", "{").replace("%7D", "}")
        pattern = "".join(
            f"(?P<{part[1:-1]}>.+)" if part.startswith("{") else re.escape(part)
            for part in re.split(r"(\{\w+\})", template)
        )
        match = re.fullmatch(pattern, path)
        assert match is not None
        values = {
            "path": match.groupdict(),
            "query": dict(parse_qsl(request.url.query.decode(), keep_blank_values=True)),
            "header": dict(request.headers),
        }
        for position, declared in enumerate(operation.get("parameters", [])):
            place, parameter = self._follow(f"{pointer}/parameters/{position}", declared)
            name = parameter["name"].lower() if parameter["in"] == "header" else parameter["name"]
            if name in values[parameter["in"]]:
                text = values[parameter["in"]][name]
                value = int(text) if parameter["schema"]["type"] == "integer" else text
                self.validate(f"{place}/schema", value)
        content = operation.get("requestBody", {}).get("content", {})
        media_type = request.headers.get("Content-Type", "application/json").partition(";")[0]
        if media_type in content and hasattr(request, "_content"):  # and not a stream, which is read by now
            form = media_type != "application/json"
            body = dict(parse_qsl(request.content.decode())) if form else json.loads(request.content)
            self.validate(f"{pointer}/requestBody/content/{escaped(media_type)}/schema", body)

    def _find(self, request: httpx.Request) -> tuple[str, Any] | None:
        path = unquote(request.url.path)
        for pattern, template, methods in self._paths:
            if pattern.fullmatch(path):
                operation = methods.get(request.method.lower())
                return operation and (f"/paths/{escaped(template)}/{request.method.lower()}", operation)
        return None

    def _follow(self, pointer: str, described: Any) -> tuple[str, Any]:
        while "$ref" in described:
            pointer = described["$ref"].removeprefix("#")
            described = self.document
            for step in pointer.strip("/").split("/"):
                described = described[step.replace("~1", "/").replace("~0", "~")]
        return pointer, described

    def _check_headers(self, response: httpx.Response, described: Any) -> None:
        for name in described.get("headers", {}):
            if name.startswith("Idempotency-Original") and name not in response.headers:
                continue
            value: Any = response.headers[name]
            schema = self.document["components"]["headers"][name]["schema"]
            self.validate(
                f"/components/headers/{name}/schema", int(value) if schema["type"] == "integer" else value
            )


def check_code(described: Any, body: Any) -> None:
    """Fail unless an error has one of the codes, and the type, that its status has in the document."""
    if "x-error-codes" not in described:
        return
    error = body["error"]
    code = error["code"] if "x-error-type" in described else error
    assert code in described["x-error-codes"], f"{code} is not documented for: {described['description']}"
    if "x-error-type" in described:
        assert error["type"] == described["x-error-type"]


def escaped(step: str) -> str:
    """Return a name as a step of a JSON pointer in a URL."""
    return step.replace("~", "~0").replace("/", "~1").replace("{", "%7B").replace("}", "%7D")
