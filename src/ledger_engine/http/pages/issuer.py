"""This server's own address, and the metadata that apps find there (RFC 8414)."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from quart import Request

from ledger_engine.access.oauth.server import GRANT_TYPES
from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.tenant import SCOPES

_HOST = re.compile(r"([A-Za-z0-9\-._]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


class Issuer:
    """This server's own address, by which apps know it (RFC 8414, 9207).

    It is `pinned` when the operator has set it. Otherwise it is the address of the request, but only if that
    is an IP address, `localhost` or the name `host` that the server listens on. A stranger could point any
    other name at this machine, and an app that trusts that name could be talking to the stranger.
    """

    def __init__(self, pinned: str | None = None, host: str | None = None) -> None:
        self._pinned = None if pinned is None else pinned.rstrip("/")
        self._names = {"localhost", host}

    def of(self, request: Request) -> str:
        """Return the issuer for this request; raises InvalidRequest for a name that could be a stranger's."""
        if self._pinned is not None:
            return self._pinned
        host = _HOST.fullmatch(request.host)
        if host is None or not (host[1].lower() in self._names or _is_ip_address(host[1].strip("[]"))):
            raise InvalidRequest(
                "invalid_value",
                f"{request.host!r} is not a name of this server. The operator can set it with --issuer.",
            )
        return f"{request.scheme}://{request.host}"


def metadata(issuer: str) -> dict[str, Any]:
    """Return the metadata of this server (RFC 8414)."""
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/oauth/authorize",
        "token_endpoint": f"{issuer}/oauth/token",
        "revocation_endpoint": f"{issuer}/oauth/revoke",
        "scopes_supported": list(SCOPES),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(GRANT_TYPES),
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "service_documentation": f"{issuer}/docs",
    }


def _is_ip_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
