"""The words and examples of the OpenAPI document: `assets/reference.toml` and `assets/examples.json`.

They are read when somebody asks for the document, and not at a start.
"""

from __future__ import annotations

import json
import tomllib
from typing import Any

from ledger_engine.http.openapi import asset

TEXTS: dict[str, Any] = tomllib.loads(asset("reference.toml").decode())
# `bodies` and `records` are by the name of their schema; `texts` are those of other media types than JSON, by
# operation; `events` has what an event changed in the example of its object, by type of event.
EXAMPLES: dict[str, dict[str, Any]] = json.loads(asset("examples.json"))
TERMS: dict[str, str] = TEXTS["terms"]


def meaning(owner: str, name: str) -> str | None:
    """Return the meaning of a name, None if it has none.

    `owner` is a schema such as `Account`, a field of one such as `Delivery.attempts`, or an operation such as
    `GET /v1/requests`, whose parameter it is.
    """
    return TERMS.get(f"{owner}.{name}", TERMS.get(name))


def explain(owner: str, schema: dict[str, Any]) -> None:
    """Add its meaning to each member of an object's schema, and within it, that has no description yet."""
    for name, member in schema.get("properties", {}).items():
        description = meaning(owner, name)
        if description is not None and "$ref" not in member and "const" not in member:
            member.setdefault("description", description)
        explain(f"{owner}.{name}", member)
    if isinstance(schema.get("items"), dict):
        explain(owner, schema["items"])
