"""OAuth's endpoints for programs: tokens for a code or a refresh token, and giving them back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ConfigDict

from ledger_engine.access import tokens
from ledger_engine.access.oauth import authorization
from ledger_engine.access.oauth.grants import OAuthTokens
from ledger_engine.access.oauth.models import AUTHORIZATION_CODE, GRANT_TYPES
from ledger_engine.core.errors import InvalidRequest, LedgerError
from ledger_engine.core.tenant import SCOPES
from ledger_engine.http.bodies import FormOrJson
from ledger_engine.http.operations import Call, Routes

routes = Routes("oauth", "/oauth")

_NEEDED = {AUTHORIZATION_CODE: ("code", "code_verifier"), "refresh_token": ("refresh_token",)}


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


@routes.add("POST", "/token", public=True, body=OAuthTokenRequest, answer=OAuthTokens, secret=True)
async def exchange_code(call: Call, body: OAuthTokenRequest) -> OAuthTokens:
    """Exchange a one-time code or a refresh token for an access token and a refresh token."""
    for name in _NEEDED.get(body.grant_type or "", ()):
        if getattr(body, name) is None:
            raise InvalidRequest("missing_field", f"{name} is required.", name)
    given = body.model_dump(exclude_none=True)
    answer = await call.engine.write(partial(authorization.exchange, given=given, pair=tokens.new_pair()))
    if isinstance(answer, LedgerError):
        raise answer
    return answer


@routes.add("POST", "/revoke", public=True, body=RevocationRequest, answer=Revoked, beyond_contract=True)
async def revoke_oauth_token(call: Call, body: RevocationRequest) -> Revoked:
    """End what a user allowed, with all its tokens; for the app that holds one of them (RFC 7009)."""
    work = partial(authorization.give_back, token=body.token, client_id=body.client_id)
    refusal = await call.engine.write(work)
    if refusal is not None:
        raise refusal
    return Revoked()


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
