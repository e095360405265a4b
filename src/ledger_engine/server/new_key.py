"""Creates the key that a server shows once, when it starts. A key that could not be shown is removed."""

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
    """The id of a new key, and the id of the project that was created with the key.

    `new_project` is None if the project existed before.
    """

    id: str
    new_project: str | None


async def ensure_key_of_settings(engine: Engine, settings: ServeSettings) -> None:
    """If the settings contain an API key, make sure that it is a key of the first project.

    Raises BadSettings if that is impossible.
    """
    if settings.api_key is not None:
        try:
            await engine.write(partial(_ensure_key, value=settings.api_key))
        except Conflict as error:
            raise BadSettings(f"--api-key cannot be used: {error.message}") from error


async def show_new_key(
    engine: Engine,
    settings: ServeSettings,
    server: str | None,
    show: Callable[[str | None, bool], bool],
) -> None:
    """Create the ledger's first key, or the session key of an embedded dashboard, and show the key.

    The first argument of `show` is the value of the new key; None if this start creates no key. The second
    argument is true if the ledger contains no key at all. `show` returns whether the key was shown. If the
    key was not shown, this function removes the key and the project that was created for the key, so that the
    next start creates another key.

    Call this when everything else has started, because `show` also announces that the server is ready.
    """
    value = api_keys.new_value(livemode=False)
    key = await engine.write(partial(_make_key, value=value, settings=settings, server=server))
    lacks_key = key is None and not await engine.read(api_keys.has_any)
    # Call `show` in a thread, because it may wait for the reader of a pipe.
    was_shown = await asyncio.to_thread(show, None if key is None else value, lacks_key)
    if key is not None and not was_shown:
        await engine.write(partial(_remove_key, key=key))
        log.warning("the new key could not be shown, so it was removed; the next start creates another key")


def _ensure_key(unit: Unit, value: str) -> None:
    project, _ = projects.first_or_new(unit)
    if project.archived_at is not None:
        raise Conflict("not_recoverable", f"The project {project.id} is archived.")
    api_keys.ensure(unit, Tenant(project.id, livemode=False), value)


def _make_key(unit: Unit, value: str, settings: ServeSettings, server: str | None) -> NewKey | None:
    """Create the key that this start shows, with this value. Return None if this start shows no key."""
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
    """Return whether an existing project needs a first key.

    A demo or a data set creates its project without a key. So the project of a demo always needs a first key.
    With `--seed`, the project needs a first key if the ledger contains no key.
    """
    if settings.database is None:
        return True
    return settings.seed is not None and not api_keys.has_any(unit)


def _remove_key(unit: Unit, key: NewKey) -> None:
    api_keys.remove(unit, key.id)
    if key.new_project is not None:
        projects.remove_unused(unit, key.new_project)
