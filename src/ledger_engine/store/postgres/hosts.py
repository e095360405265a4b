"""The hosts of a database. A new connection first tries the host that worked most recently.

A host that has stopped moves to the end of the list of hosts, so new connections try this host last. libpq
alone would always begin with the first host of the address, and would wait for ever for a host that hangs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from weakref import WeakSet

from psycopg import Error
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ledger_engine.store.postgres.connection import CONNECT_S, PostgresConnection, connect_host
from ledger_engine.store.postgres.errors import OLDER, ConnectionLost, Silent

# The name in pg_stat_activity of connections that belong to a server, or to a command that writes.
NAME = "ledger-engine"
_READER_NAME = "ledger-engine reading"  # the name of all other connections
_PROBE_S = 1.5  # a host that does not answer a new connection in this time has stopped
_PROBED_FOR_S = 1.0  # seconds for which a host that answered a probe counts as running
_UNREADABLE = (
    "its address cannot be read; write it as postgresql://USER:PASSWORD@HOST/DATABASE, and"
    " percent-encode characters such as % and /"
)
# A host may vanish from the network without an error, so each connection gets these limits of libpq. Their
# units are milliseconds, seconds, seconds, and a count.
_DEFAULTS = {
    "tcp_user_timeout": "4000",
    "keepalives_idle": "2",
    "keepalives_interval": "1",
    "keepalives_count": "2",
}


class Hosts:
    """Opens connections to the hosts of an address; any thread may use it."""

    def __init__(self, url: str, name: str = NAME) -> None:
        """Parse the address; operators see `name` in the list of connections. Raises ConnectionLost."""
        self._hosts = _connection_strings(url, name)
        self._connections: WeakSet[PostgresConnection] = WeakSet()
        self.opened_total = 0
        self._lock = threading.Lock()
        self._probing = threading.Lock()
        self._answer_times: dict[str, float] = {}  # when each host last answered a probe

    def open(
        self,
        answer_s: float,
        settings: Sequence[str] = (),
        require: Callable[[PostgresConnection], object] | None = None,
    ) -> PostgresConnection:
        """Connect to the first host that answers and for which `require` raises no ConnectionLost.

        Each host has an equal part of CONNECT_S seconds to answer. Raises ConnectionLost.
        """
        hosts = self._hosts
        errors: list[ConnectionLost] = []
        for host in hosts:
            try:
                connection = self._open(host, len(hosts), answer_s, settings)
                try:
                    if require is not None:
                        require(connection)
                except BaseException:
                    connection.close()
                    raise
            except ConnectionLost as error:
                errors.append(error)
                continue
            self._move(host, first=True)
            return connection
        states = [error.state for error in errors if error.state]
        raise ConnectionLost("; ".join(map(str, errors)), OLDER if OLDER in states else "".join(states[:1]))

    def open_greatest(self, key: Callable[[PostgresConnection], int], answer_s: float) -> None:
        """If there are several hosts, connect to each, and put the host with the greatest `key` first."""
        hosts = self._hosts
        candidates: list[tuple[int, str]] = []
        for host in hosts if len(hosts) > 1 else ():
            with suppress(ConnectionLost):
                connection = self._open(host, len(hosts), answer_s, ())
                candidates.append((key(connection), host))
                connection.close()
        if candidates:
            self._move(max(candidates, key=lambda candidate: candidate[0])[1], first=True)

    def abandon(self, is_wrong: Callable[[PostgresConnection], bool]) -> None:
        """Mark each connection for which `is_wrong` returns True, so that nothing uses it again."""
        with self._lock:
            for connection in self._connections:
                connection.must_not_be_used = connection.must_not_be_used or is_wrong(connection)

    def _open(self, host: str, hosts: int, answer_s: float, settings: Sequence[str]) -> PostgresConnection:
        connection = PostgresConnection(
            host,
            answer_s,
            settings,
            connect_s=min(CONNECT_S, answer_s) / hosts,
            is_silent=partial(self._is_silent, host) if hosts > 1 else None,
        )
        with self._lock:
            self._connections.add(connection)
            self.opened_total += 1
        return connection

    def _is_silent(self, host: str) -> bool:
        """Return whether a host has stopped; if it has, also stop using all connections to the host.

        A waiting thread cannot tell a slow statement from a stopped host, so this method tries to connect.
        """
        with self._probing:  # if several threads wait, only one of them tries to connect
            if time.monotonic() - self._answer_times.get(host, 0) < _PROBED_FOR_S:
                return False
            try:
                connect_host(host, _PROBE_S).finish()
            except Silent:
                self._move(host, first=False)
                self.abandon(lambda connection: connection.host == host)
                return True
            except ConnectionLost:
                pass  # a host that refuses the connection has not stopped
            self._answer_times[host] = time.monotonic()
            return False

    def _move(self, host: str, *, first: bool) -> None:
        """Move a host to the beginning or to the end of the list."""
        with self._lock:
            others = [other for other in self._hosts if other != host]
            self._hosts = [host, *others] if first else [*others, host]


def connect(url: str, answer_s: float, settings: Sequence[str] = ()) -> PostgresConnection:
    """Open one connection to a database. Raises ConnectionLost."""
    return Hosts(url, _READER_NAME).open(answer_s, settings)


def _connection_strings(url: str, name: str) -> list[str]:
    """Return a connection string of libpq for each host in the address."""
    try:
        parameters = conninfo_to_dict(url)
    except Error:  # psycopg's message may quote the password
        raise ConnectionLost(_UNREADABLE) from None
    settings = {key: value for key, value in _DEFAULTS.items() if key not in parameters}
    settings["application_name"] = name
    settings["client_encoding"] = "UTF8"  # overrides an encoding from the address, environment or role
    lists = {
        key: str(parameters[key]).split(",") for key in ("host", "hostaddr", "port") if parameters.get(key)
    }
    return [
        make_conninfo(
            url, **settings, **{key: parts[number if len(parts) > 1 else 0] for key, parts in lists.items()}
        )
        for number in range(max(map(len, lists.values()), default=1))
    ]
