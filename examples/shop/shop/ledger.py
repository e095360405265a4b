"""The ledger as this app uses it: tokens that are renewed, and requests that are safe to repeat."""

from __future__ import annotations

from typing import Any

import httpx

TRIES = 5


class Ledger:
    def __init__(self, url: str, api_key: str) -> None:
        self._http = httpx.Client(base_url=url)
        self._api_key = api_key
        self._token: str | None = None

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """Return the object or the list at the path."""
        return self._request("GET", path, params=query).raise_for_status().json()

    def make(self, path: str, key: str, **body: Any) -> dict[str, Any]:
        """POST so that the change happens at most once, and return the object that was made or changed.

        A retry has the same idempotency key. If the first attempt succeeded and only its answer was lost, the
        retry is answered with 409 and the id of the object in `Idempotency-Original`.
        """
        answer = self._request("POST", path, json=body or None, headers={"Idempotency-Key": key})
        if answer.status_code == 409 and "Idempotency-Original" in answer.headers:
            made = path.rstrip("/")
            original = answer.headers["Idempotency-Original"]
            # After an action such as …/finalize, the header contains the id of the object in the path.
            return self.get(made.rpartition("/")[0] if original in made else f"{made}/{original}")
        return answer.raise_for_status().json()

    def close(self) -> None:
        self._http.close()

    def _request(self, method: str, path: str, **rest: Any) -> httpx.Response:
        headers = rest.pop("headers", {})
        for left in range(TRIES - 1, -1, -1):
            headers["Authorization"] = f"Bearer {self._token or self._sign_in()}"
            try:
                answer = self._http.request(method, path, headers=headers, **rest)
            except httpx.TransportError:
                if not left:
                    raise
                continue
            if answer.status_code == 401 and left:
                self._token = None
                continue
            if answer.status_code >= 500 and left:
                continue
            return answer
        raise AssertionError("the last try returns or raises")

    def _sign_in(self) -> str:
        body = {"grant_type": "api_key", "api_key": self._api_key}
        self._token = self._http.post("/v1/auth/token", json=body).raise_for_status().json()["access_token"]
        return self._token
