"""OAuth's endpoints for programs: tokens for a code or a refresh token, and giving them back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ConfigDict
from quart import Response

from ledger_engine import grants, tokens
from ledger_engine.errors import InvalidRequest, OAuthRefusal
from ledger_engine.grants import OAuthTokens, Redemption
from ledger_engine.http.bodies import FormOrJson
from ledger_engine.http.operations import Call, Routes
from ledger_engine.records import as_json, dumps
from ledger_engine.scope import SCOPES

routes = Routes("oauth", "/oauth")

AUTHORIZATION_CODE = "authorization_code"
GRANT_TYPES = (AUTHORIZATION_CODE, "refresh_token")


class OAuthTokenRequest(FormOrJson):
    """A code comes with its `code_verifier`, or a refresh token with `grant_type` `refresh_token`."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [{"required": ["code", "code_verifier"]}, {"required": ["refresh_token"]}]
        }
    )

    grant_type: str | None = AUTHORIZATION_CODE
    code: str | None = None
    code_verifier: str | None = None
    refresh_token: str | None = None
    client_id: str | None = None
    redirect_uri: str | None = None
    scope: str | None = None


class RevocationRequest(FormOrJson):
    token: str
    token_type_hint: str | None = None
    client_id: str | None = None


@dataclass(slots=True)
class Revoked:
    """Nothing is said of it: the token does not work any more, whether or not it did."""


@routes.add("POST", "/token", public=True, body=OAuthTokenRequest, answer=OAuthTokens)
async def exchange_code(call: Call, body: OAuthTokenRequest) -> Response:
    """Exchange a one-time code or a refresh token for an access token and a refresh token."""
    pair = tokens.new_pair()
    if body.grant_type == AUTHORIZATION_CODE:
        given = Redemption(
            _required(body.code, "code"),
            _required(body.code_verifier, "code_verifier"),
            body.client_id,
            body.redirect_uri,
        )
        answer = await call.engine.write(partial(grants.redeem, given=given, pair=pair))
    elif body.grant_type == "refresh_token":
        refresh_token = _required(body.refresh_token, "refresh_token")
        answer = await call.engine.write(
            partial(
                grants.refresh,
                refresh_token=refresh_token,
                pair=pair,
                client_id=body.client_id,
                scope=body.scope,
            )
        )
    else:
        raise OAuthRefusal(
            "unsupported_grant_type", f"grant_type must be {' or '.join(GRANT_TYPES)}.", "grant_type"
        )
    if isinstance(answer, OAuthRefusal):
        raise answer
    return _unstored(as_json(answer))


@routes.add("POST", "/revoke", public=True, body=RevocationRequest, answer=Revoked, beyond_contract=True)
async def revoke_oauth_token(call: Call, body: RevocationRequest) -> Response:
    """End what a user allowed, with all its tokens; for the app that holds one of them (RFC 7009)."""
    await call.engine.write(partial(grants.give_back, token=body.token, client_id=body.client_id))
    return _unstored(as_json(Revoked()))


def metadata(issuer: str) -> dict[str, Any]:
    """What a client can know of this server from its address alone (RFC 8414)."""
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/oauth/authorize",
        "token_endpoint": f"{issuer}/oauth/token",
        "revocation_endpoint": f"{issuer}/oauth/revoke",
        "scopes_supported": list(SCOPES),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(GRANT_TYPES),
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "service_documentation": f"{issuer}/docs",
    }


def _required(value: str | None, name: str) -> str:
    if value is None:
        raise InvalidRequest("missing_field", f"{name} is required.", name)
    return value


def _unstored(answer: dict[str, Any]) -> Response:
    """Nothing on the way may keep a token (RFC 6749, 5.1)."""
    headers = {"Cache-Control": "no-store", "Pragma": "no-cache"}
    return Response(dumps(answer), content_type="application/json", headers=headers)
