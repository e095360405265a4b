"""The reference pages: `/openapi.json` for programs, and `/docs` for people. `/docs` needs no internet."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from functools import cache

from quart import Blueprint, Response, request

from ledger_engine.core.records import dumps
from ledger_engine.http.openapi import asset
from ledger_engine.http.operations import Routes
from ledger_engine.http.pages.views import redirect

SCRIPT = "rapidoc-9.3.8.min.js"
# The page may load files only from this server, and send requests only to this server. `unsafe-inline` is for
# RapiDoc, which writes styles into its elements.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Browsers may cache the script for a year, because its name contains the version.
_FOR_A_YEAR = "public, max-age=31536000, immutable"


def pages(resources: Iterable[Routes]) -> Blueprint:
    """Return the routes of the reference pages for these resources. Anybody may read the pages."""
    blueprint = Blueprint("documentation", __name__)

    @cache
    def text() -> str:
        # Imported here because the import would take an eighth of the time in which a server starts, and few
        # users open the page.
        from ledger_engine.http.openapi.documentation import document

        return dumps(document(resources))

    @blueprint.get("/openapi.json")
    async def openapi() -> Response:
        return Response(text(), content_type="application/json")

    @blueprint.get("/")
    async def root() -> Response:
        return redirect("/docs")

    @blueprint.get("/docs")
    async def docs() -> Response:
        response = Response(asset("docs.html"), content_type="text/html; charset=utf-8")
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    @blueprint.get("/docs/docs.css")
    async def style() -> Response:
        return Response(asset("docs.css"), content_type="text/css; charset=utf-8")

    @blueprint.get(f"/docs/{SCRIPT}")
    async def script() -> Response:
        content = asset(f"{SCRIPT}.gz")
        response = Response(content, content_type="text/javascript; charset=utf-8")
        if request.accept_encodings["gzip"]:
            response.headers["Content-Encoding"] = "gzip"
        else:
            response.set_data(gzip.decompress(content))
        response.headers["Vary"] = "Accept-Encoding"
        response.headers["Cache-Control"] = _FOR_A_YEAR
        return response

    @blueprint.after_request
    async def forbid_sniffing(response: Response) -> Response:
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    return blueprint
