"""Routes of access: tokens, OAuth for programs, API keys, the caller's rights, projects and their plans.

Of these routes, only `POST /v1/auth/token` and `POST /oauth/token` are in the contract, docs/interface.md.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import unquote_plus

from pydantic import Field, TypeAdapter, model_validator

from ledger_engine.access import api_keys, credentials, projects
from ledger_engine.access.api_keys import ApiKey, NewApiKey
from ledger_engine.access.credentials import Credential, TokenPair
from ledger_engine.access.oauth import authorization
from ledger_engine.access.oauth.grants import OAuthTokens
from ledger_engine.access.oauth.server import AUTHORIZATION_CODE
from ledger_engine.access.projects import Billing, NewChild, Project
from ledger_engine.access.quotas import PLANS
from ledger_engine.core.errors import AuthenticationError, InvalidRequest, LedgerError
from ledger_engine.core.ids import CredentialId, ProjectId, UserId
from ledger_engine.core.records import Moment, OneOf
from ledger_engine.core.tenant import ROLES, SCOPES, Tenant, mode_name
from ledger_engine.http.bodies import Body, FormOrJson
from ledger_engine.http.lists import GenericList
from ledger_engine.http.operations import Call, Routes
from ledger_engine.store import Unit
from ledger_engine.store.pages import Page

# Tokens (docs/interface.md#token-endpoint)


token_routes = Routes("tokens", "/v1")

GRANTS = ("api_key", "refresh_token")  # grant types; each requires the field of the same name


class ApiKeyGrant(Body):
    grant_type: Literal["api_key"]
    api_key: str


class RefreshTokenGrant(Body):
    grant_type: Literal["refresh_token"]
    refresh_token: str


def _described_as(union: Any) -> Any:
    """Return a `__get_pydantic_json_schema__` that gives a body class the JSON schema of this union."""
    schema = TypeAdapter(union).core_schema
    return classmethod(lambda cls, core_schema, handler: handler(schema))


class TokenRequest(Body):
    """A grant type, and the field of the same name. The field of the other grant type is refused."""

    grant_type: Literal["api_key", "refresh_token"]
    api_key: str = Field(default_factory=str)
    refresh_token: str = Field(default_factory=str)

    __get_pydantic_json_schema__ = _described_as(
        Annotated[ApiKeyGrant | RefreshTokenGrant, Field(discriminator="grant_type")]
    )

    @model_validator(mode="before")
    @classmethod
    def _fit_grant(cls, fields: dict[str, Any]) -> dict[str, Any]:
        grant = fields.get("grant_type")
        if not isinstance(grant, str):
            return fields
        if grant not in GRANTS:
            raise InvalidRequest(
                "unsupported_grant_type", "grant_type must be api_key or refresh_token.", "grant_type"
            )
        for other in GRANTS:
            if other != grant and other in fields:
                raise InvalidRequest(
                    "unknown_field", f"{other} is not accepted with grant_type {grant}.", other
                )
        if grant not in fields:
            raise InvalidRequest("missing_field", f"{grant} is required.", grant)
        return fields


@token_routes.add("POST", "/auth/token", public=True, secret=True, in_contract=True)
async def issue_token(call: Call, body: TokenRequest) -> TokenPair:
    """Exchange an API key or a refresh token for an access token and a refresh token."""
    pair = credentials.new_pair()
    if body.grant_type == "api_key":
        return await call.engine.write(partial(credentials.exchange, api_key=body.api_key, pair=pair))
    return await call.engine.write(partial(credentials.refresh, refresh_token=body.refresh_token, pair=pair))


# OAuth: exchanging codes and refresh tokens, and revoking tokens


oauth_routes = Routes("oauth", "/oauth")

_REQUIRED_FIELDS = {AUTHORIZATION_CODE: ("code", "code_verifier"), "refresh_token": ("refresh_token",)}


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


class OAuthTokenRequest(FormOrJson):
    """A code with its `code_verifier`, or a refresh token with the `grant_type` `refresh_token`."""

    grant_type: str | None = AUTHORIZATION_CODE
    code: str | None = None
    code_verifier: str | None = None
    refresh_token: str | None = None
    client_id: str | None = None
    redirect_uri: str | None = None
    scope: str | None = None

    __get_pydantic_json_schema__ = _described_as(CodeExchange | TokenRefresh)


class RevocationRequest(FormOrJson):
    token: str
    token_type_hint: str | None = None
    client_id: str | None = None


@dataclass(slots=True)
class RevokedKeys:
    """The answer to a revocation: the token does not work now, whether or not it worked before."""


@oauth_routes.add("POST", "/token", public=True, secret=True, in_contract=True)
async def exchange_code(call: Call, body: OAuthTokenRequest) -> OAuthTokens:
    """Exchange a one-time code or a refresh token for an access token and a refresh token."""
    for name in _REQUIRED_FIELDS.get(body.grant_type or "", ()):
        if getattr(body, name) is None:
            raise InvalidRequest("missing_field", f"{name} is required.", name)
    fields = body.model_dump(exclude_none=True) | _client_id(call, body.client_id)
    answer = await call.engine.write(
        partial(authorization.exchange, parameters=fields, pair=credentials.new_pair())
    )
    if isinstance(answer, LedgerError):
        raise answer
    return answer


@oauth_routes.add("POST", "/revoke", public=True)
async def revoke_oauth_token(call: Call, body: RevocationRequest) -> RevokedKeys:
    """Revoke a token for its app (RFC 7009): the token's grant and all tokens of this grant end."""
    client_id = _client_id(call, body.client_id).get("client_id")
    work = partial(authorization.revoke_token, token=body.token, client_id=client_id)
    refusal = await call.engine.write(work)
    if refusal is not None:
        raise refusal
    return RevokedKeys()


def _client_id(call: Call, in_body: str | None) -> dict[str, str]:
    """Return the `client_id` in the body or in a Basic header (RFC 6749, 2.3.1); {} if it is in neither.

    The password in the Basic header is ignored, because apps have no secret. Raises AuthenticationError for
    an unreadable Basic header, and InvalidRequest if header and body name different apps.
    """
    scheme, _, value = (call.header(b"authorization") or "").partition(" ")
    if scheme.lower() != "basic":
        return {} if in_body is None else {"client_id": in_body}
    try:
        name = unquote_plus(b64decode(value, validate=True).decode().partition(":")[0], errors="strict")
    except ValueError:
        name = ""
    if not name or not name.isascii() or not name.isprintable():
        raise AuthenticationError(
            "invalid_credential",
            "The Authorization header is not a Basic header with a client_id.",
            "client_id",
        )
    if in_body not in (None, name):
        raise InvalidRequest(
            "invalid_value", "client_id in the body differs from client_id in the Basic header.", "client_id"
        )
    return {"client_id": name}


# The caller's credential


whoami_routes = Routes("whoami", "/v1")


@dataclass(slots=True)
class Whoami:
    """A credential and its rights.

    `id` is the id of the app or API key; tokens have the id of their app or key. `user` is the user for whom
    an app acts, else None. `mode` is `test` or `live`; `scopes` is None for no restriction; `rate_limit` is
    in requests a minute, `burst` in requests a second. None in a field whose name ends in `_max` means no
    limit.
    """

    OBJECT: ClassVar[str] = "credential"

    id: CredentialId
    kind: Annotated[str, OneOf("api_key", "access_token", "oauth_token")]
    user: UserId | None
    project: ProjectId
    plan: Annotated[str, OneOf(*PLANS)]
    mode: Annotated[str, OneOf("test", "live")]
    role: Annotated[str, OneOf(*ROLES)]
    scopes: list[Annotated[str, OneOf(*SCOPES)]] | None
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


def with_value(key: ApiKey, value: str) -> ApiKeyWithValue:
    """Return the record of a new key together with its value."""
    return ApiKeyWithValue(**asdict(key), key=value)


@api_key_routes.add("GET", "/api_keys", role="admin")
async def list_api_keys(call: Call, query: GenericList) -> Page[ApiKey]:
    """List the API keys of the project and mode, newest first, without their values."""
    return await call.read(api_keys.page, query.page())


@api_key_routes.add("POST", "/api_keys", role="admin", lasting=True, secret=True, status=201)
async def create_api_key(call: Call, body: CreateApiKey) -> ApiKeyWithValue:
    """Create an API key with at most the caller's rights; its value is shown only once."""
    value = api_keys.new_value(call.authenticate().livemode)
    new = NewApiKey(body.name, body.role or "admin", None if body.scopes is None else list(body.scopes))
    return with_value(await call.write(api_keys.create, new, value, call.idempotency_key), value)


@api_key_routes.add("GET", "/api_keys/<id>", role="admin")
async def get_api_key(call: Call, id: str) -> ApiKey:
    """Get one API key, without its value."""
    return await call.read_short(api_keys.get, id)


@api_key_routes.add("DELETE", "/api_keys/<id>", role="admin", changes=api_keys.get)
async def revoke_api_key(call: Call, id: str) -> ApiKey:
    """Revoke an API key; the key and its tokens are refused at once."""
    return await call.write(api_keys.revoke, id)


@api_key_routes.add(
    "POST",
    "/api_keys/<id>/roll",
    role="admin",
    lasting=True,
    secret=True,
    status=201,
    changes=api_keys.get,
)
async def roll_api_key(call: Call, id: str) -> ApiKeyWithValue:
    """Revoke an API key and create a new key of the same name and rights; its value is shown only once."""
    value = api_keys.new_value(call.authenticate().livemode)
    return with_value(await call.write(api_keys.roll, id, value, call.idempotency_key), value)


# Projects and their plans


project_routes = Routes("projects", "/v1")

ProjectName = Annotated[str, Field(min_length=1, max_length=projects.NAME_MAX)]
Plan = Literal["free", "pro", "enterprise"]
Overdraft = Literal["allow", "refuse"]


class CreateProject(Body):
    name: ProjectName
    plan: Plan | None = None
    overdraft: Overdraft | None = None


class ChangeProject(Body):
    # With a default factory, a field may be left out but not be null. The default itself is never stored,
    # because `exclude_unset` leaves out a field that was not sent.
    name: ProjectName = Field(default_factory=str)
    overdraft: Overdraft = Field(default_factory=lambda: "allow")


@dataclass(slots=True)
class SeenProject(Project):
    """A project. It spans both modes; `livemode` is the mode of the credential that reads it."""

    livemode: bool


@dataclass(slots=True)
class ProjectWithKey(SeenProject):
    """A new project with its first API key, whose value is never shown again.

    `api_key` is null in the answer to an app, because the key would stay valid after the app's grant ends.
    """

    api_key: ApiKeyWithValue | None


def _with_mode(call: Call, project: Project) -> SeenProject:
    return SeenProject(**asdict(project), livemode=call.authenticate().livemode)


def _read_project(unit: Unit, tenant: Tenant, id: str) -> SeenProject:
    return SeenProject(**asdict(projects.visible(unit, tenant, id)), livemode=tenant.livemode)


@project_routes.add("GET", "/projects")
async def list_projects(call: Call, query: GenericList) -> Page[SeenProject]:
    """List the credential's project and its child projects, newest first."""
    page = await call.read(projects.page, query.page())
    return Page([_with_mode(call, project) for project in page.items], page.has_more, page.next_cursor)


@project_routes.add("POST", "/projects", role="admin", secret=True, status=201)
async def create_project(call: Call, body: CreateProject) -> ProjectWithKey:
    """Create a project and its first API key, whose value is shown only once; an app gets no key."""
    new = NewChild(body.name, body.plan, body.overdraft)
    if call.is_by_app():
        child = await call.write(projects.create_child, new, call.idempotency_key)
        return ProjectWithKey(**asdict(_with_mode(call, child)), api_key=None)
    value = api_keys.new_value(call.authenticate().livemode)
    project, key = await call.write(projects.create_child_with_key, new, value, call.idempotency_key)
    return ProjectWithKey(**asdict(_with_mode(call, project)), api_key=with_value(key, value))


@project_routes.add("GET", "/projects/<id>")
async def get_project(call: Call, id: str) -> SeenProject:
    """Get one project."""
    return await call.read(_read_project, id)


@project_routes.add("PATCH", "/projects/<id>", role="admin", changes=_read_project)
async def change_project(call: Call, id: str, body: ChangeProject) -> SeenProject:
    """Change the sent fields of a project."""
    changes = projects.ProjectChanges(**body.model_dump(exclude_unset=True))
    return _with_mode(call, await call.write(projects.change, id, changes))


@project_routes.add("DELETE", "/projects/<id>", role="admin", changes=_read_project)
async def archive_project(call: Call, id: str) -> SeenProject:
    """Archive a project; its data is kept, and its credentials stop working."""
    return _with_mode(call, await call.write(projects.archive, id))


# Billing


billing_routes = Routes("billing", "/v1")


class ChangeBilling(Body):
    # With a default factory, the field may be left out but not be null. The default itself is never stored.
    plan: Plan = Field(default_factory=lambda: "free")


@billing_routes.add("GET", "/billing", needs="admin:billing", role="owner")
async def get_billing(call: Call) -> Billing:
    """Get the project's plan, its limits and how much of each limit is used."""
    return await call.read(projects.billing)


@billing_routes.add("PATCH", "/billing", needs="admin:billing", role="owner", changes=projects.billing)
async def change_billing(call: Call, body: ChangeBilling) -> Billing:
    """Move the project to another plan at once."""
    if "plan" not in body.model_fields_set:
        return await call.write(projects.billing)
    return await call.write(projects.change_plan, body.plan)
