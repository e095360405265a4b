"""Routes of API keys; all of them go beyond the contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from ledger_engine.access import api_keys
from ledger_engine.access.api_keys import ApiKey, NewApiKey
from ledger_engine.core.records import as_json
from ledger_engine.http.bodies import Body
from ledger_engine.http.lists import GenericList
from ledger_engine.http.operations import Call, Routes
from ledger_engine.store.pages import Page

routes = Routes("api_keys", "/v1")

Name = Annotated[str, Field(min_length=1, max_length=api_keys.NAME_MAX)]
ScopeName = Literal["read:projects", "write:projects", "read:users", "admin:billing"]


class CreateApiKey(Body):
    name: Name | None = None
    role: Literal["member", "admin", "owner"] | None = "admin"
    scopes: Annotated[list[ScopeName], Field(min_length=1)] | None = None


@dataclass(slots=True)
class ApiKeyWithValue(ApiKey):
    """A key that was just created; `key` is its value, which is never shown again."""

    key: str


def with_value(made: ApiKey, value: str) -> dict[str, object]:
    """Return the record of a new key together with its value."""
    return {**as_json(made), "key": value}


@routes.add("GET", "/api_keys", needs="read:projects", role="admin")
async def list_api_keys(call: Call, query: GenericList) -> Page[ApiKey]:
    """List the API keys of the project and mode, newest first, without their values."""
    return await call.read(api_keys.page, query.page())


@routes.add(
    "POST",
    "/api_keys",
    needs="write:projects",
    role="admin",
    lasting=True,
    answer=ApiKeyWithValue,
    secret=True,
    status=201,
)
async def create_api_key(call: Call, body: CreateApiKey) -> dict[str, object]:
    """Create an API key with at most the rights of the caller's; its value is shown this once."""
    value = api_keys.new_value(call.authenticate().livemode)
    new = NewApiKey(body.name, body.role or "admin", None if body.scopes is None else list(body.scopes))
    return with_value(await call.write(api_keys.create, new, value, call.idempotency_key), value)


@routes.add("DELETE", "/api_keys/<id>", needs="write:projects", role="admin")
async def revoke_api_key(call: Call, id: str) -> ApiKey:
    """Revoke an API key; it and its tokens are refused at once."""
    return await call.write(api_keys.revoke, id)


@routes.add(
    "POST",
    "/api_keys/<id>/roll",
    needs="write:projects",
    role="admin",
    lasting=True,
    answer=ApiKeyWithValue,
    secret=True,
    status=201,
)
async def roll_api_key(call: Call, id: str) -> dict[str, object]:
    """Revoke an API key and create one of the same name and rights; its value is shown this once."""
    value = api_keys.new_value(call.authenticate().livemode)
    return with_value(await call.write(api_keys.roll, id, value, call.idempotency_key), value)
