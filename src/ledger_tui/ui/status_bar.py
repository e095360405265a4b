"""The status bar: the mode, the connection, the trail of followed links, the requests left in the rate limit,
and the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from math import ceil

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ledger_tui.client.session import ConnectionState, Mode, Session
from ledger_tui.formats.text import literal
from ledger_tui.formats.times import since

_MODES = {
    Mode.TEST: (" TEST ", "$mode-test-text on $mode-test"),
    Mode.LIVE: (" ◆ LIVE ", "bold $mode-live-text on $mode-live"),
    Mode.UNKNOWN: (" MODE ? ", "$muted on $panel"),
}


# A narrow bar leaves out the rate limit if the trail would otherwise have fewer cells than this. But if the
# limit is nearly used up, the bar shortens the trail instead.
_LEAST_TRAIL = 36


class StatusBar(Widget):
    """The mode and the connection, always visible.

    `trail` contains the places where the user followed links.
    """

    trail: reactive[tuple[str, ...]] = reactive(())

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def render(self) -> Content:
        session, width = self._session, self.size.width
        begins = session.state is ConnectionState.STARTING or (
            session.state is ConnectionState.CONNECTING and session.mode is Mode.UNKNOWN
        )
        mode = Content(" ") if begins else Content.assemble(" ", _MODES[session.mode], "  ")
        only = Content.styled("  read-only" if session.forbids_changes else "", "bold")
        if session.moment_ms is not None:
            then = datetime.fromtimestamp(session.moment_ms / 1000, UTC)
            only = Content.assemble(
                "  ", (f" PAST {then:%Y-%m-%d %H:%M:%S} ", "bold $mode-live-text on $warning")
            )
            only = Content.assemble(only, (" read-only", "bold $warning"))
        if ahead := session.clock_ahead:
            offset = since(-ahead)  # "in 2 h" if the clock is 2 h ahead, "2 h ago" if it is behind
            offset = f"+{offset[3:]}" if ahead > timedelta() else f"−{offset.removesuffix(' ago')}"
            only = Content.assemble(only, (f"  clock {offset}", "bold $warning"))
        host = Content.styled(literal(session.url.removeprefix("http://")), "$muted")
        if session.profile:
            host = Content.assemble((session.profile, "bold"), " ", host)
        host = host.truncate(width // 2, ellipsis=True)
        # A narrow bar first leaves out the rate limit, then the details of a problem. It always shows the
        # profile and the address of the server.
        width_left = width - mode.cell_length - only.cell_length - host.cell_length - 3
        left = Content.assemble(mode, connection(session, width_left), only)
        rest = Content.assemble(limits(session), "  ", host, " ")
        cells_needed = min(_LEAST_TRAIL, breadcrumbs(self.trail, width).cell_length) if self.trail else 0
        if rest.cell_length > width - left.cell_length - 2 - (0 if session.is_scarce else cells_needed):
            rest = Content.assemble(host, " ")
        trail = breadcrumbs(self.trail, width - left.cell_length - rest.cell_length - 1)
        left = Content.assemble(left, trail)
        return Content.assemble(left, " " * (width - left.cell_length - rest.cell_length), rest)


def breadcrumbs(trail: Sequence[str], width: int) -> Content:
    """Return the trail in at most `width` cells: as many of the last places as fit."""
    for first in range(len(trail)):
        steps = [*trail[first:]]
        line = Content("   " + " › ".join(["…", *steps] if first else steps) + " ›")
        if line.cell_length <= width:
            return line.stylize("$muted")
    if trail and width >= _LEAST_TRAIL // 3:
        return Content(f"   … › {trail[-1]}").truncate(width, ellipsis=True).stylize("$muted")
    return Content("")


def connection(session: Session, width_left: int = 1_000) -> Content:
    """Return the connection's state, with its symbol, in at most `width_left` cells if possible."""
    if (seconds := session.waiting_seconds) > 0:
        return Content.styled(f"◔ rate limit: waiting {seconds:.0f} s", "bold $warning")
    wait_seconds = session.unanswered_seconds
    if wait_seconds and session.state in (
        ConnectionState.CONNECTING,
        ConnectionState.ONLINE,
        ConnectionState.REFUSED,
        ConnectionState.FAILING,
        ConnectionState.FOREIGN,
    ):
        return Content.styled(f"◌ waiting for an answer, {wait_seconds:.0f} s", "bold $warning")
    match session.state:
        case ConnectionState.STARTING:
            return Content.styled("◌ starting the server…", "$muted")
        case ConnectionState.CONNECTING:
            return Content.styled("◌ connecting…", "$muted")
        case ConnectionState.ONLINE:
            return Content.assemble(("●", "$plus"), " online")
        case ConnectionState.LOST:
            seconds = ceil(session.retry_seconds)
            return _trouble(
                session.sentence,
                f"try {session.retries} in {seconds} s" if seconds else "trying now…",
                width_left,
            )
        case ConnectionState.REFUSED:
            return _trouble("401: this key is not accepted", ":key or :profile", width_left)
        case ConnectionState.ENDED:
            return _trouble(session.sentence, "R restarts it", width_left)
        case ConnectionState.SIGNED_OUT:
            return Content.styled("○ not signed in · S signs in", "bold $warning")
        case ConnectionState.FAILING:
            return Content.styled("✕ the server reports an internal error", "bold $error")
        case ConnectionState.FOREIGN:
            return Content.styled("✕ no ledger server at this address", "bold $error")


def _trouble(sentence: str, remedy: str, width_left: int) -> Content:
    """Return a problem, and after it `remedy`, which says what helps or what happens next. If the two texts
    together do not fit, shorten the problem.
    """
    wrong = Content(f"✕ {sentence}").truncate(max(2, width_left - len(remedy) - 3), ellipsis=True)
    return Content.assemble(wrong, f" · {remedy}").stylize("bold $error")


def awaited(session: Session) -> Content:
    """Return the text for data that is not read yet: either that it is loading, or why it cannot be read."""
    if session.state is ConnectionState.ONLINE and not session.waiting_seconds:
        return Content.styled("loading…", "$muted")
    return connection(session)


def limits(session: Session) -> Content:
    """Return the number of requests left in the rate limit, according to the server's last answer."""
    if session.limit is None or session.remaining is None:
        return Content("")
    style = "bold $warning" if session.is_scarce else "$muted"
    return Content.styled(f"{session.remaining:,}/{session.limit:,} req/min", style)
