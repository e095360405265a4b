"""The synchronous client, made from `aio.py` by `make client`: change that one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from time import sleep
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


class Ledger:
    """A ledger server, as a project and mode that the key belongs to. Close it, or use it in `with`.

    Requests that were refused for their rate, or got no answer, are repeated; a POST has an idempotency key
    of its own, or yours, and so happens once. Everything raises LedgerError.
    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 30) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = answers.SyncClient(
            bytes_max=answers.LIST_BYTES_MAX,
            seconds_max=SECONDS_MAX,
            base_url=url,
            headers=headers,
            timeout=timeout,
        )
        self.accounts = Accounts(self)
        self.transactions = Transactions(self)
        self.invoices = Invoices(self)
        self.users = Users(self)
        self.orders = Orders(self)
        self.events = Events(self)
        self.webhook_endpoints = WebhookEndpoints(self)
        self.projects = Projects(self)
        self.requests = Requests(self)
        self.tokens = Tokens(self)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def call(self, call: Call) -> Any:
        """Send a request until it is answered, and return the JSON of the answer."""
        while True:
            try:
                answer = self._http.send(call.request(self._http))
            except httpx.HTTPError as error:
                wait = call.wait_after(error)
                if wait is None:
                    raise no_answer(error) from error
            else:
                wait = call.wait_after(answer)
                if wait is None:
                    return call.result(answer)
            sleep(wait)

    def diff(self, from_: datetime, to: datetime) -> Pages[Change]:
        """Return what changed between two moments."""
        return Pages(self, Change, "/v1/diff", {"from": from_, "to": to}, "cursor")

    def stream(self, last_event_id: str | None) -> Iterator[event_stream.ServerSentEvent]:
        """Return the events of one connection to the live stream. Raises LedgerError."""
        headers = {"Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        request = self._http.build_request(
            "GET", "/v1/events/stream", headers=headers, timeout=httpx.Timeout(30, read=60)
        )
        try:
            answer = self._http.send(request, stream=True)
            if not answer.is_success:
                Call("GET", "/v1/events/stream").result(answer)
            try:
                yield from event_stream.sync_events(answer)
            finally:
                answer.close()
        except httpx.HTTPError as error:
            raise no_answer(error) from error


class Pages(Generic[R]):
    """A list, read page by page while you go through it: `for account in ledger.accounts.list()`."""

    def __init__(
        self, ledger: Ledger, kind: type[R], path: str, query: Mapping[str, Any], cursor: str
    ) -> None:
        self._ledger = ledger
        self._kind = kind
        self._path = path
        self._query = query
        self._cursor = cursor

    def __iter__(self) -> Iterator[R]:
        query = dict(self._query)
        seen = set()
        while True:
            shown = self._ledger.call(Call("GET", self._path, query=query))
            found, following = page_of(shown, self._cursor)
            for each in found:
                yield record(self._kind, each)
            if following is None:
                return
            if following in seen:
                raise NotConnected("The server answers the same page again and again.")
            seen.add(following)
            query[self._cursor] = following


class Resource:
    """Objects of one kind."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def _get(self, kind: type[R], path: str, **query: Any) -> R:
        return record(kind, self._ledger.call(Call("GET", path, query=query)))

    def _send(
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
            return record(kind, self._ledger.call(call))
        except LedgerError as error:
            made = call.made_before(error)
            if made is None:
                raise
            own = path.split("/")[2]
            return self._get(kind, f"/{path.split('/')[1]}/{own}/{made}")

    def _list(self, kind: type[R], path: str, cursor: str = "starting_after", /, **query: Any) -> Pages[R]:
        return Pages(self._ledger, kind, path, {"limit": 100, **query}, cursor)


class Accounts(Resource):
    """Balances, each in one currency."""

    def create(
        self, name: str, currency: str, *, metadata: Mapping[str, str] | None = None, key: str | None = None
    ) -> Account:
        """Open an account with a balance of 0."""
        body = body_of(name=name, currency=currency, metadata=metadata)
        return self._send(Account, "POST", "/v1/accounts", body, key)

    def get(self, id: str, *, at: datetime | None = None) -> Account:
        """Return an account, now or as it was at a time."""
        return self._get(Account, f"/v1/accounts/{id}", at=at)

    def list(self, *, at: datetime | None = None) -> Pages[Account]:
        """Return the accounts, newest first."""
        return self._list(Account, "/v1/accounts", at=at)

    def balance(self, id: str, *, at: datetime | None = None) -> Balance:
        """Return the balance of an account, now or at a time."""
        return self._get(Balance, f"/v1/accounts/{id}/balance", at=at)


class Transactions(Resource):
    """Postings: each moves an amount on an account."""

    def post(
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
        return self._send(Transaction, "POST", "/v1/transactions", body, key)

    def batch(
        self, transactions: Sequence[Mapping[str, Any]], *, key: str | None = None
    ) -> list[Transaction]:
        """Post 1 to 1000 transactions, all or none."""
        call = Call("POST", "/v1/transactions/batch", {"transactions": list(transactions)}, key=key)
        shown = self._ledger.call(call)
        found = shown.get("data") if isinstance(shown, dict) else None
        return [record(Transaction, each) for each in found or ()]

    def reverse(self, id: str, *, key: str | None = None) -> Transaction:
        """Post the opposite of a transaction, once."""
        return self._send(Transaction, "POST", f"/v1/transactions/{id}/reverse", key=key)

    def get(self, id: str) -> Transaction:
        """Return a transaction."""
        return self._get(Transaction, f"/v1/transactions/{id}")

    def list(
        self,
        *,
        account: str | None = None,
        type: str | None = None,
        created_after: datetime | None = None,
        at: datetime | None = None,
    ) -> Pages[Transaction]:
        """Return the transactions, newest first."""
        return self._list(
            Transaction, "/v1/transactions", account=account, type=type, created_after=created_after, at=at
        )


class Invoices(Resource):
    """Requests for payment: draft, open, paid or void."""

    def create(
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
        return self._send(Invoice, "POST", "/v1/invoices", body, key)

    def change(
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
        return self._send(Invoice, "PATCH", f"/v1/invoices/{id}", body)

    def finalize(self, id: str, *, key: str | None = None) -> Invoice:
        """Open a draft, which gets its number."""
        return self._send(Invoice, "POST", f"/v1/invoices/{id}/finalize", key=key)

    def pay(self, id: str, *, key: str | None = None) -> Invoice:
        """Pay an open invoice, which credits its account."""
        return self._send(Invoice, "POST", f"/v1/invoices/{id}/pay", key=key)

    def void(self, id: str) -> Invoice:
        """Void an open invoice."""
        return self._send(Invoice, "DELETE", f"/v1/invoices/{id}")

    def get(self, id: str, *, at: datetime | None = None) -> Invoice:
        """Return an invoice, now or as it was at a time."""
        return self._get(Invoice, f"/v1/invoices/{id}", at=at)

    def list(
        self, *, status: str | None = None, account: str | None = None, at: datetime | None = None
    ) -> Pages[Invoice]:
        """Return the invoices, newest first."""
        return self._list(Invoice, "/v1/invoices", status=status, account=account, at=at)


class Users(Resource):
    """The people of the directory."""

    def create(self, name: str, email: str, *, role: str | None = None, key: str | None = None) -> User:
        """Add a user, by default a member."""
        return self._send(User, "POST", "/api/users", body_of(name=name, email=email, role=role), key)

    def deactivate(self, id: str) -> User:
        """Deactivate a user; doing it again changes nothing."""
        return self._send(User, "DELETE", f"/api/users/{id}")

    def restore(self, id: str, *, key: str | None = None) -> User:
        """Restore a user within 30 days."""
        return self._send(User, "POST", f"/api/users/{id}/restore", key=key)

    def get(self, id: str, *, at: datetime | None = None) -> User:
        """Return a user, now or as they were at a time."""
        return self._get(User, f"/api/users/{id}", at=at)

    def list(self, *, role: str | None = None, at: datetime | None = None) -> Pages[User]:
        """Return the users, newest first."""
        return Pages(self._ledger, User, "/api/users", {"per_page": 100, "role": role, "at": at}, "page")


class Orders(Resource):
    """The orders of the directory's users: open, paid, shipped."""

    def create(self, user_id: str, items: Sequence[Mapping[str, Any]], *, key: str | None = None) -> Order:
        """Place an order of 1 to 100 items, which are stored as sent."""
        return self._send(Order, "POST", "/api/orders", {"user_id": user_id, "items": list(items)}, key)

    def pay(self, id: str, *, key: str | None = None) -> Order:
        """Mark an open order as paid."""
        return self._send(Order, "POST", f"/api/orders/{id}/pay", key=key)

    def ship(self, id: str, *, key: str | None = None) -> Order:
        """Mark a paid order as shipped."""
        return self._send(Order, "POST", f"/api/orders/{id}/ship", key=key)

    def get(self, id: str, *, at: datetime | None = None) -> Order:
        """Return an order, now or as it was at a time."""
        return self._get(Order, f"/api/orders/{id}", at=at)

    def list(self, *, status: str | None = None, at: datetime | None = None) -> Pages[Order]:
        """Return the orders, newest first."""
        return self._list(Order, "/api/orders", "cursor", status=status, at=at)


class Events(Resource):
    """What happened, each with the object as it was then."""

    def get(self, id: str) -> Event:
        """Return an event."""
        return self._get(Event, f"/v1/events/{id}")

    def list(self, *, object: str | None = None) -> Pages[Event]:
        """Return the events, or those about one object, newest first."""
        return self._list(Event, "/v1/events", "cursor", object=object)

    def resend(self, id: str, *, endpoint: str | None = None) -> None:
        """Send an event again, to every endpoint that takes it or to one."""
        query = {"endpoint": endpoint}
        self._ledger.call(Call("POST", f"/v1/events/{id}/resend", query=query))

    def stream(self, last_event_id: str | None = None) -> Iterator[Event]:
        """Return events as they happen, without end; after a cut connection it goes on where it was."""
        failed = 0
        while True:
            session = Session()
            try:
                for sent in self._ledger.stream(last_event_id):
                    failed = 0
                    event = session.event_of(sent)
                    if event is not None:
                        yield event
                    last_event_id = sent.id or last_event_id
            except NotConnected:
                failed += 1
            sleep(min(30.0, 0.25 * 2**failed))


class WebhookEndpoints(Resource):
    """The URLs that events are sent to, signed."""

    def create(
        self, url: str, events: Sequence[str] | None = None, *, key: str | None = None
    ) -> WebhookEndpoint:
        """Add an endpoint, by default for all events; the answer alone has its secret."""
        body = body_of(url=url, events=events)
        return self._send(WebhookEndpoint, "POST", "/v1/webhook_endpoints", body, key)

    def delete(self, id: str) -> WebhookEndpoint:
        """Delete an endpoint."""
        return self._send(WebhookEndpoint, "DELETE", f"/v1/webhook_endpoints/{id}")

    def restore(self, id: str, *, key: str | None = None) -> WebhookEndpoint:
        """Restore an endpoint within 30 days, with a new secret."""
        return self._send(WebhookEndpoint, "POST", f"/v1/webhook_endpoints/{id}/restore", key=key)

    def roll_secret(self, id: str, *, key: str | None = None) -> WebhookEndpoint:
        """Give the endpoint a new secret."""
        return self._send(WebhookEndpoint, "POST", f"/v1/webhook_endpoints/{id}/roll_secret", key=key)

    def get(self, id: str) -> WebhookEndpoint:
        """Return an endpoint."""
        return self._get(WebhookEndpoint, f"/v1/webhook_endpoints/{id}")

    def list(self) -> Pages[WebhookEndpoint]:
        """Return the endpoints, newest first."""
        return self._list(WebhookEndpoint, "/v1/webhook_endpoints", "cursor")


class Projects(Resource):
    """The caller's project and those below it."""

    def create(
        self, name: str, *, plan: str | None = None, overdraft: str | None = None, key: str | None = None
    ) -> Project:
        """Create a project below the caller's."""
        body = body_of(name=name, plan=plan, overdraft=overdraft)
        return self._send(Project, "POST", "/v1/projects", body, key)

    def change(self, id: str, **fields: Any) -> Project:
        """Change fields of a project."""
        return self._send(Project, "PATCH", f"/v1/projects/{id}", fields)

    def archive(self, id: str) -> Project:
        """Archive a project, whose keys are then refused."""
        return self._send(Project, "DELETE", f"/v1/projects/{id}")

    def get(self, id: str) -> Project:
        """Return a project."""
        return self._get(Project, f"/v1/projects/{id}")

    def list(self) -> Pages[Project]:
        """Return the projects, newest first."""
        return self._list(Project, "/v1/projects", "cursor")


class Requests(Resource):
    """The requests of the last 7 days."""

    def get(self, id: str) -> LoggedRequest:
        """Return a request."""
        return self._get(LoggedRequest, f"/v1/requests/{id}")

    def list(
        self, *, status: int | None = None, method: str | None = None, path: str | None = None
    ) -> Pages[LoggedRequest]:
        """Return the requests, newest first."""
        return self._list(LoggedRequest, "/v1/requests", "cursor", status=status, method=method, path=path)


class Tokens(Resource):
    """Short-lived access tokens."""

    def create(self, api_key: str) -> TokenPair:
        """Exchange an API key for tokens."""
        return self._issue({"grant_type": "api_key", "api_key": api_key})

    def refresh(self, refresh_token: str) -> TokenPair:
        """Exchange a refresh token, which counts once, for new tokens."""
        return self._issue({"grant_type": "refresh_token", "refresh_token": refresh_token})

    def exchange_code(self, **fields: str) -> TokenPair:
        """Exchange the code of an OAuth sign-in; needs `code` and `code_verifier`."""
        return self._issue(fields, "/oauth/token")

    def refresh_oauth(self, refresh_token: str, client_id: str) -> TokenPair:
        """Exchange the refresh token of an app, which counts once."""
        fields = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": client_id}
        return self._issue(fields, "/oauth/token")

    def _issue(self, body: Mapping[str, Any], path: str = "/v1/auth/token") -> TokenPair:
        call = Call("POST", path, body, keyed=False)
        return record(TokenPair, self._ledger.call(call))
