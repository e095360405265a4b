"""Deleted apps: kept for 30 days, in which the local administrator can restore them."""

from __future__ import annotations

from ledger_engine.access.oauth import apps, grants
from ledger_engine.access.oauth.apps import App
from ledger_engine.access.quotas import RECOVERABLE_FOR
from ledger_engine.core.errors import Conflict, NotFound
from ledger_engine.store import Unit, Value


def restore(unit: Unit, id: str) -> App:
    """Restore an app that was deleted at most 30 days ago.

    Its grants stay ended: its users are asked again. Raises NotFound, and Conflict for an app that is not
    deleted.
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
    return apps.read(row)


def every(unit: Unit, project: str) -> list[App]:
    """Return the apps of both modes that can be restored, newest first."""
    rows = unit.execute(
        "SELECT * FROM apps WHERE project = :project AND deleted_at >= :oldest ORDER BY id DESC",
        {"project": project, "oldest": unit.now - RECOVERABLE_FOR},
    )
    return [apps.read(row) for row in rows]


def purge(unit: Unit, before: int, limit: int) -> int:
    """Delete up to `limit` grants of apps deleted before `before`, then the apps that have none left.

    `before` is in milliseconds. Returns the number of grants deleted.
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
