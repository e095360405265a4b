"""The parts of the OpenAPI document on OAuth: the security scheme, the pages for users, the metadata."""

from __future__ import annotations

from typing import Any

from ledger_engine.core.tenant import SCOPES
from ledger_engine.http.openapi.schemas import json_content, text_content
from ledger_engine.http.operations import Operation
from ledger_engine.http.pages.issuer import metadata

_GRANTS = {
    "read:projects": "See accounts, transactions, invoices, orders and projects.",
    "write:projects": "Change them and the users; create, update and archive projects.",
    "read:users": "See the users.",
    "admin:billing": "View and change the plan; takes an owner.",
}
SCHEME: dict[str, Any] = {
    "type": "oauth2",
    "description": "On behalf of a user: authorization code with PKCE, S256. Tokens start with `at_`.",
    "flows": {
        "authorizationCode": {
            "authorizationUrl": "/oauth/authorize",
            "tokenUrl": "/oauth/token",
            "refreshUrl": "/oauth/token",
            "scopes": {scope: _GRANTS[scope] for scope in SCOPES},
        }
    },
}
_TEXT: dict[str, Any] = {"type": "string"}
_PARAMETERS = {
    "client_id": "The app's public identifier.",
    "redirect_uri": "Where the user is sent back to: exactly one of the app's own.",
    "scope": "The requested scopes, separated by spaces.",
    "state": "Returned unchanged; printable ASCII.",
    "code_challenge": "The S256 hash of the verifier, in base64url.",
}
_PAGE = "<!doctype html><title>Sign in</title>…"
_DEFAULTS = {"response_type": "code", "code_challenge_method": "S256"}


def security(operation: Operation) -> list[dict[str, list[str]]]:
    """Return the credentials that an operation accepts.

    An app may call the operations whose effect ends with its grant.
    """
    if operation.public:
        return []
    scopes = [operation.needs] if operation.needs is not None else []
    return [{"bearer": []}] if operation.lasting else [{"bearer": []}, {"oauth": scopes}]


def pages(headers: dict[str, Any]) -> dict[str, Any]:
    """Return the paths that are no operations; `headers` are those of every answer."""
    return {
        "/oauth/authorize": {"get": _authorize(headers)},
        "/.well-known/oauth-authorization-server": {"get": _metadata(headers)},
    }


def _authorize(headers: dict[str, Any]) -> dict[str, Any]:
    page = {"text/html": text_content(_PAGE)}
    back = {**headers, "Location": {"$ref": "#/components/headers/Location"}}
    schema = {"$ref": "#/components/schemas/OAuthError"}

    def failed(error: str, text: str) -> dict[str, Any]:
        return {**page, **json_content(schema, {"error": error, "error_description": text})}

    return {
        "operationId": "authorize",
        "tags": ["oauth"],
        "summary": "The page on which a user signs in and decides",
        "description": "For a browser. From there the user is sent to the `redirect_uri` with `code`, `state`"
        " and `iss`, or with `error`, `state` and `iss`.",
        "security": [],
        "parameters": [
            *[_parameter(name, text, required=True) for name, text in _PARAMETERS.items()],
            *[_parameter(name, f"`{value}`, or left out.") for name, value in _DEFAULTS.items()],
        ],
        "responses": {
            "200": {"description": "The page.", "headers": headers, "content": page},
            "302": {
                "description": "The error is sent to the app.",
                "headers": back,
                "content": {"text/plain": text_content("Go on to https://shop.example/signed-in?error=…")},
            },
            "400": {
                "description": "The app or its address is not known: only the user sees the error.",
                "headers": headers,
                "content": failed("invalid_client", "The app is not known."),
            },
            "429": {"$ref": "#/components/responses/RateLimited"},
            **{
                status: {"$ref": f"#/components/responses/OAuth{status}"}
                for status in ("408", "413", "414", "431")
            },
            **{
                status: {"description": text, "headers": headers, "content": failed(error, text)}
                for status, error, text in (
                    ("500", "server_error", "Our failure."),
                    ("503", "temporarily_unavailable", "The database cannot be used now."),
                )
            },
        },
    }


def _metadata(headers: dict[str, Any]) -> dict[str, Any]:
    kinds = {str: _TEXT, bool: {"type": "boolean"}, list: {"type": "array", "items": _TEXT}}
    members = {name: kinds[type(value)] for name, value in metadata("").items()}
    schema = {"type": "object", "properties": members, "required": list(members)}
    return {
        "operationId": "get_oauth_metadata",
        "tags": ["oauth"],
        "summary": "What a client library asks first (RFC 8414)",
        "description": "*Beyond the contract.*",
        "security": [],
        "x-beyond-contract": True,
        "responses": {
            "200": {
                "description": "Done.",
                "headers": headers,
                "content": json_content(schema, metadata("https://ledger.example")),
            },
            **{
                status: {"$ref": f"#/components/responses/Ledger{status}"}
                for status in ("400", "408", "413", "414", "431", "500", "503")
            },
            "429": {"$ref": "#/components/responses/RateLimited"},
        },
    }


def _parameter(name: str, description: str, *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "schema": _TEXT, "description": description}
