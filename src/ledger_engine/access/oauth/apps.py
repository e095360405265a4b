"""Apps: programs that may ask a project's users for authorization (docs/interface.md#auth-oauth).

A *grant* is the permission that a user gave to an app. Apps are public clients: an app has no secret. The
server sends a user's browser only to a registered address of the app, and so knows which app gets the answer.
Some functions are for the local administrator, who runs the commands of `ledger-engine` on the database. For
30 days after an app was deleted, this administrator can restore it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar
from urllib.parse import SplitResult, urlsplit

from ledger_engine.access import api_keys
from ledger_engine.access.oauth import grants
from ledger_engine.access.quotas import RECOVERABLE_FOR
from ledger_engine.core.errors import Conflict, InvalidRequest, NotFound
from ledger_engine.core.records import Moment, dumps
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import Unit, Value
from ledger_engine.store.rows import insert, reader

NAME_MAX = 100  # characters; users read the name when they allow or deny the app's request
REDIRECT_URIS_MAX = 20
REDIRECT_URI_MAX = 2000  # characters
# The characters that a redirect URI may contain. Browsers and parsers read other characters in different
# ways, so that one address could lead to two places.
_PLAIN = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&'()+,;=%]+")
_PORT = r"[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
_LOOPBACK = re.compile(rf"http://(127\.0\.0\.1|\[::1\])(?::(?:{_PORT}))?(?=[/?]|$)")


@dataclass(slots=True)
class App:
    """A registered app of one project and mode; its `id` is the public `client_id`.

    A `native` app runs on the user's own machine.
    """

    OBJECT: ClassVar[str] = "app"

    id: str
    name: str
    project: str
    redirect_uris: list[str]
    native: bool
    created: Moment
    livemode: bool
    deleted_at: Moment | None

    def may_redirect_to(self, uri: str) -> bool:
        """Return whether `uri` is, character by character, equal to one of the app's redirect addresses.

        Only the port of a native app's loopback address may differ, because such an app listens on any free
        port (RFC 8252, 7.3).
        """
        if uri in self.redirect_uris:
            return True
        return self.native and any(
            _is_loopback(own) and _without_port(own) == _without_port(uri) for own in self.redirect_uris
        )


@dataclass(slots=True)
class NewApp:
    name: str
    redirect_uris: list[str]
    native: bool = False


def create(unit: Unit, tenant: Tenant, new: NewApp) -> App:
    """Register an app that may ask the users of the tenant's project and mode for authorization.

    Raises InvalidRequest.
    """
    _check(new)
    app = App(
        id=unit.new_id("app"),
        name=new.name,
        project=tenant.project,
        redirect_uris=list(dict.fromkeys(new.redirect_uris)),
        native=new.native,
        created=Moment(unit.now),
        livemode=tenant.livemode,
        deleted_at=None,
    )
    values = tenant.bind(
        id=app.id,
        name=app.name,
        redirect_uris=dumps(app.redirect_uris),
        native=app.native,
        created=app.created,
    )
    insert(unit, "apps", values)
    return app


def every(unit: Unit, project: str) -> list[App]:
    """Return a project's apps of both modes, newest first, without deleted apps.

    This is for the local administrator.
    """
    rows = unit.execute(
        "SELECT * FROM apps WHERE project = :project AND deleted_at IS NULL ORDER BY id DESC",
        {"project": project},
    )
    return [read(row) for row in rows]


def find(unit: Unit, client_id: str) -> App:
    """Return the app with this `client_id`.

    Raises NotFound if there is none, if the app was deleted, or if its project was archived.
    """
    row = unit.first(
        "SELECT a.* FROM apps AS a JOIN projects AS p ON p.id = a.project"
        " WHERE a.id = :id AND a.deleted_at IS NULL AND p.archived_at IS NULL",
        {"id": client_id},
    )
    if row is None:
        raise NotFound("app", client_id, "client_id")
    return read(row)


def delete(unit: Unit, id: str) -> App:
    """Delete an app and end its grants at once; for the local administrator. Raises NotFound."""
    row = unit.first(
        "UPDATE apps SET deleted_at = :now WHERE id = :id AND deleted_at IS NULL RETURNING *",
        {"id": id, "now": unit.now},
    )
    if row is None:
        raise NotFound("app", id)
    unit.announce(api_keys.TOPIC)
    return replace(read(row), deleted_at=Moment(unit.now))


def restore(unit: Unit, id: str) -> App:
    """Restore an app that was deleted at most 30 days ago.

    The app's grants are revoked: users must allow the app again. Raises NotFound, and Conflict if the app is
    not deleted.
    """
    row = unit.first(
        "UPDATE apps SET deleted_at = NULL WHERE id = :id AND deleted_at >= :oldest RETURNING *",
        {"id": id, "oldest": unit.now - RECOVERABLE_FOR},
    )
    if row is None:
        if unit.first("SELECT 1 FROM apps WHERE id = :id AND deleted_at IS NULL", {"id": id}) is not None:
            raise Conflict("not_recoverable", f"{id} is not deleted.")
        raise NotFound("app", id)
    grants.revoke_all_for(unit, id)
    return read(row)


def deleted(unit: Unit, project: str) -> list[App]:
    """Return a project's deleted apps of both modes that can be restored, newest first."""
    rows = unit.execute(
        "SELECT * FROM apps WHERE project = :project AND deleted_at >= :oldest ORDER BY id DESC",
        {"project": project, "oldest": unit.now - RECOVERABLE_FOR},
    )
    return [read(row) for row in rows]


def purge(unit: Unit, before: int, limit: int) -> int:
    """Delete for ever the apps that were deleted before `before` (milliseconds), with their grants.

    Each call deletes up to `limit` grants, and returns their number. A call that finds fewer than `limit`
    grants also deletes the apps.
    """
    rows = unit.execute(
        "SELECT g.id FROM apps AS a JOIN grants AS g ON g.app = a.id WHERE a.deleted_at < :before"
        " LIMIT :limit",
        {"before": before, "limit": limit},
    )
    ids: list[dict[str, Value]] = [{"id": row["id"]} for row in rows]
    unit.execute_many("DELETE FROM oauth_tokens WHERE grant_id = :id", ids)
    unit.execute_many("DELETE FROM grants WHERE id = :id", ids)
    if len(ids) < limit:
        unit.execute("DELETE FROM apps WHERE deleted_at < :before", {"before": before})
    return len(ids)


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
    """Return why `uri` cannot be registered, or None for a valid `uri` (RFC 6749, 3.1.2; RFC 8252, 7)."""
    if len(uri) > REDIRECT_URI_MAX:
        return f"is longer than {REDIRECT_URI_MAX:,} characters"
    if "#" in uri:
        return "has a fragment"
    if not _PLAIN.fullmatch(uri):
        return "contains characters that must be written as %XX"
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        return "cannot be read"
    if parts.scheme in ("http", "https"):
        return _fault_of_web(parts, port)
    # An app's own scheme must contain a dot, like a reversed domain name, so that two apps do not use the
    # same scheme. This rule also refuses `javascript:` and similar schemes.
    if "." not in parts.scheme:
        return "must begin with https://, http://127.0.0.1 or the app's own scheme, like com.example.app:"
    return None


def _fault_of_web(parts: SplitResult, port: int | None) -> str | None:
    if not parts.hostname:
        return "has no host"
    if "@" in parts.netloc:
        return "contains a user name"
    if port == 0:
        return "has an invalid port"
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        return "must begin with https://: without TLS the code could be read in transit"
    return None


def _is_loopback(uri: str) -> bool:
    return _LOOPBACK.match(uri) is not None


def _without_port(uri: str) -> str:
    return _LOOPBACK.sub(r"http://\1", uri, count=1)


read = reader(App)
