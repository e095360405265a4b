"""Authentication of requests."""

from __future__ import annotations

from collections.abc import Generator

import httpx


class BearerKey(httpx.Auth):
    """An API key or access token as a bearer: the scheme, exactly one space, no quotes."""

    def __init__(self, credential: str | None) -> None:
        self._credential = credential

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self._credential:
            request.headers["Authorization"] = f"Bearer {self._credential}"
        yield request
