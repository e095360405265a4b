"""Makes the methods of both clients from functions, so that each method is written once.

`Operation` and `Iteration` turn a function into a method. In AsyncLedger the method is asynchronous; in
Ledger it waits for the result.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from ledger_client.calls import ApiCall, as_it_is, body_of, one, path_to, record
from ledger_client.errors import Unreadable
from ledger_client.pages import NOT_A_LEDGER, page_of
from ledger_client.records import Record

if TYPE_CHECKING:
    from ledger_client.ledger import AsyncLedger, Ledger

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound=Record)
L = TypeVar("L")  # the kind of client that a resource belongs to: AsyncLedger or Ledger

_STARTING = threading.Lock()
_THREAD = "ledger client"


class Resource(Generic[L]):
    """The operations on objects of one kind, below `path`. With `blocks` the methods wait for results."""

    path = ""

    def __init__(self, ledger: AsyncLedger, *, blocks: bool) -> None:
        self._ledger = ledger
        self._blocks = blocks


class Operation(Generic[P, T]):
    """A method that sends the request that `call_of` returns.

    In Ledger the method returns the result, and in AsyncLedger an awaitable of the result.
    """

    def __init__(self, call_of: Callable[Concatenate[Any, P], ApiCall[T]]) -> None:
        self.call_of = call_of
        self.__doc__ = call_of.__doc__

    @overload
    def __get__(self, resource: None, kind: Any) -> Operation[P, T]: ...
    @overload
    def __get__(self, resource: Resource[Ledger], kind: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, resource: Resource[AsyncLedger], kind: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, resource: Resource[Any] | None, kind: Any) -> Any:
        if resource is None:
            return self

        @functools.wraps(self.call_of)
        def run(*arguments: P.args, **options: P.kwargs) -> Any:
            work = resource._ledger.send(self.call_of(resource, *arguments, **options))
            return in_thread(work) if resource._blocks else work

        return run


class Iteration(Generic[P, T]):
    """A method that lists objects; `batches_of` yields them in batches, such as the pages of a list.

    In Ledger the method returns an iterator over the objects, and in AsyncLedger an async iterator.
    """

    def __init__(self, batches_of: Callable[Concatenate[Any, P], AsyncGenerator[Sequence[T], None]]) -> None:
        self.batches_of = batches_of
        self.__doc__ = batches_of.__doc__

    @overload
    def __get__(self, resource: None, kind: Any) -> Iteration[P, T]: ...
    @overload
    def __get__(self, resource: Resource[Ledger], kind: Any) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, resource: Resource[AsyncLedger], kind: Any) -> Callable[P, AsyncGenerator[T, None]]: ...

    def __get__(self, resource: Resource[Any] | None, kind: Any) -> Any:
        if resource is None:
            return self

        @functools.wraps(self.batches_of)
        def run(*arguments: P.args, **options: P.kwargs) -> Any:
            batches = self.batches_of(resource, *arguments, **options)
            return _iterate(batches) if resource._blocks else _iterate_async(batches)

        return run


class Objects(Resource[L]):
    """The base class of resources with objects: it requests single objects, and reads lists page by page."""

    def _get(self, kind: type[R], id: str, *more: str, **query: Any) -> ApiCall[R]:
        return ApiCall(one(kind), "GET", path_to(self.path, id, *more), query=query)

    def _create(self, kind: type[R], key: str | None, **body: Any) -> ApiCall[R]:
        return ApiCall(one(kind), "POST", self.path, body_of(**body), key=key)

    def _change(self, kind: type[R], id: str, if_match: str | None, **body: Any) -> ApiCall[R]:
        return ApiCall(one(kind), "PATCH", path_to(self.path, id), body, if_match=if_match)

    def _delete(self, kind: type[R], id: str, if_match: str | None) -> ApiCall[R]:
        return ApiCall(one(kind), "DELETE", path_to(self.path, id), if_match=if_match)

    def _act(self, kind: type[R], id: str, action: str, key: str | None, if_match: str | None) -> ApiCall[R]:
        return ApiCall(one(kind), "POST", path_to(self.path, id, action), key=key, if_match=if_match)

    async def _pages(
        self, kind: type[R], *parts: str, paging: str = "cursor", **query: Any
    ) -> AsyncGenerator[Sequence[R], None]:
        path, cursor, cursors = path_to(self.path, *parts), None, set[str]()
        size = "per_page" if paging == "page" else "limit"
        while True:
            parameters = {size: 100, **query, paging: cursor}
            answer = await self._ledger.send(ApiCall(as_it_is, "GET", path, query=parameters))
            page = page_of(answer.json, paging, cursor)
            yield [record(kind, row) for row in page.rows]
            cursor = page.older
            if cursor is None:
                return
            if cursor in cursors or not page.rows:
                raise Unreadable(f"The server answers the same page again and again. {NOT_A_LEDGER}")
            cursors.add(cursor)


async def _iterate_async(batches: AsyncGenerator[Sequence[T], None]) -> AsyncGenerator[T, None]:
    async with aclosing(batches):
        async for batch in batches:
            for item in batch:
                yield item


def _iterate(batches: AsyncGenerator[Sequence[T], None]) -> Iterator[T]:
    async def next_batch() -> Sequence[T] | None:
        return await anext(batches, None)

    while (batch := in_thread(next_batch())) is not None:
        try:
            yield from batch
        except BaseException:
            if not sys.is_finalizing():  # at the end of the interpreter the thread has stopped
                in_thread(batches.aclose())
            raise


def in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the clients' thread and return its result.

    Raises RuntimeError if the clients' thread itself calls this function: that thread would wait for itself.
    """
    with _STARTING:
        loop = _loop(os.getpid())
    if threading.current_thread().name == _THREAD:
        work.close()
        raise RuntimeError("A Ledger cannot be used within on_refresh: it would wait for itself.")
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    finally:
        future.cancel()  # after Ctrl-C the coroutine may still run


@functools.cache
def _loop(_process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop of the process with this id. The loop runs in a thread.

    The process id is the key of the cache: after a fork the child process gets a loop of its own.
    """
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=_THREAD, daemon=True).start()
    return loop
