"""A ledger server with interface.md's endpoints and no others, in memory, on a real socket.

The dashboard must work with this server, which offers no `ending_before`, no single transaction, no list of
invoices and no idempotency header; records have only the fields that the interface defines, directory lists
are bare arrays, and unknown parameters get 400. A test reads its state (`accounts`, `transactions`,
`requests`) and makes it misbehave (`refuse`).
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config
from quart import Quart, Response, jsonify, request

KEY = "sk_test_0123456789abcdefghijklmnopqrstuv"
READ_PARAMS = {"limit", "starting_after"}


@dataclass
class Misfortune:
    """An answer that replaces the right one."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


class ContractServer:
    """`with ContractServer() as server:` serves at `server.url` until the block ends."""

    def __init__(self, *, key: str = KEY, port: int = 0) -> None:
        self.key = key
        self.accounts: list[dict[str, Any]] = []  # oldest first
        self.transactions: list[dict[str, Any]] = []
        self.invoices: list[dict[str, Any]] = []
        self.users: list[dict[str, Any]] = []
        self.orders: list[dict[str, Any]] = []
        self.access_tokens: set[str] = set()
        self.refresh_tokens: set[str] = set()
        self.token_seconds = 3600
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.conditions: list[str | None] = []  # of each request, If-None-Match
        self.etags = False  # whether an invoice has an ETag, which goes beyond the contract
        self.if_match: list[str | None] = []  # of each PATCH, If-Match
        self.changes_first: dict[str, Any] = {}  # what somebody else changes just before the next PATCH
        self.health: dict[str, Any] = {"ok": True}
        self.idempotency_keys: dict[str, str] = {}
        self.misfortunes: deque[Misfortune] = deque()
        self.misfortune: Misfortune | None = None
        self._held: tuple[str | None, asyncio.Event] | None = None
        self.limit = 6000
        self._ids = 0
        self._port = port
        self._sockets: list[socket.socket] = []

    # ------------------------------------------------------------------ running

    def __enter__(self) -> ContractServer:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self._port))
        listener.listen(64)
        self._port = listener.getsockname()[1]
        self._listener = listener
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop, as a server that is being restarted does."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(10)

    def _run(self) -> None:
        config = Config()
        config.bind = [f"fd://{self._listener.detach()}"]
        config.graceful_timeout = 0.1
        config.shutdown_timeout = 0.1
        config.keep_alive_timeout = 60
        config.errorlog = None
        self._loop.run_until_complete(serve(self._app(), config, shutdown_trigger=self._ended.wait))
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    # ------------------------------------------------------------------ filling

    def new_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}_{self._ids:026d}"

    def add_account(self, name: str = "Till", currency: str = "EUR", balance: int = 0) -> dict[str, Any]:
        record = {
            "id": self.new_id("acc"),
            "object": "account",
            "name": name,
            "currency": currency,
            "balance": balance,
            "created": "2026-11-20T04:31:00.123Z",
            "metadata": {},
        }
        self.accounts.append(record)
        return record

    def post(
        self, account: dict[str, Any], amount: int, kind: str = "credit", description: str | None = None
    ) -> dict[str, Any]:
        record = {
            "id": self.new_id("txn"),
            "account": account["id"],
            "amount": amount,
            "type": kind,
            "description": description,
        }
        account["balance"] += amount if kind == "credit" else -amount
        self.transactions.append(record)
        return record

    def refuse(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        """Give this answer to the next request of the ledger."""
        self.misfortunes.append(Misfortune(status, body, headers or {}))

    @contextmanager
    def refusing(
        self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None
    ) -> Iterator[None]:
        """Give this answer to every request of the ledger during the context."""
        self.misfortune = Misfortune(status, body, headers or {})
        try:
            yield
        finally:
            self.misfortune = None

    @contextmanager
    def holding(self, after: str | None) -> Iterator[None]:
        """Leave requests for the page after this id, None for the newest, unanswered during the context."""
        self._held = after, asyncio.Event()
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._held[1].set)
            self._held = None

    # ------------------------------------------------------------------ answering

    def _app(self) -> Quart:
        app = Quart("contract")
        app.add_url_rule("/api/health", view_func=self._health)
        app.add_url_rule("/v1/accounts", view_func=self._list_accounts)
        app.add_url_rule("/v1/accounts/<account_id>", view_func=self._one_account)
        app.add_url_rule("/v1/accounts", view_func=self._create_account, methods=["POST"])
        app.add_url_rule("/v1/transactions", view_func=self._list_transactions)
        app.add_url_rule("/v1/transactions", view_func=self._create_transaction, methods=["POST"])
        app.add_url_rule("/v1/invoices", view_func=self._create_invoice, methods=["POST"])
        app.add_url_rule("/v1/invoices/<invoice_id>", view_func=self._one_invoice)
        app.add_url_rule("/v1/invoices/<invoice_id>", view_func=self._change_invoice, methods=["PATCH"])
        app.add_url_rule("/v1/invoices/<invoice_id>", view_func=self._void_invoice, methods=["DELETE"])
        app.add_url_rule("/v1/auth/token", view_func=self._issue_token, methods=["POST"])
        app.add_url_rule("/api/users", view_func=self._list_users)
        app.add_url_rule("/api/users", view_func=self._create_user, methods=["POST"])
        app.add_url_rule("/api/users/<user_id>", view_func=self._one_user)
        app.add_url_rule("/api/users/<user_id>", view_func=self._deactivate_user, methods=["DELETE"])
        app.add_url_rule("/api/orders", view_func=self._list_orders)
        app.add_url_rule("/api/orders", view_func=self._place_order, methods=["POST"])
        app.register_error_handler(404, lambda _error: _problem(404, "not_found", "No such thing.", None))
        app.register_error_handler(405, lambda _error: _problem(405, "method_not_allowed", "Not so.", None))
        app.before_request(self._meet)
        app.after_request(self._limits)
        return app

    async def _meet(self) -> Response | None:
        self.requests.append((request.method, request.path, request.args.to_dict()))
        self.conditions.append(request.headers.get("If-None-Match"))
        if request.path == "/api/health":
            return None
        misfortune = self.misfortunes.popleft() if self.misfortunes else self.misfortune
        if misfortune is not None:
            answer = jsonify(misfortune.body)
            answer.status_code = misfortune.status
            answer.headers.update(misfortune.headers)
            return answer
        if request.path == "/v1/auth/token":
            return None
        known = {f"Bearer {each}" for each in (self.key, *self.access_tokens)}
        if request.headers.get("Authorization") not in known:
            return _problem(401, "invalid_credential", "The key is not known.", None)
        if (held := self._held) is not None and held[0] == request.args.get("starting_after"):
            await held[1].wait()
        return None

    async def _limits(self, answer: Response) -> Response:
        answer.headers.setdefault("X-RateLimit-Limit", str(self.limit))
        answer.headers.setdefault("X-RateLimit-Remaining", str(max(0, self.limit - 1)))
        answer.headers.setdefault("X-RateLimit-Reset", str(int(time.time()) // 60 * 60 + 60))
        return answer

    async def _health(self) -> Response:
        return jsonify(self.health)

    async def _list_accounts(self) -> Response:
        return self._page(self.accounts, READ_PARAMS, lambda _record: True)

    async def _one_account(self, account_id: str) -> Response:
        for record in self.accounts:
            if record["id"] == account_id:
                return jsonify(record)
        return _problem(404, "not_found", "There is no such account.", None)

    async def _list_transactions(self) -> Response:
        args = request.args
        if args.get("type", "credit") not in ("credit", "debit"):
            return _problem(400, "invalid_value", "The type is credit or debit.", "type")

        def matches(record: dict[str, Any]) -> bool:
            return args.get("account", record["account"]) == record["account"] and (
                args.get("type", record["type"]) == record["type"]
                and args.get("created_after", "") < record.get("created", "~")
            )

        return self._page(self.transactions, READ_PARAMS | {"account", "type", "created_after"}, matches)

    def _page(
        self, records: list[dict[str, Any]], params: set[str], matches: Callable[[dict[str, Any]], bool]
    ) -> Response:
        for name in request.args:
            if name not in params:
                return _problem(400, "unknown_field", f"There is no parameter {name}.", name)
        limit = int(request.args.get("limit", "20"))
        if not 1 <= limit <= 100:
            return _problem(400, "invalid_value", "The limit is 1 to 100.", "limit")
        rows = [record for record in reversed(records) if matches(record)]
        after = request.args.get("starting_after")
        if after is not None:
            rows = [record for record in rows if record["id"] < after]
        page = rows[:limit]
        more = len(rows) > limit
        return jsonify({"data": page, "has_more": more, "next_cursor": page[-1]["id"] if more else None})

    async def _create_account(self) -> Response:
        return await self._create("account", {"name", "currency"}, {"metadata"})

    async def _create_transaction(self) -> Response:
        return await self._create("transaction", {"account", "amount", "type"}, {"description"})

    async def _create(self, kind: str, required: set[str], optional: set[str]) -> Response:
        body = await request.get_json(force=True)
        for name in sorted(required - body.keys()):
            return _problem(400, "missing_field", f"{name} is needed.", name)
        for name in sorted(body.keys() - required - optional):
            return _problem(400, "unknown_field", f"There is no field {name}.", name)
        key = request.headers.get("Idempotency-Key")
        if key in self.idempotency_keys:
            first = self.idempotency_keys[key]
            return _problem(409, "duplicate_idempotency_key", f"The key was used for {first}.", None)
        record = self._made(kind, body)
        if isinstance(record, Response):
            return record
        if key is not None:
            self.idempotency_keys[key] = record["id"]
        answer = jsonify(record)
        answer.status_code = 201
        return answer

    def _made(self, kind: str, body: dict[str, Any]) -> dict[str, Any] | Response:
        if kind == "account":
            if len(body["currency"]) != 3 or body["currency"] == "XXY":
                return _problem(400, "invalid_value", "That is no currency.", "currency")
            record = self.add_account(body["name"], body["currency"])
            record["metadata"] = body.get("metadata", {})
            return record
        if kind == "invoice":
            record = {"id": self.new_id("inv"), "object": "invoice", "status": "draft", **body}
            self.invoices.append(record)
            return record
        if kind == "user":
            record = {"id": self.new_id("usr"), **body}
            self.users.append(record)
            return record
        if kind == "order":
            record = {"id": self.new_id("ord"), "status": "open", **body}
            self.orders.append(record)
            return record
        account = next((a for a in self.accounts if a["id"] == body["account"]), None)
        if account is None:
            return _problem(404, "not_found", "There is no such account.", "account")
        return self.post(account, body["amount"], body["type"], body.get("description"))

    # ------------------------------------------------------------------ invoices

    async def _create_invoice(self) -> Response:
        optional = {"amount", "lines", "due_date", "description", "metadata"}
        return await self._create("invoice", {"account", "customer"}, optional)

    def _invoice(self, invoice_id: str) -> dict[str, Any] | None:
        return next((invoice for invoice in self.invoices if invoice["id"] == invoice_id), None)

    async def _one_invoice(self, invoice_id: str) -> Response:
        record = self._invoice(invoice_id)
        if record is None:
            return _problem(404, "not_found", "There is no such invoice.", None)
        answer = jsonify(record)
        if self.etags:
            answer.headers["ETag"] = _etag(record)
        return answer

    async def _change_invoice(self, invoice_id: str) -> Response:
        record = self._invoice(invoice_id)
        if record is None:
            return _problem(404, "not_found", "There is no such invoice.", None)
        if record["status"] != "draft":
            return _problem(409, "invoice_not_draft", "Only drafts are edited.", None)
        record.update(self.changes_first)
        self.changes_first = {}
        self.if_match.append(request.headers.get("If-Match"))
        if self.if_match[-1] not in (None, _etag(record)):
            return _problem(412, "precondition_failed", "The invoice has changed since.", None)
        record.update(await request.get_json(force=True))
        return jsonify(record)

    async def _void_invoice(self, invoice_id: str) -> Response:
        record = self._invoice(invoice_id)
        if record is None:
            return _problem(404, "not_found", "There is no such invoice.", None)
        if record["status"] != "open":
            return _problem(409, "invoice_not_open", "Only open invoices are voided.", None)
        record["status"] = "void"
        return jsonify(record)

    # ------------------------------------------------------------------ tokens

    async def _issue_token(self) -> Response:
        body = await request.get_json(force=True)
        if body.get("grant_type") == "api_key" and body.get("api_key") != self.key:
            return _problem(401, "invalid_credential", "The key is not known.", "api_key")
        if body.get("grant_type") == "refresh_token":
            if body.get("refresh_token") not in self.refresh_tokens:
                return _problem(401, "invalid_credential", "The refresh token is used up.", "refresh_token")
            self.refresh_tokens.remove(body["refresh_token"])
        access, refresh = self.new_id("at"), self.new_id("rt")
        self.access_tokens.add(access)
        self.refresh_tokens.add(refresh)
        pair = {"access_token": access, "token_type": "Bearer", "expires_in": self.token_seconds}
        return jsonify({**pair, "refresh_token": refresh})

    # ------------------------------------------------------------------ directory

    async def _list_users(self) -> Response:
        if request.args.keys() - {"page", "per_page", "role"}:
            return _directory_problem(400, "invalid_parameter", "There is no such parameter.")
        page, size = int(request.args.get("page", "1")), int(request.args.get("per_page", "20"))
        role = request.args.get("role")
        rows = [user for user in reversed(self.users) if role in (None, user["role"])]
        return jsonify(rows[(page - 1) * size : page * size])

    async def _one_user(self, user_id: str) -> Response:
        for record in self.users:
            if record["id"] == user_id:
                return jsonify(record)
        return _directory_problem(404, "not_found", "There is no such user.")

    async def _create_user(self) -> Response:
        return await self._create("user", {"name", "email", "role"}, set())

    async def _deactivate_user(self, user_id: str) -> Response:
        for record in self.users:
            if record["id"] == user_id:
                record["status"] = "deactivated"
                return jsonify(record)
        return _directory_problem(404, "not_found", "There is no such user.")

    async def _list_orders(self) -> Response:
        if request.args.keys() - {"limit", "cursor", "status"}:
            return _directory_problem(400, "invalid_parameter", "There is no such parameter.")
        status = request.args.get("status")
        return jsonify([order for order in reversed(self.orders) if status in (None, order["status"])])

    async def _place_order(self) -> Response:
        return await self._create("order", {"user_id", "items"}, set())


def _etag(record: dict[str, Any]) -> str:
    return f'"{zlib.crc32(json.dumps(record, sort_keys=True).encode()):08x}"'


def _directory_problem(status: int, code: str, message: str) -> Response:
    answer = jsonify({"error": code, "message": message})
    answer.status_code = status
    return answer


def _problem(status: int, code: str, message: str, param: str | None) -> Response:
    kinds = {401: "authentication_error", 404: "not_found", 409: "conflict", 412: "conflict"}
    kind = kinds.get(status, "invalid_request")
    answer = jsonify({"error": {"type": kind, "code": code, "message": message, "param": param}})
    answer.status_code = status
    return answer
