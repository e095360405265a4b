"""OAuth's endpoints for programs: exchanging codes and refresh tokens, and revoking tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

from pydantic import GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from ledger_engine.access import credentials
from ledger_engine.access.oauth import authorization
from ledger_engine.access.oauth.grants import OAuthTokens
from ledger_engine.access.oauth.server import AUTHORIZATION_CODE
from ledger_engine.core.errors import InvalidRequest, LedgerError
from ledger_engine.http.bodies import FormOrJson
from ledger_engine.http.operations import Call, Routes

routes = Routes("oauth", "/oauth")

_NEEDED = {AUTHORIZATION_CODE: ("code", "code_verifier"), "refresh_token": ("refresh_token",)}


class CodeExchange(FormOrJson):
    grant_type: Literal["authorization_code"] | None = None
    code: str
    code_verifier: str
    client_id: str | None = None
    redirect_uri: str | None = None


class TokenRefresh(FormOrJson):
    grant_type: Literal["refresh_token"]
    refresh_token: str
    client_id: str | None = None
    scope: str | None = None


_ALTERNATIVES = TypeAdapter(CodeExchange | TokenRefresh).core_schema


class OAuthTokenRequest(FormOrJson):
    """A code with its `code_verifier`, or a refresh token with the `grant_type` `refresh_token`."""

    grant_type: str | None = AUTHORIZATION_CODE
    code: str | None = None
    code_verifier: str | None = None
    refresh_token: str | None = None
    client_id: str | None = None
    redirect_uri: str | None = None
    scope: str | None = None

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(_ALTERNATIVES)


class RevocationRequest(FormOrJson):
    token: str
    token_type_hint: str | None = None
    client_id: str | None = None


@dataclass(slots=True)
class Revoked:
    """The token does not work any more; the answer does not say whether it did before."""


@routes.add("POST", "/token", public=True, secret=True, in_contract=True)
async def exchange_code(call: Call, body: OAuthTokenRequest) -> OAuthTokens:
    """Exchange a one-time code or a refresh token for an access token and a refresh token."""
    for name in _NEEDED.get(body.grant_type or "", ()):
        if getattr(body, name) is None:
            raise InvalidRequest("missing_field", f"{name} is required.", name)
    given = body.model_dump(exclude_none=True)
    answer = await call.engine.write(
        partial(authorization.exchange, given=given, pair=credentials.new_pair())
    )
    if isinstance(answer, LedgerError):
        raise answer
    return answer


@routes.add("POST", "/revoke", public=True)
async def revoke_oauth_token(call: Call, body: RevocationRequest) -> Revoked:
    """End the grant of a token, with all its tokens; for the app that has one of them (RFC 7009)."""
    work = partial(authorization.give_back, token=body.token, client_id=body.client_id)
    refusal = await call.engine.write(work)
    if refusal is not None:
        raise refusal
    return Revoked()
