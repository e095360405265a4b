"""Saving the connection in use as a profile."""

from __future__ import annotations

from dataclasses import replace

from ledger_tui.settings.config import STORED, Profile, config_file
from ledger_tui.settings.config_edit import add_profile, check_profile
from ledger_tui.settings.secret_store import Secrets, secret_store


def save_connection(name: str, url: str, profile: Profile | None, key: str | None) -> str:
    """Save a server and its key under a name, with what its profile says, if it has one.

    Return a sentence that says where. Raises BadConfig and OSError.
    """
    file = config_file()
    saved = replace(profile, name=name) if profile is not None else Profile(name, url)
    if saved.client_id is None:
        saved = replace(saved, key=STORED)
    check_profile(file, saved)
    where = secret_store().put(name, Secrets(api_key=key)) if saved.client_id is None and key else ""
    add_profile(file, saved)
    return f"Saved as {name} in {file}." + (f" Its key is in {where}." if where else "")
