"""The line on top: whose ledger, which mode, does it answer, how much of the rate limit is left."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from ledger_tui.state.session import Link, Mode, Session
from ledger_tui.state.text import literal

_MODES = {
    Mode.TEST: (" TEST ", "$mode-test-text on $mode-test"),
    Mode.LIVE: (" ◆ LIVE ", "bold $mode-live-text on $mode-live"),
    Mode.UNKNOWN: (" MODE ? ", "$muted on $panel"),
}


class StatusBar(Widget):
    """Mode and connection, always visible."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def render(self) -> Content:
        session = self._session
        left = Content.assemble(" ", _MODES[session.mode], "  ", connection(session))
        if session.forbids_changes:
            left = left + Content.styled("  read-only", "bold")
        host = Content.styled(literal(session.url.removeprefix("http://")), "$muted")
        if session.profile:
            host = Content.assemble((session.profile, "bold"), " ", host)
        rest = Content.assemble(limits(session), "  ", host, " ")
        room = self.size.width - left.cell_length
        if rest.cell_length > room - 2:
            rest = Content.assemble(limits(session), " ")
        if rest.cell_length > room - 2:
            return left
        return Content.assemble(left, " " * (room - rest.cell_length), rest)


def connection(session: Session) -> Content:
    """Each state has its glyph and its words."""
    if (seconds := session.waiting_seconds) > 0:
        return Content.styled(f"◔ rate limit: waiting {seconds:.0f} s", "bold $warning")
    match session.link:
        case Link.STARTING:
            return Content.styled("◌ starting the server…", "$muted")
        case Link.CONNECTING:
            return Content.styled("◌ connecting…", "$muted")
        case Link.ONLINE:
            return Content.assemble(("●", "$plus"), " online")
        case Link.LOST:
            again = (
                f"try {session.retries} in {session.retry_seconds:.0f} s"
                if session.retries
                else "trying again"
            )
            return Content.styled(f"✕ {session.sentence} · {again}", "bold $error")
        case Link.REFUSED:
            return Content.styled("✕ 401: the server does not accept this key", "bold $error")
        case Link.ENDED:
            return Content.styled(f"✕ {session.sentence} · R starts it again", "bold $error")
        case Link.SIGNED_OUT:
            return Content.styled("○ not signed in · S signs in", "bold $warning")
        case Link.FAILING:
            return Content.styled("✕ the server reports a failure of its own", "bold $error")


def awaited(session: Session) -> Content:
    """What stands where nothing was read yet: that it is loading, or why it is not."""
    if session.link is Link.ONLINE and not session.waiting_seconds:
        return Content.styled("loading…", "$muted")
    return connection(session)


def limits(session: Session) -> Content:
    """What is left of the window, as the server last said."""
    if session.limit is None or session.remaining is None:
        return Content("")
    scarce = session.remaining * 10 < session.limit
    style = "bold $warning" if scarce else "$muted"
    return Content.styled(f"{session.remaining:,}/{session.limit:,} req/min", style)
