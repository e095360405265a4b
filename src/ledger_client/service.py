"""Events, webhooks, keys, projects, requests and tokens; and the class that contains all resources."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any

from ledger_client.books import Accounts, Currencies, Invoices, Orders, Transactions, Users
from ledger_client.calls import (
    UNSET,
    Answer,
    ApiCall,
    as_it_is,
    body_of,
    many,
    one,
    path_to,
    record,
    text_of,
)
from ledger_client.errors import Unreadable
from ledger_client.methods import Iteration, L, Objects, Operation, Resource
from ledger_client.parsing import parsed
from ledger_client.records import (
    ApiKey,
    Billing,
    Caller,
    Change,
    Delivery,
    Event,
    Health,
    LoggedRequest,
    Overdraft,
    Plan,
    Project,
    Resent,
    ResentFailed,
    Role,
    Scope,
    TokenPair,
    WebhookEndpoint,
    token_pair,
)


class Events(Objects[L]):
    """The events of the ledger; each contains the changed object, as it was after the change."""

    path = "/v1/events"

    @Operation
    def get(self, id: str) -> ApiCall[Event]:
        """Return an event."""
        return self._get(Event, id)

    @Operation
    def deliveries(self, id: str) -> ApiCall[list[Delivery]]:
        """Return the deliveries of an event, one for each endpoint."""
        return ApiCall(many(Delivery), "GET", path_to(self.path, id, "deliveries"))

    @Operation
    def resend(
        self, id: str, *, endpoint: str | None = None, key: str | None = None, if_match: str | None = None
    ) -> ApiCall[Resent]:
        """Send an event again, to one endpoint or to all endpoints that accept the type of the event."""
        path, query = path_to(self.path, id, "resend"), {"endpoint": endpoint}
        return ApiCall(one(Resent), "POST", path, query=query, key=key, if_match=if_match)

    @Iteration
    def list(
        self, *, object: str | None = None, at: datetime | None = None
    ) -> AsyncGenerator[Sequence[Event], None]:
        """Return the events, newest first.

        With `at`, return only the events up to this time. With `object`, return only the events about the
        object with this id.
        """
        return self._pages(Event, object=object, at=at)

    @Operation
    def resend_failed(
        self, since: datetime, *, endpoint: str | None = None, key: str | None = None
    ) -> ApiCall[ResentFailed]:
        """Send again all deliveries that failed since a time."""
        body = body_of(since=since.isoformat(), endpoint=endpoint)
        path = path_to(self.path, "resend")
        return ApiCall(one(ResentFailed), "POST", path, body, key=key)

    @Operation
    def proof(self, id: str) -> ApiCall[str]:
        """Return the proof that the event is in the log (c2sp.org/tlog-proof)."""
        return ApiCall(text_of, "GET", path_to(self.path, id, "proof"))

    @Iteration
    async def stream(self, last_event_id: str | None = None) -> AsyncGenerator[Sequence[Event], None]:
        """Return new events as they happen, without end; after a lost connection the stream resumes."""
        async for message in self._ledger.follow(last_event_id):
            if not message.is_signed:
                raise Unreadable("An event came with a wrong signature.")
            if message.body is not None:
                yield [record(Event, parsed(message.body))]


class WebhookEndpoints(Objects[L]):
    """The webhook endpoints: URLs to which the ledger sends signed events."""

    path = "/v1/webhook_endpoints"

    @Operation
    def create(
        self, url: str, events: Sequence[str] | None = None, *, key: str | None = None
    ) -> ApiCall[WebhookEndpoint]:
        """Add an endpoint, by default for all events; only this answer contains the endpoint's secret."""
        return self._create(WebhookEndpoint, key, url=url, events=events)

    @Operation
    def delete(self, id: str, *, if_match: str | None = None) -> ApiCall[WebhookEndpoint]:
        """Delete an endpoint."""
        return self._delete(WebhookEndpoint, id, if_match)

    @Operation
    def restore(
        self, id: str, *, key: str | None = None, if_match: str | None = None
    ) -> ApiCall[WebhookEndpoint]:
        """Restore an endpoint within 30 days, with a new secret."""
        return self._act(WebhookEndpoint, id, "restore", key, if_match)

    @Operation
    def roll_secret(
        self, id: str, *, key: str | None = None, if_match: str | None = None
    ) -> ApiCall[WebhookEndpoint]:
        """Give the endpoint a new secret."""
        return self._act(WebhookEndpoint, id, "roll_secret", key, if_match)

    @Operation
    def disable(
        self, id: str, *, key: str | None = None, if_match: str | None = None
    ) -> ApiCall[WebhookEndpoint]:
        """Disable the endpoint: the ledger sends nothing to it until you enable it."""
        return self._act(WebhookEndpoint, id, "disable", key, if_match)

    @Operation
    def enable(
        self, id: str, *, key: str | None = None, if_match: str | None = None
    ) -> ApiCall[WebhookEndpoint]:
        """Enable a disabled endpoint: the ledger sends to it again."""
        return self._act(WebhookEndpoint, id, "enable", key, if_match)

    @Operation
    def get(self, id: str) -> ApiCall[WebhookEndpoint]:
        """Return an endpoint."""
        return self._get(WebhookEndpoint, id)

    @Iteration
    def list(self) -> AsyncGenerator[Sequence[WebhookEndpoint], None]:
        """Return the endpoints, newest first."""
        return self._pages(WebhookEndpoint)

    @Iteration
    def deliveries(self, id: str) -> AsyncGenerator[Sequence[Delivery], None]:
        """Return the deliveries to an endpoint, newest first, with every attempt."""
        return self._pages(Delivery, id, "deliveries")


class ApiKeys(Objects[L]):
    """The API keys of the project and mode. All methods need the role `admin`."""

    path = "/v1/api_keys"

    @Operation
    def create(
        self,
        name: str | None = None,
        *,
        role: Role | None = None,
        scopes: Sequence[Scope] | None = None,
        key: str | None = None,
    ) -> ApiCall[ApiKey]:
        """Make a key with at most the caller's rights; only this answer contains the key's value."""
        return self._create(ApiKey, key, name=name, role=role, scopes=scopes)

    @Operation
    def revoke(self, id: str, *, if_match: str | None = None) -> ApiCall[ApiKey]:
        """Revoke a key, for ever."""
        return self._delete(ApiKey, id, if_match)

    @Operation
    def roll(self, id: str, *, key: str | None = None, if_match: str | None = None) -> ApiCall[ApiKey]:
        """Replace a key by a new key with the same rights."""
        return self._act(ApiKey, id, "roll", key, if_match)

    @Operation
    def get(self, id: str) -> ApiCall[ApiKey]:
        """Return a key, without its value."""
        return self._get(ApiKey, id)

    @Iteration
    def list(self) -> AsyncGenerator[Sequence[ApiKey], None]:
        """Return the keys, newest first."""
        return self._pages(ApiKey)


class Projects(Objects[L]):
    """The caller's project, and the projects that it created (its children)."""

    path = "/v1/projects"

    @Operation
    def create(
        self,
        name: str,
        *,
        plan: Plan | None = None,
        overdraft: Overdraft | None = None,
        key: str | None = None,
    ) -> ApiCall[Project]:
        """Create a child of the caller's project; only this answer contains the key of the child."""
        return self._create(Project, key, name=name, plan=plan, overdraft=overdraft)

    @Operation
    def change(
        self, id: str, *, name: str = UNSET, overdraft: str = UNSET, if_match: str | None = None
    ) -> ApiCall[Project]:
        """Change fields of a project."""
        return self._change(Project, id, if_match, name=name, overdraft=overdraft)

    @Operation
    def archive(self, id: str, *, if_match: str | None = None) -> ApiCall[Project]:
        """Archive a project: from then on the server refuses the project's keys."""
        return self._delete(Project, id, if_match)

    @Operation
    def get(self, id: str) -> ApiCall[Project]:
        """Return a project."""
        return self._get(Project, id)

    @Iteration
    def list(self) -> AsyncGenerator[Sequence[Project], None]:
        """Return the projects, newest first."""
        return self._pages(Project)

    @Operation
    def billing(self) -> ApiCall[Billing]:
        """Return the plan and the usage so far of the caller's project; needs the role `owner`."""
        return ApiCall(one(Billing), "GET", "/v1/billing")

    @Operation
    def change_plan(self, plan: Plan, *, if_match: str | None = None) -> ApiCall[Billing]:
        """Change the plan of the caller's project."""
        return ApiCall(one(Billing), "PATCH", "/v1/billing", {"plan": plan}, if_match=if_match)


class Requests(Objects[L]):
    """The requests of the last 7 days."""

    path = "/v1/requests"

    @Operation
    def get(self, id: str) -> ApiCall[LoggedRequest]:
        """Return a request, with the ids of the events that the request caused."""
        return self._get(LoggedRequest, id)

    @Iteration
    def list(
        self,
        *,
        status: int | None = None,
        method: str | None = None,
        path: str | None = None,
        at: datetime | None = None,
    ) -> AsyncGenerator[Sequence[LoggedRequest], None]:
        """Return the requests, newest first; with `at`, only the requests up to this time."""
        return self._pages(LoggedRequest, status=status, method=method, path=path, at=at)

    @Iteration
    def events(self, id: str) -> AsyncGenerator[Sequence[Event], None]:
        """Return the events that a request caused."""
        return self._pages(Event, id, "events")


class Log(Resource[L]):
    """The transparency log of the project and mode, in the form of C2SP's tlog-tiles."""

    path = "/v1/log"

    @Operation
    def checkpoint(self) -> ApiCall[str]:
        """Return the newest checkpoint, a signed note."""
        return ApiCall(text_of, "GET", path_to(self.path, "checkpoint"))

    @Operation
    def tile(self, tile: str) -> ApiCall[bytes]:
        """Return a tile such as `0/x001/234`, `1/000.p/17` or `entries/000`."""
        path = path_to(self.path, "tile", *tile.split("/"))
        return ApiCall(lambda answer: answer.content, "GET", path)


class TokenGrants(Resource[L]):
    """The tokens for programs that have a key, and for apps."""

    @Operation
    def create(self, api_key: str) -> ApiCall[TokenPair]:
        """Exchange an API key for tokens."""
        return _issue("/v1/auth/token", grant_type="api_key", api_key=api_key)

    @Operation
    def refresh(self, refresh_token: str) -> ApiCall[TokenPair]:
        """Exchange a refresh token for a new pair of tokens. Each refresh token works once."""
        return _issue("/v1/auth/token", grant_type="refresh_token", refresh_token=refresh_token)

    @Operation
    def exchange_code(
        self,
        code: str,
        code_verifier: str,
        *,
        client_id: str | None = None,
        redirect_uri: str | None = None,
    ) -> ApiCall[TokenPair]:
        """Exchange the code of an OAuth sign-in for tokens."""
        return _issue(
            "/oauth/token",
            grant_type="authorization_code",
            code=code,
            code_verifier=code_verifier,
            client_id=client_id,
            redirect_uri=redirect_uri,
        )

    @Operation
    def refresh_oauth(
        self, refresh_token: str, client_id: str, *, scope: str | None = None
    ) -> ApiCall[TokenPair]:
        """Exchange an app's refresh token, which works once, for new tokens; `scope` narrows their rights."""
        return _issue(
            "/oauth/token",
            grant_type="refresh_token",
            refresh_token=refresh_token,
            client_id=client_id,
            scope=scope,
        )

    @Operation
    def revoke(
        self, token: str, *, token_type_hint: str | None = None, client_id: str | None = None
    ) -> ApiCall[None]:
        """Revoke the tokens of an app; an unknown token changes nothing."""
        body = body_of(token=token, token_type_hint=token_type_hint, client_id=client_id)
        return ApiCall(lambda answer: None, "POST", "/oauth/revoke", body, is_anonymous=True, is_form=True)

    @Operation
    def metadata(self) -> ApiCall[dict[str, Any]]:
        """Return the metadata of the authorization server: its addresses and abilities (RFC 8414)."""
        path = "/.well-known/oauth-authorization-server"
        return ApiCall(lambda answer: answer.object, "GET", path, is_anonymous=True)


def _issue(path: str, **body: Any) -> ApiCall[TokenPair]:
    is_form = path.startswith("/oauth")
    return ApiCall(_tokens_of, "POST", path, body_of(**body), is_anonymous=True, is_form=is_form)


def _tokens_of(answer: Answer) -> TokenPair:
    try:
        return token_pair(answer.json)
    except ValueError as error:
        raise Unreadable(str(error)) from None


class AllResources(Objects[L]):
    """All resources of a client, and the operations that belong to no resource."""

    path = "/v1"

    def __init__(self, ledger: Any, *, blocks: bool) -> None:
        super().__init__(ledger, blocks=blocks)
        self.accounts: Accounts[L] = Accounts(ledger, blocks=blocks)
        self.currencies: Currencies[L] = Currencies(ledger, blocks=blocks)
        self.transactions: Transactions[L] = Transactions(ledger, blocks=blocks)
        self.invoices: Invoices[L] = Invoices(ledger, blocks=blocks)
        self.users: Users[L] = Users(ledger, blocks=blocks)
        self.orders: Orders[L] = Orders(ledger, blocks=blocks)
        self.events: Events[L] = Events(ledger, blocks=blocks)
        self.webhook_endpoints: WebhookEndpoints[L] = WebhookEndpoints(ledger, blocks=blocks)
        self.api_keys: ApiKeys[L] = ApiKeys(ledger, blocks=blocks)
        self.projects: Projects[L] = Projects(ledger, blocks=blocks)
        self.requests: Requests[L] = Requests(ledger, blocks=blocks)
        self.tokens: TokenGrants[L] = TokenGrants(ledger, blocks=blocks)
        self.log: Log[L] = Log(ledger, blocks=blocks)

    @Operation
    def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | bytes | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> ApiCall[Answer]:
        """Send any request, repeat it as `ApiCall` allows, and return the answer."""
        return ApiCall(as_it_is, method, path, body, query or {}, key, headers or {})

    @Operation
    def whoami(self) -> ApiCall[Caller]:
        """Return the kind and the rights of the client's credential."""
        return ApiCall(one(Caller), "GET", "/v1/whoami")

    @Operation
    def health(self) -> ApiCall[Health]:
        """Return the health of the server; needs no credential."""
        return ApiCall(one(Health), "GET", "/api/health", is_anonymous=True)

    @Operation
    def readiness(self) -> ApiCall[bool]:
        """Return True if the server can carry out writes. Raises ApiError if it cannot."""
        return ApiCall(
            lambda answer: answer.object.get("ok") is True, "GET", "/api/health/ready", is_anonymous=True
        )

    @Iteration
    def diff(self, from_: datetime, to: datetime) -> AsyncGenerator[Sequence[Change], None]:
        """Return the objects that changed between two times."""
        query: dict[str, Any] = {"from": from_, "to": to}
        return self._pages(Change, "diff", **query)

    @Operation
    def diff_summary(self, from_: datetime, to: datetime) -> ApiCall[dict[str, int]]:
        """Return how many transactions were posted between two times, and how many objects changed."""
        query = {"from": from_, "to": to, "limit": 1}
        return ApiCall(lambda answer: dict(answer.object["summary"]), "GET", "/v1/diff", query=query)
