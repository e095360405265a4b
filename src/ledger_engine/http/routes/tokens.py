"""The token endpoint (interface.md, Token surface)."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from ledger_engine.access import tokens
from ledger_engine.access.tokens import TokenPair
from ledger_engine.core.errors import InvalidRequest
from ledger_engine.http.bodies import Body
from ledger_engine.http.operations import Call, Routes

routes = Routes("tokens", "/v1")

GRANTS = ("api_key", "refresh_token")  # each is also the name of the one field that comes with it


def _alternative(grant: str, other: str) -> dict[str, Any]:
    return {
        "properties": {"grant_type": {"const": grant}},
        "required": ["grant_type", grant],
        "not": {"required": [other]},
    }


class TokenRequest(Body):
    """`grant_type` and the one field of that name; the other grant's field is an unknown one."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [_alternative(*GRANTS), _alternative(*reversed(GRANTS))]}
    )

    grant_type: Literal["api_key", "refresh_token"]
    api_key: str = Field(default_factory=str)
    refresh_token: str = Field(default_factory=str)

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
                raise InvalidRequest("unknown_field", f"{other} is not known with grant_type {grant}.", other)
        if grant not in given:
            raise InvalidRequest("missing_field", f"{grant} is required.", grant)
        return given


@routes.add("POST", "/auth/token", public=True, body=TokenRequest, answer=TokenPair, secret=True)
async def issue_token(call: Call, body: TokenRequest) -> TokenPair:
    """Exchange an API key or a refresh token for an access token and a refresh token."""
    pair = tokens.new_pair()
    if body.grant_type == "api_key":
        return await call.engine.write(partial(tokens.exchange, api_key=body.api_key, pair=pair))
    return await call.engine.write(partial(tokens.refresh, refresh_token=body.refresh_token, pair=pair))
