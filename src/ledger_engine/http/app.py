"""Creates the application and connects its parts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from quart import Quart, Response, request

from ledger_engine.core.measuring import RequestMeter
from ledger_engine.events.request_log import RequestRecorder
from ledger_engine.http.dispatch import Dispatcher
from ledger_engine.http.errors import InternalError
from ledger_engine.http.gate.cors import Cors
from ledger_engine.http.gate.gate import DEFAULT_AUTH_RATE_LIMIT, AuthRateLimit, Gate
from ledger_engine.http.gate.proxies import BehindProxies
from ledger_engine.http.openapi import pages as reference
from ledger_engine.http.operations import Routes, call_of, refusal_answer
from ledger_engine.http.pages import views
from ledger_engine.http.pages.views import Issuer
from ledger_engine.http.routes import (
    access,
    accounts,
    directory,
    events,
    history,
    invoices,
    transactions,
)
from ledger_engine.limits import RateWindows, WallClock
from ledger_engine.store.engine import Engine

log = logging.getLogger("ledger_engine.http")

RESOURCES: list[Routes] = [
    directory.health_routes,
    accounts.routes,
    accounts.currency_routes,
    accounts.statement_routes,
    transactions.routes,
    invoices.routes,
    directory.user_routes,
    directory.order_routes,
    history.diff_routes,
    access.token_routes,
    access.oauth_routes,
    access.whoami_routes,
    access.api_key_routes,
    access.project_routes,
    access.billing_routes,
    events.endpoint_routes,
    events.event_routes,
    history.request_routes,
    history.log_routes,
]


def create_app(
    engine: Engine,
    *,
    issuer: Issuer | None = None,
    test_helpers: ModuleType | None = None,
    **gate_options: Any,
) -> Quart:
    """Return the application that serves this engine.

    `new_app` and `put_gate` describe the arguments.
    """
    app = new_app(issuer, test_helpers)
    put_gate(app, engine, test_helpers=test_helpers, **gate_options)
    return app


def new_app(issuer: Issuer | None = None, test_helpers: ModuleType | None = None) -> Quart:
    """Return the application with its routes. It serves nothing until `put_gate` adds a gate.

    `issuer` returns the address under which apps know this server. `test_helpers` is the module
    `sandbox/routes.py`, which adds the routes of the test helpers; with None the application has none of
    these routes.
    """
    app = Quart(__name__, static_folder=None)
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.url_map.merge_slashes = False
    resources = RESOURCES if test_helpers is None else [*RESOURCES, test_helpers.routes]
    app.register_blueprint(reference.pages(resources))
    app.register_blueprint(views.SignInPages(issuer or Issuer()).blueprint())
    app.register_error_handler(Exception, _show_failure)
    dispatcher: Any = Dispatcher(app, resources)
    app.asgi_app = dispatcher
    return app


def put_gate(
    app: Quart,
    engine: Engine,
    *,
    auth_rate_limit: AuthRateLimit = DEFAULT_AUTH_RATE_LIMIT,
    wall_clock: WallClock | None = None,
    recorder: RequestRecorder | None = None,
    cors_origins: Sequence[str] = (),
    meter: RequestMeter | None = None,
    test_helpers: ModuleType | None = None,
    trusted_proxies: int = 0,
) -> None:
    """Make the application serve this engine.

    `recorder` writes the request log, and `meter` counts requests for the metrics. `cors_origins` are the
    origins whose web pages may read answers. If there is a `wall_clock`, the rate limits use this clock, and
    their counts are not shared with other servers. `trusted_proxies` is the number of proxies in front of
    the server.

    A request comes first to the gate and then to the dispatcher, which serves the operations. Only requests
    for browser pages, such as the sign-in page, reach Quart itself.
    """
    dispatcher: Any = app.asgi_app
    guarded_app = dispatcher if test_helpers is None else test_helpers.add_guard(dispatcher, engine)
    cors = Cors(cors_origins) if cors_origins else None
    rate_limits = engine.shared_state.rate_limits if wall_clock is None else RateWindows(wall_clock)
    gate: Any = Gate(guarded_app, engine, auth_rate_limit, rate_limits, recorder, cors, meter)
    outermost: Any = gate if test_helpers is None else test_helpers.add_turnstile(gate, engine)
    if trusted_proxies:
        outermost = BehindProxies(outermost, trusted_proxies)
    app.asgi_app = outermost


async def _show_failure(error: Exception) -> Response:
    request_id = call_of(request).request_id
    log.error("request %s failed", request_id, exc_info=error)
    return refusal_answer(InternalError(request_id))
