"""Apps: programs that may ask a project's users to let them in (interface.md, Authentication 6).

They are public clients: what proves an app is not a secret but where its users are sent back to.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import ClassVar
from urllib.parse import SplitResult, urlsplit

from ledger_engine.access import api_keys
from ledger_engine.core.errors import InvalidRequest, NotFound
from ledger_engine.core.records import Moment, dumps
from ledger_engine.core.tenant import Scope
from ledger_engine.database import Row, Unit

NAME_MAX = 100  # it is read on a page that people decide by
REDIRECT_URIS_MAX = 20
REDIRECT_URI_MAX = 2000  # characters
# Whatever a browser takes in another way than a parser could make two addresses of one.
_PLAIN = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&'()+,;=%]+")
_PORT = r"[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
_LOOPBACK = re.compile(rf"http://(127\.0\.0\.1|\[::1\])(?::(?:{_PORT}))?(?=[/?]|$)")


@dataclass(slots=True)
class App:
    """A registered app: its `id` is the public `client_id`, it asks the users of `project` in its mode."""

    OBJECT: ClassVar[str] = "app"

    id: str
    name: str
    project: str
    redirect_uris: list[str]
    created: Moment
    livemode: bool
    deleted_at: Moment | None

    def may_redirect_to(self, uri: str) -> bool:
        """Whether `uri` is one of the app's own, to the letter.

        A program on the user's own machine takes whatever port is free, so on a loopback address the
        port may differ (RFC 8252, 7.3).
        """
        return uri in self.redirect_uris or any(
            _is_loopback(own) and _without_port(own) == _without_port(uri) for own in self.redirect_uris
        )


@dataclass(slots=True)
class NewApp:
    name: str
    redirect_uris: list[str]


def create(unit: Unit, scope: Scope, new: NewApp) -> App:
    """Register an app for the users of the scope's project and mode."""
    _check(new)
    app = App(
        id=unit.new_id("app"),
        name=new.name,
        project=scope.project,
        redirect_uris=list(dict.fromkeys(new.redirect_uris)),
        created=Moment(unit.now),
        livemode=scope.livemode,
        deleted_at=None,
    )
    unit.execute(
        "INSERT INTO apps (id, project, livemode, name, redirect_uris, created)"
        " VALUES (:id, :project, :livemode, :name, :redirect_uris, :created)",
        scope.bind(id=app.id, name=app.name, redirect_uris=dumps(app.redirect_uris), created=app.created),
    )
    return app


def every(unit: Unit, project: str) -> list[App]:
    """The apps of both modes, newest first, without the deleted ones; for the local administrator."""
    rows = unit.execute(
        "SELECT * FROM apps WHERE project = :project AND deleted_at IS NULL ORDER BY id DESC",
        {"project": project},
    )
    return [_read(row) for row in rows]


def find(unit: Unit, client_id: str) -> App:
    """The app with this `client_id`; raises NotFound, also when it is deleted or its project archived."""
    row = unit.first(
        "SELECT a.* FROM apps AS a JOIN projects AS p ON p.id = a.project"
        " WHERE a.id = :id AND a.deleted_at IS NULL AND p.archived_at IS NULL",
        {"id": client_id},
    )
    if row is None:
        raise NotFound("app", client_id, "client_id")
    return _read(row)


def delete(unit: Unit, id: str) -> App:
    """Delete an app: what its users allowed it ends at once. Raises NotFound. For the local administrator."""
    row = unit.first(
        "UPDATE apps SET deleted_at = :now WHERE id = :id AND deleted_at IS NULL RETURNING *",
        {"id": id, "now": unit.now},
    )
    if row is None:
        raise NotFound("app", id)
    unit.announce(api_keys.TOPIC)
    return replace(_read(row), deleted_at=Moment(unit.now))


def _check(new: NewApp) -> None:
    if not 1 <= len(new.name) <= NAME_MAX or not new.name.isprintable() or new.name.isspace():
        raise InvalidRequest("invalid_value", f"name must have 1 to {NAME_MAX} printable characters.", "name")
    if not 1 <= len(new.redirect_uris) <= REDIRECT_URIS_MAX:
        raise InvalidRequest(
            "invalid_value", f"An app has 1 to {REDIRECT_URIS_MAX} redirect URIs.", "redirect_uris"
        )
    for uri in new.redirect_uris:
        fault = _fault_of(uri)
        if fault is not None:
            raise InvalidRequest("invalid_value", f"The redirect URI {uri[:200]!r} {fault}.", "redirect_uris")


def _fault_of(uri: str) -> str | None:
    """What keeps `uri` from being registered (RFC 6749, 3.1.2; RFC 8252, 7)."""
    if len(uri) > REDIRECT_URI_MAX:
        return f"is longer than {REDIRECT_URI_MAX:,} characters"
    if "#" in uri:
        return "has a fragment"
    if not _PLAIN.fullmatch(uri):
        return "has characters that no address has; other ones are written as %XX"
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        return "cannot be read"
    if parts.scheme in ("http", "https"):
        return _fault_of_web(parts, port)
    # A scheme of an app's own is a domain name in reverse, so that no two apps mean the same one; that
    # keeps out javascript: and its like as well.
    if "." not in parts.scheme:
        return "must begin with https://, http://127.0.0.1 or a scheme of the app's own like com.example.app:"
    return None


def _fault_of_web(parts: SplitResult, port: int | None) -> str | None:
    if not parts.hostname:
        return "names no host"
    if "@" in parts.netloc:
        return "has a user name in it"
    if port == 0:
        return "has a port that is none"
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        return "must begin with https://: without TLS the code could be read on its way"
    return None


def _is_loopback(uri: str) -> bool:
    return _LOOPBACK.match(uri) is not None


def _without_port(uri: str) -> str:
    return _LOOPBACK.sub(r"http://\1", uri, count=1)


def _read(row: Row) -> App:
    return App(
        id=row["id"],
        name=row["name"],
        project=row["project"],
        redirect_uris=json.loads(row["redirect_uris"]),
        created=row["created"],
        livemode=bool(row["livemode"]),
        deleted_at=row["deleted_at"],
    )
