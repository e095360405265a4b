"""Creates the key that a start shows once, and removes it if it could not be shown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ledger_engine.access import api_keys, projects
from ledger_engine.core.errors import Conflict
from ledger_engine.core.settings import BadSettings, ServeSettings
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine

DASHBOARD = api_keys.NewApiKey("dashboard", "owner", session=True)

log = logging.getLogger("ledger_engine.server")


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key to show; `new_project` is the project that was created together with the key, else None."""

    id: str
    new_project: str | None


async def require_known_key(engine: Engine, settings: ServeSettings) -> None:
    """Make sure that the first project has the key in the settings.

    Raises BadSettings if that is impossible.
    """
    if settings.api_key is not None:
        try:
            await engine.write(partial(_ensure, value=settings.api_key))
        except Conflict as error:
            raise BadSettings(f"--api-key cannot be used: {error.message}") from error


async def show_new_key(
    engine: Engine,
    settings: ServeSettings,
    server: str | None,
    show: Callable[[str | None, bool], bool],
) -> None:
    """Create the ledger's first key, or the session of an embedded dashboard, and show it.

    `show` gets the value of the key (None if there is none to show), and whether the ledger lacks a key. It
    returns whether the key was shown. A key that was not shown is removed, together with the project that was
    created for it, so that the next start creates another key. Call this when everything else has begun.
    """
    value = api_keys.new_value(livemode=False)
    key = await engine.write(partial(_make, value=value, settings=settings, server=server))
    lacks_key = key is None and not await engine.read(api_keys.has_any)
    # In a thread, because it may wait for the reader of a pipe.
    was_shown = await asyncio.to_thread(show, None if key is None else value, lacks_key)
    if key is not None and not was_shown:
        await engine.write(partial(_remove, key=key))
        log.warning("the new key could not be shown, so it was removed; the next start creates another key")


def _ensure(unit: Unit, value: str) -> None:
    project, _ = projects.first_or_new(unit)
    if project.archived_at is not None:
        raise Conflict("not_recoverable", f"The project {project.id} is archived.")
    api_keys.ensure(unit, Tenant(project.id, livemode=False), value)


def _make(unit: Unit, value: str, settings: ServeSettings, server: str | None) -> NewKey | None:
    """Create the key to show with this value and return it; None if there is none to show."""
    project, is_new = projects.first_or_new(unit)
    tenant = Tenant(project.id, livemode=False)
    if settings.embedded:
        rights = replace(DASHBOARD, server=server)
    elif settings.api_key is None and (is_new or _needs_first_key(unit, settings)):
        rights = api_keys.NewApiKey("first key", "owner")
    else:
        return None
    return NewKey(api_keys.create(unit, tenant, rights, value).id, project.id if is_new else None)


def _needs_first_key(unit: Unit, settings: ServeSettings) -> bool:
    """Return whether a project that existed before this start needs a first key.

    In a demo the project always needs one. With `--seed` it needs one if the ledger contains no key.
    """
    if settings.database is None:
        return True
    return settings.seed is not None and not api_keys.has_any(unit)


def _remove(unit: Unit, key: NewKey) -> None:
    api_keys.remove(unit, key.id)
    if key.new_project is not None:
        projects.remove_unused(unit, key.new_project)
