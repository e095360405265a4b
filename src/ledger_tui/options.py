"""What the command line and the config file chose."""

from __future__ import annotations

from dataclasses import dataclass, field

from ledger_tui.config import Config, Profile


@dataclass(frozen=True, slots=True)
class Options:
    """Without a `url` or a `profile` the dashboard runs a server of its own."""

    url: str | None = None
    key: str | None = None
    database: str | None = None
    demo: bool = False
    read_only: bool = False
    profile: Profile | None = None
    config: Config = field(default_factory=Config)
    config_file: str = "config.toml"
