"""The asynchronous client. `sync.py` is made from it by `make client`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

import httpx

from ledger_client import answers, event_stream
from ledger_client.calls import (
    SECONDS_MAX,
    UNSET,
    Call,
    Session,
    body_of,
    no_answer,
    page_of,
    record,
)
from ledger_client.errors import LedgerError, NotConnected
from ledger_client.records import (
    Account,
    Balance,
    Change,
    Event,
    Invoice,
    LoggedRequest,
    Order,
    Project,
    Record,
    TokenPair,
    Transaction,
    User,
    WebhookEndpoint,
)

R = TypeVar("R", bound=Record)


class AsyncLedger:
    """A ledger server, as a project and mode that the key belongs to. Close it, or use it in `async with`.

    Requests that were refused for their rate, or got no answer, are repeated; a POST has an idempotency key
    of its own, or yours, and so happens once. Everything raises LedgerError.
    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 30) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = answers.Client(
            bytes_max=answers.LIST_BYTES_MAX,
            seconds_max=SECONDS_MAX,
            base_url=url,
            headers=headers,
            timeout=timeout,
        )
        self.accounts = AsyncAccounts(self)
        self.transactions = AsyncTransactions(self)
        self.invoices = AsyncInvoices(self)
        self.users = AsyncUsers(self)
        self.orders = AsyncOrders(self)
        self.events = AsyncEvents(self)
        self.webhook_endpoints = AsyncWebhookEndpoints(self)
        self.projects = AsyncProjects(self)
        self.requests = AsyncRequests(self)
        self.tokens = AsyncTokens(self)

    async def __aenter__(self) -> AsyncLedger:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def call(self, call: Call) -> Any:
        """Send a request until it is answered, and return the JSON of the answer."""
        while True:
            try:
                answer = await self._http.send(call.request(self._http))
            except httpx.HTTPError as error:
                wait = call.wait_after(error)
                if wait is None:
                    raise no_answer(error) from error
            else:
                wait = call.wait_after(answer)
                if wait is None:
                    return call.result(answer)
            await asyncio.sleep(wait)

    def diff(self, from_: datetime, to: datetime) -> AsyncPages[Change]:
        """Return what changed between two moments."""
        return AsyncPages(self, Change, "/v1/diff", {"from": from_, "to": to}, "cursor")

    async def stream(self, last_event_id: str | None) -> AsyncGenerator[event_stream.ServerSentEvent, None]:
        """Return the events of one connection to the live stream. Raises LedgerError."""
        headers = {"Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        request = self._http.build_request(
            "GET", "/v1/events/stream", headers=headers, timeout=httpx.Timeout(30, read=60)
        )
        try:
            answer = await self._http.send(request, stream=True)
            if not answer.is_success:
                Call("GET", "/v1/events/stream").result(answer)
            try:
                async for event in event_stream.events(answer):
                    yield event
            finally:
                await answer.aclose()
        except httpx.HTTPError as error:
            raise no_answer(error) from error


class AsyncPages(Generic[R]):
    """A list, read page by page while you go through it: `async for account in ledger.accounts.list()`."""

    def __init__(
        self, ledger: AsyncLedger, kind: type[R], path: str, query: Mapping[str, Any], cursor: str
    ) -> None:
        self._ledger = ledger
        self._kind = kind
        self._path = path
        self._query = query
        self._cursor = cursor

    async def __aiter__(self) -> AsyncIterator[R]:
        query = dict(self._query)
        seen = set()
        while True:
            shown = await self._ledger.call(Call("GET", self._path, query=query))
            found, following = page_of(shown, self._cursor)
            for each in found:
                yield record(self._kind, each)
            if following is None:
                return
            if following in seen:
                raise NotConnected("The server answers the same page again and again.")
            seen.add(following)
            query[self._cursor] = following


class AsyncResource:
    """Objects of one kind."""

    def __init__(self, ledger: AsyncLedger) -> None:
        self._ledger = ledger

    async def _get(self, kind: type[R], path: str, **query: Any) -> R:
        return record(kind, await self._ledger.call(Call("GET", path, query=query)))

    async def _send(
        self,
        kind: type[R],
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> R:
        """Return what a request made; of an attempt whose answer was lost, what that made."""
        call = Call(method, path, body, key=key)
        try:
            return record(kind, await self._ledger.call(call))
        except LedgerError as error:
            made = call.made_before(error)
            if made is None:
                raise
            own = path.split("/")[2]
            return await self._get(kind, f"/{path.split('/')[1]}/{own}/{made}")

    def _list(
        self, kind: type[R], path: str, cursor: str = "starting_after", /, **query: Any
    ) -> AsyncPages[R]:
        return AsyncPages(self._ledger, kind, path, {"limit": 100, **query}, cursor)


class AsyncAccounts(AsyncResource):
    """Balances, each in one currency."""

    async def create(
        self, name: str, currency: str, *, metadata: Mapping[str, str] | None = None, key: str | None = None
    ) -> Account:
        """Open an account with a balance of 0."""
        body = body_of(name=name, currency=currency, metadata=metadata)
        return await self._send(Account, "POST", "/v1/accounts", body, key)

    async def get(self, id: str, *, at: datetime | None = None) -> Account:
        """Return an account, now or as it was at a time."""
        return await self._get(Account, f"/v1/accounts/{id}", at=at)

    def list(self, *, at: datetime | None = None) -> AsyncPages[Account]:
        """Return the accounts, newest first."""
        return self._list(Account, "/v1/accounts", at=at)

    async def balance(self, id: str, *, at: datetime | None = None) -> Balance:
        """Return the balance of an account, now or at a time."""
        return await self._get(Balance, f"/v1/accounts/{id}/balance", at=at)


class AsyncTransactions(AsyncResource):
    """Postings: each moves an amount on an account."""

    async def post(
        self,
        account: str,
        amount: int,
        type: str,
        *,
        description: str | None = None,
        destination: str | None = None,
        key: str | None = None,
    ) -> Transaction:
        """Post a `credit` or `debit`; with a destination, move the amount between the two accounts."""
        body = body_of(
            account=account, amount=amount, type=type, description=description, destination=destination
        )
        return await self._send(Transaction, "POST", "/v1/transactions", body, key)

    async def batch(
        self, transactions: Sequence[Mapping[str, Any]], *, key: str | None = None
    ) -> list[Transaction]:
        """Post 1 to 1000 transactions, all or none."""
        call = Call("POST", "/v1/transactions/batch", {"transactions": list(transactions)}, key=key)
        shown = await self._ledger.call(call)
        found = shown.get("data") if isinstance(shown, dict) else None
        return [record(Transaction, each) for each in found or ()]

    async def reverse(self, id: str, *, key: str | None = None) -> Transaction:
        """Post the opposite of a transaction, once."""
        return await self._send(Transaction, "POST", f"/v1/transactions/{id}/reverse", key=key)

    async def get(self, id: str) -> Transaction:
        """Return a transaction."""
        return await self._get(Transaction, f"/v1/transactions/{id}")

    def list(
        self,
        *,
        account: str | None = None,
        type: str | None = None,
        created_after: datetime | None = None,
        at: datetime | None = None,
    ) -> AsyncPages[Transaction]:
        """Return the transactions, newest first."""
        return self._list(
            Transaction, "/v1/transactions", account=account, type=type, created_after=created_after, at=at
        )


class AsyncInvoices(AsyncResource):
    """Requests for payment: draft, open, paid or void."""

    async def create(
        self,
        account: str,
        customer: str,
        *,
        amount: int | None = None,
        lines: Sequence[Mapping[str, Any]] | None = None,
        due_date: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Invoice:
        """Draft an invoice of an amount, or of lines."""
        body = body_of(
            account=account,
            customer=customer,
            amount=amount,
            lines=lines,
            due_date=due_date,
            description=description,
            metadata=metadata,
        )
        return await self._send(Invoice, "POST", "/v1/invoices", body, key)

    async def change(
        self,
        id: str,
        *,
        account: str = UNSET,
        customer: str = UNSET,
        amount: int | None = UNSET,
        lines: Sequence[Mapping[str, Any]] | None = UNSET,
        due_date: str | None = UNSET,
        description: str | None = UNSET,
        metadata: Mapping[str, str] | None = UNSET,
    ) -> Invoice:
        """Change fields of a draft; None clears one."""
        body = {
            "account": account,
            "customer": customer,
            "amount": amount,
            "lines": lines,
            "due_date": due_date,
            "description": description,
            "metadata": metadata,
        }
        return await self._send(Invoice, "PATCH", f"/v1/invoices/{id}", body)

    async def finalize(self, id: str, *, key: str | None = None) -> Invoice:
        """Open a draft, which gets its number."""
        return await self._send(Invoice, "POST", f"/v1/invoices/{id}/finalize", key=key)

    async def pay(self, id: str, *, key: str | None = None) -> Invoice:
        """Pay an open invoice, which credits its account."""
        return await self._send(Invoice, "POST", f"/v1/invoices/{id}/pay", key=key)

    async def void(self, id: str) -> Invoice:
        """Void an open invoice."""
        return await self._send(Invoice, "DELETE", f"/v1/invoices/{id}")

    async def get(self, id: str, *, at: datetime | None = None) -> Invoice:
        """Return an invoice, now or as it was at a time."""
        return await self._get(Invoice, f"/v1/invoices/{id}", at=at)

    def list(
        self, *, status: str | None = None, account: str | None = None, at: datetime | None = None
    ) -> AsyncPages[Invoice]:
        """Return the invoices, newest first."""
        return self._list(Invoice, "/v1/invoices", status=status, account=account, at=at)


class AsyncUsers(AsyncResource):
    """The people of the directory."""

    async def create(self, name: str, email: str, *, role: str | None = None, key: str | None = None) -> User:
        """Add a user, by default a member."""
        return await self._send(User, "POST", "/api/users", body_of(name=name, email=email, role=role), key)

    async def deactivate(self, id: str) -> User:
        """Deactivate a user; doing it again changes nothing."""
        return await self._send(User, "DELETE", f"/api/users/{id}")

    async def restore(self, id: str, *, key: str | None = None) -> User:
        """Restore a user within 30 days."""
        return await self._send(User, "POST", f"/api/users/{id}/restore", key=key)

    async def get(self, id: str, *, at: datetime | None = None) -> User:
        """Return a user, now or as they were at a time."""
        return await self._get(User, f"/api/users/{id}", at=at)

    def list(self, *, role: str | None = None, at: datetime | None = None) -> AsyncPages[User]:
        """Return the users, newest first."""
        return AsyncPages(self._ledger, User, "/api/users", {"per_page": 100, "role": role, "at": at}, "page")


class AsyncOrders(AsyncResource):
    """The orders of the directory's users: open, paid, shipped."""

    async def create(
        self, user_id: str, items: Sequence[Mapping[str, Any]], *, key: str | None = None
    ) -> Order:
        """Place an order of 1 to 100 items, which are stored as sent."""
        return await self._send(Order, "POST", "/api/orders", {"user_id": user_id, "items": list(items)}, key)

    async def pay(self, id: str, *, key: str | None = None) -> Order:
        """Mark an open order as paid."""
        return await self._send(Order, "POST", f"/api/orders/{id}/pay", key=key)

    async def ship(self, id: str, *, key: str | None = None) -> Order:
        """Mark a paid order as shipped."""
        return await self._send(Order, "POST", f"/api/orders/{id}/ship", key=key)

    async def get(self, id: str, *, at: datetime | None = None) -> Order:
        """Return an order, now or as it was at a time."""
        return await self._get(Order, f"/api/orders/{id}", at=at)

    def list(self, *, status: str | None = None, at: datetime | None = None) -> AsyncPages[Order]:
        """Return the orders, newest first."""
        return self._list(Order, "/api/orders", "cursor", status=status, at=at)


class AsyncEvents(AsyncResource):
    """What happened, each with the object as it was then."""

    async def get(self, id: str) -> Event:
        """Return an event."""
        return await self._get(Event, f"/v1/events/{id}")

    def list(self, *, object: str | None = None) -> AsyncPages[Event]:
        """Return the events, or those about one object, newest first."""
        return self._list(Event, "/v1/events", "cursor", object=object)

    async def resend(self, id: str, *, endpoint: str | None = None) -> None:
        """Send an event again, to every endpoint that takes it or to one."""
        query = {"endpoint": endpoint}
        await self._ledger.call(Call("POST", f"/v1/events/{id}/resend", query=query))

    async def stream(self, last_event_id: str | None = None) -> AsyncGenerator[Event, None]:
        """Return events as they happen, without end; after a cut connection it goes on where it was."""
        failed = 0
        while True:
            session = Session()
            try:
                async for sent in self._ledger.stream(last_event_id):
                    failed = 0
                    event = session.event_of(sent)
                    if event is not None:
                        yield event
                    last_event_id = sent.id or last_event_id
            except NotConnected:
                failed += 1
            await asyncio.sleep(min(30.0, 0.25 * 2**failed))


class AsyncWebhookEndpoints(AsyncResource):
    """The URLs that events are sent to, signed."""

    async def create(
        self, url: str, events: Sequence[str] | None = None, *, key: str | None = None
    ) -> WebhookEndpoint:
        """Add an endpoint, by default for all events; the answer alone has its secret."""
        body = body_of(url=url, events=events)
        return await self._send(WebhookEndpoint, "POST", "/v1/webhook_endpoints", body, key)

    async def delete(self, id: str) -> WebhookEndpoint:
        """Delete an endpoint."""
        return await self._send(WebhookEndpoint, "DELETE", f"/v1/webhook_endpoints/{id}")

    async def restore(self, id: str, *, key: str | None = None) -> WebhookEndpoint:
        """Restore an endpoint within 30 days, with a new secret."""
        return await self._send(WebhookEndpoint, "POST", f"/v1/webhook_endpoints/{id}/restore", key=key)

    async def roll_secret(self, id: str, *, key: str | None = None) -> WebhookEndpoint:
        """Give the endpoint a new secret."""
        return await self._send(WebhookEndpoint, "POST", f"/v1/webhook_endpoints/{id}/roll_secret", key=key)

    async def get(self, id: str) -> WebhookEndpoint:
        """Return an endpoint."""
        return await self._get(WebhookEndpoint, f"/v1/webhook_endpoints/{id}")

    def list(self) -> AsyncPages[WebhookEndpoint]:
        """Return the endpoints, newest first."""
        return self._list(WebhookEndpoint, "/v1/webhook_endpoints", "cursor")


class AsyncProjects(AsyncResource):
    """The caller's project and those below it."""

    async def create(
        self, name: str, *, plan: str | None = None, overdraft: str | None = None, key: str | None = None
    ) -> Project:
        """Create a project below the caller's."""
        body = body_of(name=name, plan=plan, overdraft=overdraft)
        return await self._send(Project, "POST", "/v1/projects", body, key)

    async def change(self, id: str, **fields: Any) -> Project:
        """Change fields of a project."""
        return await self._send(Project, "PATCH", f"/v1/projects/{id}", fields)

    async def archive(self, id: str) -> Project:
        """Archive a project, whose keys are then refused."""
        return await self._send(Project, "DELETE", f"/v1/projects/{id}")

    async def get(self, id: str) -> Project:
        """Return a project."""
        return await self._get(Project, f"/v1/projects/{id}")

    def list(self) -> AsyncPages[Project]:
        """Return the projects, newest first."""
        return self._list(Project, "/v1/projects", "cursor")


class AsyncRequests(AsyncResource):
    """The requests of the last 7 days."""

    async def get(self, id: str) -> LoggedRequest:
        """Return a request."""
        return await self._get(LoggedRequest, f"/v1/requests/{id}")

    def list(
        self, *, status: int | None = None, method: str | None = None, path: str | None = None
    ) -> AsyncPages[LoggedRequest]:
        """Return the requests, newest first."""
        return self._list(LoggedRequest, "/v1/requests", "cursor", status=status, method=method, path=path)


class AsyncTokens(AsyncResource):
    """Short-lived access tokens."""

    async def create(self, api_key: str) -> TokenPair:
        """Exchange an API key for tokens."""
        return await self._issue({"grant_type": "api_key", "api_key": api_key})

    async def refresh(self, refresh_token: str) -> TokenPair:
        """Exchange a refresh token, which counts once, for new tokens."""
        return await self._issue({"grant_type": "refresh_token", "refresh_token": refresh_token})

    async def exchange_code(self, **fields: str) -> TokenPair:
        """Exchange the code of an OAuth sign-in; needs `code` and `code_verifier`."""
        return await self._issue(fields, "/oauth/token")

    async def refresh_oauth(self, refresh_token: str, client_id: str) -> TokenPair:
        """Exchange the refresh token of an app, which counts once."""
        fields = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": client_id}
        return await self._issue(fields, "/oauth/token")

    async def _issue(self, body: Mapping[str, Any], path: str = "/v1/auth/token") -> TokenPair:
        call = Call("POST", path, body, keyed=False)
        return record(TokenPair, await self._ledger.call(call))
