"""The options that the command line and the config file set."""

from __future__ import annotations

from dataclasses import dataclass, field

from ledger_tui.settings.config import Config, Profile
from ledger_tui.settings.resuming import Left


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one run; without a `url` or a `profile` the dashboard runs its own server."""

    url: str | None = None
    key: str | None = None
    database: str | None = None
    demo: bool = False
    read_only: bool = False
    profile: Profile | None = None
    config: Config = field(default_factory=Config)
    config_file: str = "config.toml"
    of_demo: bool = False  # `url` is the server of a demo, started by another process
    tour_pace: float | None = None  # how fast to play the tour, on a demo alone; None not to play it
    resume: Left | None = None  # where to begin

    @property
    def shows_demo(self) -> bool:
        """Whether what is shown is a demo."""
        return self.demo or self.of_demo

    @property
    def connection(self) -> str:
        """Return what distinguishes this connection from others."""
        if self.profile is not None:
            return f"profile {self.profile.name}"
        return self.url or f"own {self.database or ''}".rstrip()
