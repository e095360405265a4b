"""The application: all wiring in one place."""

from __future__ import annotations

import logging
import time
from typing import Any

from quart import Quart, Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from ledger_engine.core.errors import LedgerError
from ledger_engine.database.engine import Engine
from ledger_engine.events.request_recorder import RequestRecorder
from ledger_engine.http.bodies import BODY_MAX
from ledger_engine.http.dispatch import Connection, HasMatcher
from ledger_engine.http.errors import InternalError, UnsupportedMethod, from_status, render
from ledger_engine.http.operations import Routes, call_of
from ledger_engine.http.protocol.gate import DEFAULT_AUTH_RATE_LIMIT, AuthRateLimit, Gate
from ledger_engine.http.protocol.rate_limits import WallClock
from ledger_engine.http.reference import documentation
from ledger_engine.http.routes import (
    accounts,
    api_keys,
    billing,
    events,
    health,
    invoices,
    oauth,
    orders,
    projects,
    request_log,
    statements,
    tokens,
    transactions,
    users,
    webhooks,
    whoami,
)
from ledger_engine.http.sign_in import views

log = logging.getLogger("ledger_engine.http")

ROOMS: list[Routes] = [
    health.routes,
    accounts.routes,
    statements.routes,
    transactions.routes,
    invoices.routes,
    users.routes,
    orders.routes,
    tokens.routes,
    oauth.routes,
    whoami.routes,
    api_keys.routes,
    projects.routes,
    billing.routes,
    webhooks.routes,
    events.routes,
    request_log.routes,
]


class LedgerApp(HasMatcher):
    """Quart behind the gate."""

    asgi_http_class = Connection
    gate: Gate

    async def asgi_app(self, scope: Any, receive: Any, send: Any) -> None:
        await self.gate(scope, receive, send)


def create_app(
    engine: Engine,
    *,
    auth_rate_limit: AuthRateLimit = DEFAULT_AUTH_RATE_LIMIT,
    wall_clock: WallClock = time.time,
    recorder: RequestRecorder | None = None,
) -> Quart:
    """The ASGI application that serves this engine; `recorder` writes the request log."""
    app = LedgerApp(__name__, static_folder=None)
    app.gate = Gate(super(LedgerApp, app).asgi_app, engine, auth_rate_limit, wall_clock, recorder)
    app.config["MAX_CONTENT_LENGTH"] = BODY_MAX
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.url_map.merge_slashes = False
    for room in ROOMS:
        app.register_blueprint(room.blueprint)
    app.register_blueprint(documentation.pages(ROOMS))
    app.register_blueprint(views.SignInPages().blueprint())
    app.matcher = app.url_map.bind("")
    app.whole_paths = {}
    app.register_error_handler(LedgerError, _show_error)
    app.register_error_handler(HTTPException, _show_http_error)
    app.register_error_handler(Exception, _show_failure)
    return app


async def _show_error(error: LedgerError) -> Response:
    status, headers, body = render(error, request.path)
    return Response(body, status=status, headers={name.decode(): value.decode() for name, value in headers})


async def _show_http_error(error: HTTPException) -> Response:
    if isinstance(error, MethodNotAllowed):
        return await _show_error(UnsupportedMethod(sorted(error.valid_methods or ())))
    return await _show_error(from_status(error.code or 500, request.path))


async def _show_failure(error: Exception) -> Response:
    request_id = call_of(request).request_id
    log.error("request %s failed", request_id, exc_info=error)
    return await _show_error(InternalError(request_id))
