"""Routes of credentials: tokens, OAuth for programs, API keys, and what the caller's may do.

Those of API keys and of the caller's credential go beyond the contract."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, GetJsonSchemaHandler, TypeAdapter, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from ledger_engine.access import api_keys, credentials
from ledger_engine.access.api_keys import ApiKey, NewApiKey
from ledger_engine.access.credentials import Credential, TokenPair
from ledger_engine.access.oauth import authorization
from ledger_engine.access.oauth.grants import OAuthTokens
from ledger_engine.access.oauth.server import AUTHORIZATION_CODE
from ledger_engine.core.errors import InvalidRequest, LedgerError
from ledger_engine.core.records import Moment
from ledger_engine.core.tenant import mode_name
from ledger_engine.http.bodies import Body, FormOrJson
from ledger_engine.http.lists import GenericList
from ledger_engine.http.operations import Call, Routes
from ledger_engine.store.pages import Page

# Tokens (docs/interface.md#token-endpoint)


token_routes = Routes("tokens", "/v1")

GRANTS = ("api_key", "refresh_token")  # each is also the name of the field that it requires


class ApiKeyGrant(Body):
    grant_type: Literal["api_key"]
    api_key: str


class RefreshTokenGrant(Body):
    grant_type: Literal["refresh_token"]
    refresh_token: str


_TOKEN_GRANTS = TypeAdapter(
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
        return handler(_TOKEN_GRANTS)

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


@token_routes.add("POST", "/auth/token", public=True, secret=True, in_contract=True)
async def issue_token(call: Call, body: TokenRequest) -> TokenPair:
    """Exchange an API key or a refresh token for an access token and a refresh token."""
    pair = credentials.new_pair()
    if body.grant_type == "api_key":
        return await call.engine.write(partial(credentials.exchange, api_key=body.api_key, pair=pair))
    return await call.engine.write(partial(credentials.refresh, refresh_token=body.refresh_token, pair=pair))


# OAuth: exchanging codes and refresh tokens, and revoking tokens


oauth_routes = Routes("oauth", "/oauth")

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


_OAUTH_GRANTS = TypeAdapter(CodeExchange | TokenRefresh).core_schema


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
        return handler(_OAUTH_GRANTS)


class RevocationRequest(FormOrJson):
    token: str
    token_type_hint: str | None = None
    client_id: str | None = None


@dataclass(slots=True)
class Revoked:
    """The token does not work any more; the answer does not say whether it did before."""


@oauth_routes.add("POST", "/token", public=True, secret=True, in_contract=True)
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


@oauth_routes.add("POST", "/revoke", public=True)
async def revoke_oauth_token(call: Call, body: RevocationRequest) -> Revoked:
    """End the grant of a token, with all its tokens; for the app that has one of them (RFC 7009)."""
    work = partial(authorization.give_back, token=body.token, client_id=body.client_id)
    refusal = await call.engine.write(work)
    if refusal is not None:
        raise refusal
    return Revoked()


# The caller's credential


whoami_routes = Routes("whoami", "/v1")


@dataclass(slots=True)
class Whoami:
    """A credential and its rights.

    `id` is that of the API key, for its tokens too, or of the app; `user` is the user for whom an app acts,
    else None. `mode` is `test` or `live`; `scopes` is None for no restriction; `rate_limit` is in requests a
    minute, `burst` in requests a second; a `_max` of None is no limit.
    """

    OBJECT: ClassVar[str] = "credential"

    id: str
    kind: str
    user: str | None
    project: str
    plan: str
    mode: str
    role: str
    scopes: list[str] | None
    rate_limit: int
    burst: int
    stored_objects_max: int | None
    webhook_endpoints_max: int | None
    created: Moment
    expires_at: Moment | None
    livemode: bool


@whoami_routes.add("GET", "/whoami", needs=None)
async def whoami(call: Call) -> Whoami:
    """Get the caller's credential and its rights."""
    caller = call.caller
    assert isinstance(caller, Credential), "the operation is not public"
    return Whoami(
        id=caller.id,
        kind=caller.kind,
        user=caller.user,
        project=caller.project,
        plan=caller.plan,
        mode=mode_name(caller.livemode),
        role=caller.role,
        scopes=None if caller.scopes is None else sorted(caller.scopes),
        rate_limit=caller.limits.requests_per_minute,
        burst=caller.limits.burst,
        stored_objects_max=caller.limits.stored_objects,
        webhook_endpoints_max=caller.limits.webhook_endpoints,
        created=caller.created,
        expires_at=caller.expires_at,
        livemode=caller.livemode,
    )


# API keys


api_key_routes = Routes("api_keys", "/v1")

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


def with_value(made: ApiKey, value: str) -> ApiKeyWithValue:
    """Return the record of a new key together with its value."""
    return ApiKeyWithValue(**asdict(made), key=value)


@api_key_routes.add("GET", "/api_keys", role="admin")
async def list_api_keys(call: Call, query: GenericList) -> Page[ApiKey]:
    """List the API keys of the project and mode, newest first, without their values."""
    return await call.read(api_keys.page, query.page())


@api_key_routes.add("POST", "/api_keys", role="admin", lasting=True, secret=True, status=201)
async def create_api_key(call: Call, body: CreateApiKey) -> ApiKeyWithValue:
    """Create an API key with at most the rights of the caller's; its value is shown this once."""
    value = api_keys.new_value(call.authenticate().livemode)
    new = NewApiKey(body.name, body.role or "admin", None if body.scopes is None else list(body.scopes))
    return with_value(await call.write(api_keys.create, new, value, call.idempotency_key), value)


@api_key_routes.add("DELETE", "/api_keys/<id>", role="admin")
async def revoke_api_key(call: Call, id: str) -> ApiKey:
    """Revoke an API key; it and its tokens are refused at once."""
    return await call.write(api_keys.revoke, id)


@api_key_routes.add("POST", "/api_keys/<id>/roll", role="admin", lasting=True, secret=True, status=201)
async def roll_api_key(call: Call, id: str) -> ApiKeyWithValue:
    """Revoke an API key and create one of the same name and rights; its value is shown this once."""
    value = api_keys.new_value(call.authenticate().livemode)
    return with_value(await call.write(api_keys.roll, id, value, call.idempotency_key), value)
