"""Operations: an operation declares a route, and checks and answers the requests to this route.

The declaration contains the body, query, answer and status of the route, and the scope and role that a caller
needs. The route's part of the OpenAPI document is made from the same declaration.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, is_dataclass
from functools import cached_property, partial
from types import UnionType
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from quart import Request, Response, request

from ledger_engine.access import idempotency
from ledger_engine.access.credentials import Credential
from ledger_engine.core.errors import (
    InvalidRequest,
    LedgerError,
    NotFound,
    PermissionDenied,
    PreconditionFailed,
)
from ledger_engine.core.records import JsonObject, as_text, dumps
from ledger_engine.core.tenant import Tenant
from ledger_engine.http.bodies import Body, NoBody, NoQuery, Query, parse_body, parse_query, require_plain
from ledger_engine.http.conditions import (
    IF_MATCH,
    Condition,
    Etags,
    matches,
    parse_tags,
    require_match,
    tag_of,
)
from ledger_engine.http.errors import JSON, Rendered, render
from ledger_engine.limits import Semaphore
from ledger_engine.store import BookKey, LongWork, T, Unit, keeps_to_book
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import Page

P = ParamSpec("P")
# One project may run this many long reads at the same time. The server answers a further long read with 429.
LONG_READS_OF_ONE_MAX = 64
CALL = "ledger.call"  # the key under which the gate stores the Call in the ASGI scope


@dataclass(slots=True, eq=False)
class Call:
    """One request: its caller, its content, and the engine. Its methods run works for the caller's tenant.

    `caller` is the caller's credential, or the error that refuses the credential. A public operation ignores
    `caller`. `read_later` is the function with which `receive_body` reads the body; None if `body` already
    contains the body. `route` is the path that the operation declares; "" until the dispatcher has found the
    operation. `error_code` is the code of the error in the answer; None if the answer reports no error.
    `condition` is the condition in the header `If-Match`; `write` checks the condition before it runs a work.
    `traceparent` is the value of the header `traceparent`; None if the header is missing or invalid.

    A *work* is a function that runs inside one transaction (`ledger_engine.store`).
    """

    engine: Engine
    request_id: str
    path: str
    caller: Credential | LedgerError
    body: bytes
    headers: dict[bytes, bytes]
    etags: Etags
    read_later: Callable[[], Awaitable[bytes]] | None = None
    tenant: Tenant | None = None
    idempotency_key: str | None = None
    route: str = ""
    error_code: str | None = None
    condition: Condition | None = None
    traceparent: str | None = None

    def authenticate(self) -> Tenant:
        """Return the caller's tenant. Raises AuthenticationError if there is no valid credential."""
        if isinstance(self.caller, LedgerError):
            raise self.caller
        if self.tenant is None:
            self.tenant = self.caller.tenant(self.request_id, self.traceparent)
        return self.tenant

    def is_by_app(self) -> bool:
        """Return whether an app sends the request on behalf of a user."""
        return isinstance(self.caller, Credential) and self.caller.user is not None

    async def receive_body(self) -> None:
        """Read the request's body into `body`, unless it was already read.

        Raises the exceptions of `read_body`.
        """
        if self.read_later is not None:
            read, self.read_later = self.read_later, None
            self.body = await read()

    def refuse(self, error: LedgerError, status: int | None = None) -> Rendered:
        """Return the answer that reports this error, and keep the error's code for the log.

        `status`, if given, replaces the error's own status.
        """
        self.error_code = error.code
        # Remove the traceback: its frames refer to the request, and the request may refer to the error. Such
        # a cycle would keep the bodies of thousands of refused requests until a full garbage collection.
        error.__traceback__ = None
        return render(error, self.path, status)

    def header(self, name: bytes) -> str | None:
        """Return the value of the header with this lower-case name; None if it was not sent."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    async def read(
        self, work: Callable[Concatenate[Unit, Tenant, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a work that only reads, and return its result."""
        return await self.engine.read(_TenantWork(work, self._known_tenant(), args, kwargs))

    async def read_short(
        self, work: Callable[Concatenate[Unit, Tenant, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a work that only reads a few rows by an index, and return its result."""
        return await self.engine.read_short(_TenantWork(work, self._known_tenant(), args, kwargs))

    def long_read(self) -> AbstractAsyncContextManager[None]:
        """Return the context of a long read; inside it, `read_step` runs each step of the read.

        Entering the context raises Full if the caller's project is already running LONG_READS_OF_ONE_MAX
        long reads.
        """
        running = Semaphore(f"long_reads/{self._known_tenant().project}", LONG_READS_OF_ONE_MAX)
        return self.engine.shared_state.semaphores.hold(running)

    async def read_step(
        self, work: Callable[Concatenate[Unit, Tenant, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run one step of a long read, a work of some milliseconds, and return its result.

        The step waits for the project's turn, because the long reads of all projects take turns.
        """
        return await self.engine.read(LongWork(_TenantWork(work, self._known_tenant(), args, kwargs)))

    async def read_long(
        self, work: Callable[Concatenate[Unit, Tenant, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a long read that consists of a single step, and return its result. Raises Full."""
        async with self.long_read():
            return await self.read_step(work, *args, **kwargs)

    async def write(
        self, work: Callable[Concatenate[Unit, Tenant, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a work that writes; return its result once its changes are durable.

        Raises PreconditionFailed, and changes nothing, if the condition of the request does not hold.
        """
        return await self.engine.write(_TenantWork(work, self._known_tenant(), args, kwargs, self.condition))

    async def write_long(
        self, work: Callable[Concatenate[Unit, Tenant, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a work that writes for many milliseconds; return its result once its changes are durable."""
        return await self.engine.write(LongWork(_TenantWork(work, self._known_tenant(), args, kwargs)))

    def _known_tenant(self) -> Tenant:
        assert self.tenant is not None, "a public operation has no tenant"
        return self.tenant


@dataclass(slots=True, eq=False)
class _TenantWork(Generic[T]):
    """A work with its tenant and arguments. The engine schedules works by `called`, `book` and `project`."""

    work: Callable[..., T]
    tenant: Tenant
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    condition: Condition | None = None

    @property
    def called(self) -> tuple[Callable[..., T], Tenant, tuple[Any, ...]]:
        """Return the called function, its tenant and its arguments."""
        return self.work, self.tenant, self.args

    @property
    def book(self) -> BookKey | None:
        """Return the only book that the work uses; None if the work may use several books."""
        return self.tenant.book if keeps_to_book(self.work) else None

    @property
    def project(self) -> str:
        """Return the tenant's project. The engine lets the works of different projects take turns."""
        return self.tenant.project

    def __call__(self, unit: Unit) -> T:
        if self.condition is None:
            return self.work(unit, self.tenant, *self.args, **self.kwargs)
        change = partial(self.work, unit, self.tenant, *self.args, **self.kwargs)
        answer: T = self.condition.run(unit, self.tenant, change)
        return answer


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """An answer that is sent piece by piece. The generator `pieces` is closed if the client disconnects."""

    content_type: str
    pieces: AsyncGenerator[str, None]
    headers: tuple[tuple[bytes, bytes], ...] = ()


# The results of handlers. A StreamedAnswer and a Rendered are sent as they are; `text_of` turns any other
# result into JSON.
Result = JsonObject | Page[Any] | list[Any] | dict[str, Any] | StreamedAnswer | Rendered

Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Result]])


@dataclass(frozen=True, eq=False)
class Operation:
    """The declaration of a route, and its `handler`; `path` is a werkzeug rule such as `/v1/accounts/<id>`.

    `needs` is the scope that a restricted credential must have, and `role` is the lowest role that may use
    the operation. A `public` operation takes no credential. A `lasting` operation creates something that
    keeps working, such as an API key. An app may not use a lasting operation, because the result would
    outlast the user's permission. `body` and `query` are the classes of the request's body and query.

    `answer` is the class of the records in the answer. If the operation is `paged`, the answer is a list
    envelope with such records. `also_as` lists the media types other than JSON in which the answer can be
    sent. An operation `of_log` reads the transparency log. It answers 409 until the log has a signed
    checkpoint; if an event is requested, the checkpoint must cover this event. `in_contract` marks the
    operations of docs/interface.md. A `secret` answer must not be cached (RFC 6749, 5.1).

    The answer of a `tagged` operation depends only on the book (the test or the live mode of a project), and
    not on the time, so the answer gets an ETag. An answer with one object gets an ETag too, unless the object
    was just created. An operation that changes an object can set `changes` to a work that reads the object
    and returns it as GET does. The server computes the object's tag from the result of this work, and
    compares the tag with `If-Match`.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Callable[..., Awaitable[Result]]
    needs: str | None
    role: str = "member"
    public: bool = False
    lasting: bool = False
    body: type[Body] | None = None
    query: type[Query] | None = None
    answer: type[Any] | None = None
    paged: bool = False
    also_as: tuple[str, ...] = ()
    of_log: bool = False
    status: int = 200
    in_contract: bool = False
    secret: bool = False
    tagged: bool = False
    changes: Callable[..., JsonObject] | None = None

    @cached_property
    def shows_one(self) -> bool:
        """Return whether the answer is one object with an ETag.

        An answer with a secret gets no ETag, because the secret is shown only once.
        """
        is_object = hasattr(self.answer, "OBJECT") and not self.paged and not self.tagged
        return is_object and not self.secret and (self.method == "GET" or self.changes is not None)

    @cached_property
    def _no_query(self) -> Query:
        """Return the value of `query` for a request without query parameters.

        Raises InvalidRequest if a parameter is required.
        """
        return parse_query(self.query or NoQuery, b"")

    async def serve(
        self, call: Call, variables: dict[str, str], raw_path: bytes, query_string: bytes
    ) -> Rendered | StreamedAnswer:
        """Check the request against the declaration, run the handler, and return the answer.

        `variables` are the variable parts of the path. Raises LedgerError.
        """
        arguments: dict[str, Any] = {**variables}
        headers = [JSON, *_NO_STORE] if self.secret else [JSON]
        if not self.public:
            tenant = call.authenticate()
            tenant.require_role(self.role)
            if self.needs is not None:
                tenant.require_scope(self.needs)
            if self.lasting and call.is_by_app():
                raise PermissionDenied(
                    "missing_scope",
                    "Apps cannot do this, whatever their scopes: the result would outlast the user's"
                    " permission.",
                )
        if call.read_later is not None:
            await call.receive_body()
        if call.body and b"content-encoding" in call.headers:
            require_plain(call.header(b"content-encoding"))
        if self.method == "POST":
            call.idempotency_key = idempotency.parse(call.header(b"idempotency-key"))
            if call.idempotency_key is not None and call.tenant is not None:
                target = raw_path + b"?" + query_string if query_string else raw_path
                call.tenant.fingerprint = idempotency.fingerprint(self.method, target, call.body)
        try:
            query = parse_query(self.query or NoQuery, query_string) if query_string else self._no_query
            if self.query is not None:
                arguments["query"] = query
            if self.body is not None:
                arguments["body"] = parse_body(self.body, call.body, call.header(b"content-type"))
            elif call.body:
                parse_body(NoBody, call.body, call.header(b"content-type"))
            if self.tagged:
                condition = call.headers.get(b"if-none-match")
                target = raw_path + b"?" + query_string
                tag = await call.etags.of(tenant, target, exact=condition is not None)
                headers.append((b"etag", tag))
                if condition is not None and matches(tag, condition):
                    return 304, headers[1:], b""
            if self.changes is not None and (value := call.headers.get(b"if-match")) is not None:
                call.condition = Condition(self.changes, variables, parse_tags(value, IF_MATCH))
            answer = await self.handler(call, **arguments)
        except (InvalidRequest, NotFound, PermissionDenied, PreconditionFailed):
            await _refuse_second_use(call)
            raise
        if isinstance(answer, (StreamedAnswer, tuple)):
            return answer
        body = text_of(answer).encode()
        return self._with_tag(call, headers, body) if self.shows_one else (self.status, headers, body)

    def _with_tag(self, call: Call, headers: list[tuple[bytes, bytes]], body: bytes) -> Rendered:
        """Return the answer whose body is one object's JSON text `body`, with the object's tag as its ETag.

        For a GET, compare the tag with `If-Match` and `If-None-Match`. Raises PreconditionFailed.
        """
        tag = tag_of(body)
        headers.append((b"etag", tag))
        if self.method == "GET":
            if (value := call.headers.get(b"if-match")) is not None:
                require_match(tag, parse_tags(value, IF_MATCH))
            condition = call.headers.get(b"if-none-match")
            if condition is not None and matches(tag, condition):
                return 304, headers[1:], b""
        return self.status, headers, body


@dataclass(eq=False)
class Routes:
    """The operations of one resource. The decorator `add` declares them; their paths begin with `prefix`."""

    name: str
    prefix: str
    operations: list[Operation] = field(default_factory=list)

    def add(self, method: str, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """Declare the decorated function as the handler of a route; `options` are fields of Operation.

        The handler gets the Call, the variables of the path, and `body` and `query` if it has parameters of
        these names. The handler's annotations name the classes of body, query and answer. Unless `needs` is
        among the options, a GET needs the scope `read:projects`, and any other method needs the scope
        `write:projects`.
        """

        def register(handler: Handler) -> Handler:
            summary = (handler.__doc__ or "").strip().partition("\n")[0].rstrip(".")
            scope = "read:projects" if method == "GET" else "write:projects"
            needs = None if options.get("public") else scope
            fields = {"needs": needs, **_annotated_options(handler), **options}
            operation = Operation(method, self.prefix + path, handler.__name__, summary, handler, **fields)
            self.operations.append(operation)
            return handler

        return register


def _annotated_options(handler: Callable[..., Any]) -> dict[str, Any]:
    """Return the fields of Operation that follow from the handler's annotations.

    If the annotation of the result names several classes, the first one is the class of the records. If the
    first class is not a record, `answer` is None here, and the route can name a class in its option `answer`.
    """
    hints = get_type_hints(handler)
    answer = hints["return"]
    if get_origin(answer) in (UnionType, Union):
        answer = get_args(answer)[0]
    is_page = get_origin(answer) is Page
    if is_page:
        [answer] = get_args(answer)
    is_record = is_dataclass(answer) and answer is not StreamedAnswer
    return {
        "body": hints.get("body"),
        "query": hints.get("query"),
        "answer": answer if is_record else None,
        "paged": is_page,
    }


async def _refuse_second_use(call: Call) -> None:
    """Raise DuplicateIdempotencyKey if the request's idempotency key was already used.

    Call this before reporting another error in the request, because a second use of a key must be reported
    instead of the other error (docs/decisions.md#idempotency-second).
    """
    if call.idempotency_key is None or call.tenant is None:
        return
    second_use = await call.read(idempotency.second_use, call.idempotency_key)
    if second_use is not None:
        raise second_use


_NO_STORE = ((b"cache-control", b"no-store"), (b"pragma", b"no-cache"))


def call_of(request: Request) -> Call:
    """Return the Call that the gate made for this request."""
    call: Call = cast(dict[str, Any], request.scope)[CALL]
    return call


def refusal_answer(error: LedgerError) -> Response:
    """Return the answer that reports this error, as a response of Quart, and keep the code for the log."""
    status, headers, body = call_of(request).refuse(error)
    return Response(body, status=status, headers={name.decode(): value.decode() for name, value in headers})


def text_of(answer: JsonObject | Page[Any] | list[Any] | dict[str, Any]) -> str:
    """Return the JSON text of an answer.

    A page becomes the list envelope (docs/interface.md), and a list becomes an object with the one field
    `data`.
    """
    if isinstance(answer, Page):
        return f'{{"data":[{text_of_items(answer.items)}{end_of_page(answer)}'
    if isinstance(answer, list):
        return f'{{"data":[{text_of_items(answer)}]}}'
    return dumps(answer) if isinstance(answer, dict) else as_text(answer)


def text_of_items(items: list[Any]) -> str:
    """Return the JSON texts of the items, with commas between them. An item may already be a JSON text."""
    if not items or not isinstance(items[0], str):
        items = [dumps(item) if isinstance(item, dict) else as_text(item) for item in items]
    return ",".join(items)


def end_of_page(page: Page[Any], summary: JsonObject | None = None) -> str:
    """Return the end of a list envelope: its JSON text after the last item, with a `summary` if given."""
    after = "" if summary is None else f',"summary":{as_text(summary)}'
    return f'],"has_more":{dumps(page.has_more)},"next_cursor":{dumps(page.next_cursor)}{after}}}'
