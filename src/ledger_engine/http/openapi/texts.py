"""The descriptions and examples in the OpenAPI document: `assets/reference.toml`, `assets/examples.json`.

The files are read when the document is first requested, not when the server starts.
"""

from __future__ import annotations

import json
import tomllib
from typing import Any

from ledger_engine.http.openapi import asset

TEXTS: dict[str, Any] = tomllib.loads(asset("reference.toml").decode())
# `bodies` and `records` contain examples by the name of their schema. `texts` contains examples for media
# types other than JSON, by operation. `events` contains fields of an event's object, by the event's type. In
# the example of the event, these fields replace fields of the object's example in `records`.
EXAMPLES: dict[str, dict[str, Any]] = json.loads(asset("examples.json"))
TERMS: dict[str, str] = TEXTS["terms"]


def meaning(owner: str, name: str) -> str | None:
    """Return the description of the field or parameter `name`; None if there is no description.

    The owner of a field is a schema such as `Account`, or a field of a schema such as `Delivery.attempts`.
    The owner of a parameter is an operation such as `GET /v1/requests`.
    """
    return TERMS.get(f"{owner}.{name}", TERMS.get(name))


def explain(owner: str, schema: dict[str, Any]) -> None:
    """Add the missing descriptions to the members of an object's schema, and to their nested members."""
    for name, member in schema.get("properties", {}).items():
        description = meaning(owner, name)
        if description is not None and "$ref" not in member and "const" not in member:
            member.setdefault("description", description)
        explain(f"{owner}.{name}", member)
    if isinstance(schema.get("items"), dict):
        explain(owner, schema["items"])
