"""HTTP written byte by byte, to send what no client library would."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any

PATIENCE_S = 60


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """One connection; `receive` reads one answer by its Content-Length."""

    def __init__(self, port: int, address: str) -> None:
        self.socket = socket.create_connection(
            ("127.0.0.1", port), timeout=PATIENCE_S, source_address=(address, 0)
        )
        self._unread = b""

    def send(self, *parts: bytes) -> None:
        """Send the parts; a server that has answered may have stopped reading."""
        try:
            for part in parts:
                self.socket.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def receive(self, *, of: str = "GET") -> Answer:
        """Return the next answer, to a request with the method `of`."""
        while True:
            head = self._read_until(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            status = int(lines[0].split(" ")[1])
            if status >= 200:
                break
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:] if line)
        }
        body = b"" if of == "HEAD" else self._read(int(headers["content-length"]))
        return Answer(status, headers, body)

    def ask(self, *parts: bytes, of: str = "GET") -> Answer:
        self.send(*parts)
        return self.receive(of=of)

    def is_closed(self) -> bool:
        """Wait for the server to end the connection; return whether it does."""
        try:
            return not self._unread and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.socket.close()

    def _read_until(self, mark: bytes) -> bytes:
        while mark not in self._unread:
            self._more()
        head, _, self._unread = self._unread.partition(mark)
        return head

    def _read(self, length: int) -> bytes:
        while len(self._unread) < length:
            self._more()
        body, self._unread = self._unread[:length], self._unread[length:]
        return body

    def _more(self) -> None:
        data = self.socket.recv(65536)
        assert data, f"the connection ended after {self._unread!r}"
        self._unread += data


class Wire:
    """Makes connections to one server from one address, and requests with one key."""

    def __init__(self, port: int, address: str, key: str) -> None:
        self._port = port
        self._address = address
        self._open: list[Connection] = []
        self.key = key

    def connect(self) -> Connection:
        connection = Connection(self._port, self._address)
        self._open.append(connection)
        return connection

    def head(self, method: str, target: str, *lines: str, key: str | None = None) -> bytes:
        """Return a request's head with Host and the key; `key=""` leaves the key out."""
        shown = self.key if key is None else key
        authorization = [f"Authorization: Bearer {shown}"] if shown else []
        return "\r\n".join(
            [f"{method} {target} HTTP/1.1", "Host: ledger", *authorization, *lines, "", ""]
        ).encode()

    def post(self, target: str, body: bytes, *lines: str, key: str | None = None) -> bytes:
        """Return a complete POST of JSON."""
        length = f"Content-Length: {len(body)}"
        return self.head("POST", target, "Content-Type: application/json", length, *lines, key=key) + body

    def ask(self, *parts: bytes, of: str = "GET") -> Answer:
        """Return the answer to a request on a connection of its own."""
        connection = self.connect()
        try:
            return connection.ask(*parts, of=of)
        finally:
            connection.close()

    def close(self) -> None:
        for connection in self._open:
            connection.close()


def chunked(body: bytes, size: int = 50_000) -> bytes:
    """Return the body in chunks of this size, with the last chunk."""
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join([b"%x\r\n%b\r\n" % (len(part), part) for part in parts]) + b"0\r\n\r\n"
