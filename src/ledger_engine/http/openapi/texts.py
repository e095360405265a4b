"""The descriptions and examples in the OpenAPI document: `assets/reference.toml`, `assets/examples.json`.

The files are read when the document is first requested, not when the server starts.
"""

from __future__ import annotations

import json
import tomllib
from typing import Any

from ledger_engine.http.openapi import asset

TEXTS: dict[str, Any] = tomllib.loads(asset("reference.toml").decode())
# `bodies` and `records` contain examples by the name of their schema; `texts` contains examples by operation,
# for media types other than JSON. An event's example contains the example of its object, in which `events`
# replaces the fields that an event of this type has changed.
EXAMPLES: dict[str, dict[str, Any]] = json.loads(asset("examples.json"))
TERMS: dict[str, str] = TEXTS["terms"]


def meaning(owner: str, name: str) -> str | None:
    """Return the description of a name; None if there is none.

    `owner` is a schema such as `Account`, a field of a schema such as `Delivery.attempts`, or, for a
    parameter, its operation such as `GET /v1/requests`.
    """
    return TERMS.get(f"{owner}.{name}", TERMS.get(name))


def explain(owner: str, schema: dict[str, Any]) -> None:
    """Add a description to every member of an object's schema that lacks one, also to nested members."""
    for name, member in schema.get("properties", {}).items():
        description = meaning(owner, name)
        if description is not None and "$ref" not in member and "const" not in member:
            member.setdefault("description", description)
        explain(f"{owner}.{name}", member)
    if isinstance(schema.get("items"), dict):
        explain(owner, schema["items"])
