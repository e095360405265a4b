"""The state of the connection: which ledger this is, in which mode, and whether it answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import Any

# Polling uses at most this share of the requests that the plan allows in a minute.
_POLL_SHARE = 0.25
_FASTEST_POLL_SECONDS = 2.0
# Seconds without an answer before the screen says that the server is slow.
PATIENT_SECONDS = 2.5
# The pause between the pages of a search: seven requests a second, which the burst of every plan allows.
_LOOK_SECONDS = 0.15
# The largest offset of the ledger's clock to accept, in milliseconds: a century. With a much larger offset,
# no date could represent the ledger's time.
_OFFSET_MS_MAX = 100 * 365 * 86_400_000
LINE_TO_NOW = ":at now returns to now."  # the way that works on every screen
_WRITES = "write:projects"
_LAST_TIME = 253_402_300_799.0  # the last second of the year 9999
_LIVE_PREFIX, _TEST_PREFIX = "sk_live_", "sk_test_"


class Mode(Enum):
    TEST = "test"
    LIVE = "live"
    UNKNOWN = "unknown"


class ConnectionState(Enum):
    """The state of the connection to the server."""

    STARTING = "starting"  # the embedded server is starting
    CONNECTING = "connecting"  # nothing answered yet
    ONLINE = "online"
    LOST = "lost"  # the server does not answer any more; the dashboard tries again by itself
    REFUSED = "refused"  # 401: the server answers, but refuses this credential
    FAILING = "failing"  # 5xx: the server answers that it cannot work
    FOREIGN = "foreign"  # the program that answers is not a ledger
    ENDED = "ended"  # the dashboard's own server has ended
    SIGNED_OUT = "signed out"  # nobody has signed in yet


class Session:
    """One server with one credential.

    The session calls `on_change` after a change of the state, the mode, the scopes, the missing parts, the
    ledger's clock or the time of the next try, and when the rate limit requires a wait. The session does not
    call `on_change` for a new request, or for new numbers of the rate limit.
    """

    def __init__(self, *, read_only: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.read_only = read_only
        self.clock = clock
        self.url = ""
        self.profile = ""  # the user's name for this server
        self.state = ConnectionState.CONNECTING
        self.sentence = ""  # why the state is LOST or ENDED
        # the fraction of a demo's data that is loaded, while the demo's server starts
        self.progress: float | None = None
        self.retries = 0
        self.next_try_at = 0.0
        # returns the sentence that tells the user how to return from the past to now
        self.way_to_now: Callable[[], str] = lambda: LINE_TO_NOW
        self.wait_until = 0.0  # no request is sent before this time of `clock`
        # the numbers of the rate limit: requests per minute, requests left, the Unix time of the next window
        self.limit: int | None = None
        self.remaining: int | None = None
        self.reset_at: int | None = None
        # seconds by which the server's clock (its Date header) is ahead of this machine's
        self._server_ahead = 0.0
        self._ledger_ahead = 0.0  # seconds by which test helpers have moved the ledger's clock forward
        self._under_way: dict[int, float] = {}  # when each unanswered request was sent
        self._sent_count = 0
        self._answered_at = 0.0
        self.known_ledger = False  # whether an answer of this server had a ledger's form
        self._foreign = False  # whether an answer did not have a ledger's form
        # The number of credentials used so far. If the server refuses a list to the credential, the list
        # remembers this number. If the number has changed since, another credential is in use, and the
        # dashboard reads the list again.
        self.credentials = 0
        self.missing_parts: set[str] = set()
        self._lacks_scope = False
        # The screen shows the state at the end of this millisecond since 1970; None means the present.
        self.moment_ms: int | None = None
        self._key_mode = Mode.UNKNOWN
        self._seen_mode = Mode.UNKNOWN
        self.on_change: Callable[[], None] = lambda: None

    # ------------------------------------------------------------------ mode

    @property
    def mode(self) -> Mode:
        """Return LIVE if the key or the last noted record is live: live money must never look like a test."""
        modes = {self._key_mode, self._seen_mode}
        if Mode.LIVE in modes:
            return Mode.LIVE
        return Mode.TEST if Mode.TEST in modes else Mode.UNKNOWN

    def begin(self, url: str, credential: str | None) -> None:
        """Start with a server and a credential. The prefix of an API key shows whether its mode is live."""
        self.url = url
        self.known_ledger = self._foreign = False
        self.credential_changed()
        if credential and credential.startswith(_LIVE_PREFIX):
            self._key_mode = Mode.LIVE
        elif credential and credential.startswith(_TEST_PREFIX):
            self._key_mode = Mode.TEST
        self._enter(ConnectionState.CONNECTING)

    def credential_changed(self) -> None:
        """Note that the session now uses another credential."""
        self.credentials += 1

    def starting(self, progress: float | None = None) -> None:
        """Note that the dashboard's own server is starting, and the loaded fraction of a demo's data."""
        self.progress = progress
        self._enter(ConnectionState.STARTING)

    def ended(self, sentence: str) -> None:
        """Note that the dashboard's own server ended by itself."""
        self.state, self.sentence = ConnectionState.ENDED, sentence
        self.on_change()

    def signed_out(self) -> None:
        self._enter(ConnectionState.SIGNED_OUT)

    def saw_livemode(self, livemode: object) -> None:
        """Note the mode of a record."""
        new_mode = {True: Mode.LIVE, False: Mode.TEST}.get(livemode) if isinstance(livemode, bool) else None
        if new_mode is not None and self._seen_mode is not new_mode:
            self._seen_mode = new_mode
            self.on_change()

    # ------------------------------------------------------------------ rights

    def saw_scopes(self, scopes: object) -> None:
        """Note the scopes that the server limits the credential to; None for no limit."""
        lacks_scope = isinstance(scopes, list) and _WRITES not in scopes
        if lacks_scope != self._lacks_scope:
            self._lacks_scope = lacks_scope
            self.on_change()

    @property
    def forbids_changes(self) -> str:
        """Why the dashboard can change nothing now; "" if it can make changes."""
        if self.moment_ms is not None:
            return "This is the past: nothing can be changed."
        if self.read_only:
            return "Read-only: this dashboard changes nothing."
        return f"Read-only: this credential lacks {_WRITES}." if self._lacks_scope else ""

    @property
    def why_no_change(self) -> str:
        """The text of `forbids_changes` for a message; in the past, it also names the way back to now."""
        way = f" {self.way_to_now()}" if self.moment_ms is not None else ""
        return self.forbids_changes + way

    # ------------------------------------------------------------------ connection

    def sent(self) -> int:
        """Note that a request was sent, and return the number to pass to `done`."""
        self._sent_count += 1
        self._under_way[self._sent_count] = self.clock()
        return self._sent_count

    def done(self, number: int) -> None:
        """Note the end of a request, with or without an answer."""
        self._under_way.pop(number, None)

    @property
    def unanswered_seconds(self) -> float:
        """How long the oldest running request has waited, in seconds; 0 for a wait too short to show.

        The time before the last answer to any request does not count.
        """
        if not self._under_way:
            return 0.0
        since = max(min(self._under_way.values()), self._answered_at)
        seconds = self.clock() - since
        return seconds if seconds >= PATIENT_SECONDS else 0.0

    @property
    def answers(self) -> bool:
        """Whether the screen is up to date: the server answers, and no request has waited too long."""
        return self.state is ConnectionState.ONLINE and not self.unanswered_seconds

    def saw_ledger(self) -> None:
        """Note that an answer had a ledger's form."""
        self.known_ledger = True
        if self._foreign:
            self._foreign = False
            self._enter(ConnectionState.ONLINE)

    def saw_no_ledger(self) -> None:
        """Note an answer that is not a ledger's.

        If this server has answered as a ledger before, ignore this answer, because it is only a fault.
        """
        if not self.known_ledger:
            self._foreign = True
            self._enter(ConnectionState.FOREIGN)

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Note that the server gave an answer, of any kind."""
        self._answered_at = self.clock()
        self._note_limits(headers)
        # The dashboard's own server sent this answer before it ended, so the state stays ENDED.
        if self.state is ConnectionState.ENDED:
            return
        state = ConnectionState.FOREIGN if self._foreign else ConnectionState.ONLINE
        if status == 401:
            state = ConnectionState.REFUSED
        elif status >= 500:
            state = ConnectionState.FAILING
        if state is not self.state:
            self._enter(state)

    def lost(self, sentence: str) -> None:
        """Note that a request got no answer."""
        if self.state is ConnectionState.ENDED:  # the sentence of the ended server already gives the reason
            return
        self.state, self.sentence = ConnectionState.LOST, sentence
        self.on_change()

    def will_retry(self, attempt: int, seconds: float) -> None:
        """Note that the dashboard will try again after `seconds`.

        `attempt` is the number of this try, counted from 1 since the connection was lost.
        """
        self.retries = attempt
        self.next_try_at = self.clock() + seconds
        self.on_change()

    @property
    def retry_seconds(self) -> float:
        """Return the seconds until the next try."""
        return max(0.0, self.next_try_at - self.clock())

    def rate_limited(self, retry_after_seconds: float) -> None:
        """Note that the server asked for a wait of this many seconds, in which no request is sent."""
        self.wait_until = max(self.wait_until, self.clock() + retry_after_seconds)
        self.on_change()

    def mark_missing(self, part: str) -> None:
        """Note that this server lacks a part of the interface that the contract does not require."""
        if part not in self.missing_parts:
            self.missing_parts.add(part)
            self.on_change()

    @property
    def waiting_seconds(self) -> float:
        """The seconds to wait for the rate limit before the next request; 0 for no wait."""
        return max(0.0, self.wait_until - self.clock())

    @property
    def poll_seconds(self) -> float:
        """Return the seconds between two reads of a list."""
        return self.pause_after(1)

    @property
    def look_pause(self) -> float:
        """The seconds between two pages of a search, which reads many pages one after the other.

        A search runs at full speed until half of the rate limit is used. Then the search slows down, to leave
        requests for the screen.
        """
        if self.limit and self.remaining is not None and self.remaining * 2 < self.limit:
            return self.pause_after(1)
        return _LOOK_SECONDS

    @property
    def is_scarce(self) -> bool:
        """Whether less than a tenth of the rate limit is left."""
        return self.limit is not None and self.remaining is not None and self.remaining * 10 < self.limit

    def pause_after(self, requests: int, *, least: float | None = None) -> float:
        """Return the seconds to wait after a read that took this many requests.

        With these pauses, repeated reads use at most a fixed share of the rate limit. `least` is the shortest
        pause.
        """
        least = _FASTEST_POLL_SECONDS if least is None else least
        if not self.limit:
            return least
        return max(least, requests * 60 / (self.limit * _POLL_SHARE))

    @property
    def server_time(self) -> float:
        """Return the ledger's clock as Unix time, clamped to times that a date can represent.

        While the screen shows an earlier moment, this returns that moment.
        """
        return self.present_time if self.moment_ms is None else self.moment_ms / 1000

    @property
    def today(self) -> date:
        """Return the date of `server_time` in UTC."""
        return datetime.fromtimestamp(self.server_time, UTC).date()

    @property
    def present_time(self) -> float:
        """Return the present Unix time by the ledger's clock, even if the screen shows an earlier moment."""
        return min(max(0.0, time.time() + self._server_ahead + self._ledger_ahead), _LAST_TIME)

    def saw_clock(self, offset_ms: object) -> None:
        """Note how far test helpers have moved the ledger's clock ahead of the server's real clock."""
        is_known = isinstance(offset_ms, int) and abs(offset_ms) <= _OFFSET_MS_MAX
        ahead = offset_ms / 1000 if is_known and isinstance(offset_ms, int) else 0.0
        if ahead != self._ledger_ahead:
            self._ledger_ahead = ahead
            self.on_change()

    @property
    def clock_ahead(self) -> timedelta:
        """How far test helpers have moved the ledger's clock forward, rounded to seconds."""
        return timedelta(seconds=round(self._ledger_ahead))

    @property
    def reset_seconds(self) -> int:
        """Return the seconds until the rate limit's next window."""
        return max(0, (self.reset_at or 0) - int(time.time() + self._server_ahead))

    def _enter(self, state: ConnectionState) -> None:
        self.state = state
        self.retries = 0
        self.sentence = ""
        self.on_change()

    def _note_limits(self, headers: Mapping[str, str]) -> None:
        self.limit = _whole_number(headers.get("x-ratelimit-limit"), self.limit)
        self.remaining = _whole_number(headers.get("x-ratelimit-remaining"), self.remaining)
        self.reset_at = _whole_number(headers.get("x-ratelimit-reset"), self.reset_at)
        from email.utils import parsedate_to_datetime  # not before the first paint

        with suppress(ValueError, OverflowError):
            ahead = parsedate_to_datetime(headers.get("date", "")).timestamp() - time.time()
            # The header is rounded down to whole seconds, so each difference is up to a second too small.
            # Keep the largest difference, unless the new difference shows that somebody has set a clock.
            if not ahead <= self._server_ahead < ahead + 1:
                self._server_ahead = ahead


def _whole_number(text: Any, otherwise: int | None) -> int | None:
    is_number = isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 16
    return int(text) if is_number else otherwise
