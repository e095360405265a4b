"""The token endpoint (docs/interface.md#token-endpoint)."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field, GetJsonSchemaHandler, TypeAdapter, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from ledger_engine.access import credentials
from ledger_engine.access.credentials import TokenPair
from ledger_engine.core.errors import InvalidRequest
from ledger_engine.http.bodies import Body
from ledger_engine.http.operations import Call, Routes

routes = Routes("tokens", "/v1")

GRANTS = ("api_key", "refresh_token")  # each is also the name of the field that it requires


class ApiKeyGrant(Body):
    grant_type: Literal["api_key"]
    api_key: str


class RefreshTokenGrant(Body):
    grant_type: Literal["refresh_token"]
    refresh_token: str


_ALTERNATIVES = TypeAdapter(
    Annotated[ApiKeyGrant | RefreshTokenGrant, Field(discriminator="grant_type")]
).core_schema


class TokenRequest(Body):
    """`grant_type` and the field of that name; the field of the other grant is refused."""

    grant_type: Literal["api_key", "refresh_token"]
    api_key: str = Field(default_factory=str)
    refresh_token: str = Field(default_factory=str)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(_ALTERNATIVES)

    @model_validator(mode="before")
    @classmethod
    def _fit_grant(cls, given: dict[str, Any]) -> dict[str, Any]:
        grant = given.get("grant_type")
        if not isinstance(grant, str):
            return given
        if grant not in GRANTS:
            raise InvalidRequest(
                "unsupported_grant_type", "grant_type must be api_key or refresh_token.", "grant_type"
            )
        for other in GRANTS:
            if other != grant and other in given:
                raise InvalidRequest(
                    "unknown_field", f"{other} is not accepted with grant_type {grant}.", other
                )
        if grant not in given:
            raise InvalidRequest("missing_field", f"{grant} is required.", grant)
        return given


@routes.add("POST", "/auth/token", public=True, secret=True, in_contract=True)
async def issue_token(call: Call, body: TokenRequest) -> TokenPair:
    """Exchange an API key or a refresh token for an access token and a refresh token."""
    pair = credentials.new_pair()
    if body.grant_type == "api_key":
        return await call.engine.write(partial(credentials.exchange, api_key=body.api_key, pair=pair))
    return await call.engine.write(partial(credentials.refresh, refresh_token=body.refresh_token, pair=pair))
