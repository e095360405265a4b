"""Operations: each route with all that is declared of it, and the one way a request takes through it.

A route's declaration names its body, query, answer, status, and the scope and role it needs; the
same declaration guards the route and writes its part of the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from pydantic import BaseModel
from pydantic_core import to_json
from quart import Blueprint, Request, Response

from ledger_engine.access import idempotency
from ledger_engine.access.credentials import Credential
from ledger_engine.core.errors import (
    DuplicateIdempotencyKey,
    InvalidRequest,
    LedgerError,
    NotFound,
    PermissionDenied,
)
from ledger_engine.core.records import Shown, as_json
from ledger_engine.core.tenant import Scope
from ledger_engine.database import T, Unit
from ledger_engine.database.engine import Engine
from ledger_engine.database.pages import Page
from ledger_engine.http.bodies import Body, NoBody, NoQuery, Query, parse_body, parse_query
from ledger_engine.http.errors import Rendered
from ledger_engine.http.protocol.asgi import JSON

P = ParamSpec("P")
CALL = "ledger.call"  # where the gate leaves the Call in the ASGI scope


@dataclass(slots=True, eq=False)
class Call:
    """One request on its way: who asks, and the engine that answers.

    `caller` is the credential, or the error that refuses it; a public operation looks at neither.
    """

    engine: Engine
    request_id: str
    caller: Credential | LedgerError
    body: bytes
    headers: dict[bytes, bytes]
    scope: Scope | None = None
    idempotency_key: str | None = None

    def authenticate(self) -> Scope:
        """The caller's scope; raises AuthenticationError without a good credential."""
        if isinstance(self.caller, LedgerError):
            raise self.caller
        self.scope = self.caller.scope(self.request_id)
        return self.scope

    def require_no_app(self) -> None:
        """Raise PermissionDenied when an app asks on behalf of a user."""
        if isinstance(self.caller, Credential) and self.caller.user is not None:
            raise PermissionDenied(
                "missing_scope", "No scope allows this to an app: it would outlast what the user allowed."
            )

    def header(self, name: bytes) -> str | None:
        """The value of a header, named in lower case."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    async def read(
        self, work: Callable[Concatenate[Unit, Scope, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a room's reading function for the caller's scope."""
        scope = self._known_scope()
        return await self.engine.read(lambda unit: work(unit, scope, *args, **kwargs))

    async def write(
        self, work: Callable[Concatenate[Unit, Scope, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a room's changing function for the caller's scope, durably."""
        scope = self._known_scope()
        return await self.engine.write(lambda unit: work(unit, scope, *args, **kwargs))

    def _known_scope(self) -> Scope:
        assert self.scope is not None, "a public operation has no scope"
        return self.scope


@dataclass(frozen=True, slots=True)
class Operation:
    """What is declared of a route; `path` is Quart's form of it.

    `needs` is the scope a restricted credential must have, `role` the least role. A `public` operation
    takes no credential. What a `lasting` one makes goes on by itself, so an app may not use it: it
    would outlast what the user allowed. `answer` is the record's class, `paged` if it comes in the list
    envelope, and `also_as` are the media types it can be had in besides JSON. `beyond_contract` marks
    what interface.md does not have. `secret` is an answer that nothing on the way may keep (RFC 6749, 5.1).
    """

    method: str
    path: str
    name: str
    summary: str
    needs: str | None = None
    role: str = "member"
    public: bool = False
    lasting: bool = False
    body: type[Body] | None = None
    query: type[Query] | None = None
    answer: type[Any] | None = None
    paged: bool = False
    also_as: tuple[str, ...] = ()
    status: int = 200
    beyond_contract: bool = False
    secret: bool = False


Answer = Shown | Page[Any] | dict[str, Any] | BaseModel | Response


Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Answer]])


class Routes:
    """The operations of one room, declared one by one and put into the app together."""

    def __init__(self, name: str, prefix: str) -> None:
        self.name = name
        self.blueprint = Blueprint(name, __name__, url_prefix=prefix)
        self.prefix = prefix
        self.operations: list[Operation] = []

    def add(self, method: str, path: str, **declared: Any) -> Callable[[Handler], Handler]:
        """Declare the decorated function as the handler of a route; see Operation for what can be declared.

        The handler is called with the Call, the path's parts, and `body` and `query` where declared.
        """

        def register(handler: Handler) -> Handler:
            summary = (handler.__doc__ or "").strip().partition("\n")[0].rstrip(".")
            operation = Operation(method, self.prefix + path, handler.__name__, summary, **declared)
            self.operations.append(operation)

            # Where Quart keeps its views stands the route itself: `Connection` serves it.
            route = cast(Any, Route(operation, handler))
            self.blueprint.add_url_rule(path, handler.__name__, route, methods=[method])
            return handler

        return register


class Route:
    """An operation with its handler."""

    def __init__(self, operation: Operation, handler: Callable[..., Awaitable[Answer]]) -> None:
        self.operation = operation
        self._handler = handler

    async def serve(self, call: Call, parts: dict[str, str], query_string: bytes) -> Rendered | Response:
        """Check and read the request as it was declared, and answer it. Raises LedgerError."""
        operation = self.operation
        arguments: dict[str, Any] = parts
        if not operation.public:
            scope = call.authenticate()
            scope.require_role(operation.role)
            if operation.needs is not None:
                scope.require_scope(operation.needs)
            if operation.lasting:
                call.require_no_app()
        if operation.method == "POST":
            call.idempotency_key = idempotency.parse(call.header(b"idempotency-key"))
        try:
            if operation.query is not None:
                arguments["query"] = parse_query(operation.query, query_string)
            elif query_string:
                parse_query(NoQuery, query_string)
            if operation.body is not None:
                arguments["body"] = parse_body(operation.body, call.body, call.header(b"content-type"))
            elif call.body:
                parse_body(NoBody, call.body, call.header(b"content-type"))
            answer = await self._handler(call, **arguments)
        except (InvalidRequest, NotFound):
            await _refuse_second_use(call)
            raise
        if isinstance(answer, Response):
            return answer
        headers = [JSON, *_UNSTORED] if operation.secret else [JSON]
        return operation.status, headers, to_json(shown(answer))


async def _refuse_second_use(call: Call) -> None:
    """Raise DuplicateIdempotencyKey for a key that was used, whatever is wrong besides (decisions.md 5)."""
    if call.idempotency_key is None or call.scope is None:
        return
    first = await call.read(idempotency.taken_for, call.idempotency_key)
    if first is not None:
        raise DuplicateIdempotencyKey(first)


_UNSTORED = ((b"cache-control", b"no-store"), (b"pragma", b"no-cache"))


def call_of(request: Request) -> Call:
    """The Call that the gate made for this request."""
    call: Call = cast(dict[str, Any], request.scope)[CALL]
    return call


def shown(answer: Shown | Page[Any] | dict[str, Any] | BaseModel) -> dict[str, Any]:
    """The JSON object of an answer; a page becomes the list envelope of interface.md."""
    if isinstance(answer, dict):
        return answer
    if isinstance(answer, Page):
        return {
            "data": [as_json(item) for item in answer.items],
            "has_more": answer.has_more,
            "next_cursor": answer.next_cursor,
        }
    if isinstance(answer, BaseModel):
        return answer.model_dump(mode="json")
    return as_json(answer)
