"""The time machine: it sets the moment that all screens show, and draws the line of time under the tabs.

The line is hidden while the screens show the present. The time machine changes `Session.moment_ms`, the
moment that every request asks for, and makes the view on screen read its data again. While the user holds a
key down, the line is redrawn at each step, but the view reads its data less often.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from textual import events
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget

from ledger_client.errors import LedgerError
from ledger_tui.client.past import Happening, moment_ms, moment_text, the_present
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import Cell, Link
from ledger_tui.resources.cells import joined
from ledger_tui.resources.filtering import BadLine
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.status_bar import StatusBar
from ledger_tui.ui.view import Context, toned_line

_AGO = re.compile(r"-(?=\d)((?:\d+(?:min|[wdhms]))+)")
_PART = re.compile(r"(\d+)(min|[wdhms])")
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "min": 60, "m": 60, "s": 1}
# The completions of `:at`, each with a short description.
MOMENTS = (
    ("-2h", "two hours ago; also w, d, m or s, such as -1d30m"),
    ("14:05", "today, in UTC"),
    ("2026-11-23 14:05", "in UTC; also the day alone"),
    ("now", "the present"),
)
_CLOCK = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?")
_DAY_MS = 86_400_000
# The time machine accepts a moment that is up to this much after now, because the server reports its time in
# whole seconds.
_UNSURE_MS = 1_000


def parse_moment(text: str, now_ms: int) -> int | None:
    """Return the moment that a text names, in milliseconds; None for the text `now`. Raises BadLine.

    The text is a date, a time in UTC with or without a date, or a distance back from now: `2026-11-23 14:05`,
    `14:05`, `-2h`.
    """
    text = text.strip()
    if text == "now":
        return None
    if match := _AGO.fullmatch(text):
        seconds = sum(int(count) * _SECONDS[unit] for count, unit in _PART.findall(match[1]))
        return max(0, now_ms - seconds * 1000)
    if _CLOCK.fullmatch(text):
        text = f"{datetime.fromtimestamp(now_ms / 1000, UTC):%Y-%m-%d} {text.zfill(5)}"
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
        ms = moment_ms((at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat())
    except ValueError:
        ms = None
    if ms is None:
        raise BadLine("Write a time as 2026-11-23 14:05, 14:05, -2h or now.")
    if ms > now_ms + _UNSURE_MS:
        raise BadLine("That time is in the future.")
    return ms


class EventRun:
    """The events around the shown moment, without a gap, oldest first.

    `begins` is true if no event precedes the first known event. `ends` is true if no event follows the last
    known event.
    """

    def __init__(self) -> None:
        self.known: list[Happening] = []
        self.begins = self.ends = False
        self._times: list[int] = []

    def begin(self, happenings: Sequence[Happening], *, begins: bool, ends: bool) -> None:
        """Replace the known events with these events."""
        self.known, self.begins, self.ends = [*happenings], begins, ends
        self._count()

    def add_older(self, happenings: Sequence[Happening], *, begins: bool) -> None:
        self.known, self.begins = [*happenings, *self.known], begins
        self._count()

    def add_newer(self, happenings: Sequence[Happening], *, ends: bool) -> None:
        self.known, self.ends = [*self.known, *happenings], ends
        self._count()

    def expect_newer(self) -> None:
        """Note that more events may have happened since the last read, so that `needs` asks for them."""
        self.ends = False

    def _count(self) -> None:
        # All events of one millisecond form one step, because moments are whole milliseconds.
        self._times = sorted({each.ms for each in self.known})

    def step(self, ms: int | None, steps: int) -> int | None:
        """Return the moment `steps` steps after `ms`, or before it if `steps` is negative.

        Steps back beyond the first known event end at this event. Steps forward beyond the last known event
        end at the present. In `ms` and in the result, None stands for the present.
        """
        here = len(self._times) - 1 if ms is None else bisect_right(self._times, ms) - 1
        target = here + steps
        if target >= len(self._times) or not self._times:
            return None
        return self._times[max(0, target)]

    def needs(self, ms: int | None, steps: int) -> str:
        """Return which events to read before `step` can go these steps: "older", "newer", or "" for none."""
        here = len(self._times) - 1 if ms is None else bisect_right(self._times, ms) - 1
        if here + steps < 0 and not self.begins:
            return "older"
        return "newer" if here + steps >= len(self._times) and not self.ends else ""

    def at(self, ms: int) -> Sequence[Happening]:
        """Return the last event up to this moment, with all events of the same millisecond."""
        here = bisect_right(self._times, ms) - 1
        return [each for each in self.known if each.ms == self._times[here]] if here >= 0 else ()


# ---------------------------------------------------------------------- the line


# The marked moments. The line shows each as the letter of its key, and the key bar uses the same words.
_MARKS = {"a": "from", "b": "to"}


def column_of(ms: int, first_ms: int, now_ms: int, width: int) -> int:
    """Return the column of a moment on the line of time, which runs from the first event to now."""
    share = (ms - first_ms) / max(1, now_ms - first_ms)
    return max(0, min(width - 1, round(share * (width - 1))))


def moment_at(column: int, first_ms: int, now_ms: int, width: int) -> int:
    """Return the moment at a column of the line."""
    return first_ms + round((now_ms - first_ms) * max(0, min(column, width - 1)) / max(1, width - 1))


def line(
    ms: int, first_ms: int, now_ms: int, failures: Sequence[int], marks: Mapping[str, int], width: int
) -> list[Cell]:
    """Return the line of time in `width` cells, with the shown moment, failures, and the marked moments."""
    here = column_of(ms, first_ms, now_ms, width)
    cells = [Cell("━", "accent") if n < here else Cell("─", "dim") for n in range(width)]
    for failure in failures:
        if first_ms <= failure <= now_ms:
            cells[column_of(failure, first_ms, now_ms, width)] = Cell("✕", "bad")
    for name, moment in marks.items():
        cells[column_of(moment, first_ms, now_ms, width)] = Cell(name, "warn")
    cells[here] = Cell("◆", "strong")
    return joined(cells)


def short(ms: int, now_ms: int) -> str:
    """Return a moment in a short form: only the time of day for today, and no year for a day of this year."""
    at, now = (datetime.fromtimestamp(each / 1000, UTC) for each in (ms, now_ms))
    if now - at < timedelta(milliseconds=_DAY_MS) and at.date() == now.date():
        return f"{at:%H:%M:%S}"
    return f"{at:%m-%d %H:%M}" if at.year == now.year else f"{at:%Y-%m-%d}"


def long(ms: int) -> str:
    """Return a moment with its milliseconds."""
    at = datetime.fromtimestamp(ms / 1000, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{ms % 1000:03}"


if TYPE_CHECKING:
    from ledger_tui.features.past.reading import PastReading

_HELD_SECONDS = 0.2  # the maximum time between two steps of a key that is held down
# While a key is held down, each step after the 20th goes 5 events, and each step after the 60th goes 25
# events.
_STRIDES = ((60, 25), (20, 5))
_SEE_SECONDS = 0.1  # the minimum time between two reads of the view
_PLAY_SECONDS = 0.6
_PLAYED = "Played to now: the screens show the present again."
_JUMP = ":at -2h  any moment"  # the line names this command, because no key goes to an arbitrary moment
_ABOUT_LEAST = 30  # the minimum cells for the events of the moment


class TimeMachine(Widget):
    """The line of time and the chosen moment. `see` makes the view on screen read the data of this moment."""

    def __init__(self, see: Callable[[], None], status: StatusBar, context: Context) -> None:
        super().__init__()
        self._see_moment = see
        self._status = status
        self._view_context = context
        self._session = context.session
        self._event_run = EventRun()
        self._first_ms: int | None = None
        self._latest_ms = 0  # the time of the newest known event
        self._failures: Sequence[int] = ()
        self.marks: dict[str, int] = {}  # `a`: the earlier moment, `b`: the later moment
        self._playing: Timer | None = None
        self._seeing: Timer | None = None
        self._seen_at = self._stepped_at = 0.0
        self._steps_held = 0
        self._reading = False
        self._reads = 0  # the number of the newest read; answers to earlier reads are ignored

    @property
    def ms(self) -> int | None:
        """The shown moment; None while the screens show the present."""
        return self._session.moment_ms

    @property
    def playing(self) -> bool:
        return self._playing is not None

    @property
    def now_ms(self) -> int:
        return max(self._latest_ms, round(self._session.present_time * 1000))

    # ------------------------------------------------------------------ going

    def step(self, direction: int) -> None:
        """Go one event back (-1) or forward (1). If the key has been held down for some steps, go several
        events at once.
        """
        now = self._session.clock()
        same = now - self._stepped_at <= _HELD_SECONDS and self._steps_held * direction >= 0
        self._steps_held = self._steps_held + direction if same else direction
        self._stepped_at = now
        stride = next((stride for least, stride in _STRIDES if abs(self._steps_held) > least), 1)
        self._stop()
        self._event_run.expect_newer()
        self._go_steps(direction * stride)

    def _go_steps(self, steps: int) -> None:
        if self._reading:
            return
        if self.ms is None and steps > 0:
            self.notify("The screen shows the present; , goes back.")
        elif self.ms is None:
            self._read("around", None, steps)
        elif side := self._event_run.needs(self.ms, steps):
            self._read(side, self.ms, steps)
        else:
            self._show(self._event_run.step(self.ms, steps))

    def go(self, ms: int | None) -> None:
        """Show this moment; None shows the present."""
        self._stop()
        if ms is None:
            self._reading, self._reads = False, self._reads + 1
            self._show(None)
        else:
            self._read("around", ms, 0)

    def play(self) -> None:
        """Begin to play the events in sequence; if they are playing, pause."""
        if self._playing is not None:
            self._stop()
        else:
            # Events that happen while the line plays are not played. Otherwise the line would never reach the
            # present of a busy ledger.
            self._event_run.expect_newer()
            pause = max(_PLAY_SECONDS, self._session.pause_after(1, least=0.0))
            self._playing = self.set_interval(pause, self._play_on)
            self.screen.refresh_bindings()  # the bar names the pause
        self.refresh()

    @while_running
    def _play_on(self) -> None:
        self._go_steps(1)

    def _stop(self) -> None:
        if self._playing is not None:
            self._playing.stop()
            self._playing = None
            self.screen.refresh_bindings()

    def _show(self, ms: int | None) -> None:
        before, was_playing, self._session.moment_ms = self.ms, self.playing, ms
        if ms is None:
            self._stop()
            self.marks.clear()
        if (before is None) != (ms is None):
            # A notification about the present would be wrong in the past, and vice versa.
            self.app.clear_notifications()
            if was_playing and ms is None:
                self.notify(_PLAYED)
            self.display = ms is not None
            self._session.on_change()
            self.screen.refresh_bindings()
        self.refresh()
        self._status.refresh()
        if self._seeing is None:
            wait = _SEE_SECONDS - (self._session.clock() - self._seen_at)
            self._seeing = self.set_timer(max(0.001, wait), self._see)

    @while_running
    def _see(self) -> None:
        self._seeing = None
        self._seen_at = self._session.clock()
        self._see_moment()

    # ------------------------------------------------------------------ reading

    @asks("past")
    async def _read_around(self, side: str, ms: int | None, steps: int, number: int) -> None:
        # Imported here, because the first paint does not need this module.
        from ledger_tui.features.past.reading import read_around, read_newer, read_older

        api, happenings = self._view_context.api, self._event_run.known
        with the_present():
            try:
                if side == "around":
                    read = await read_around(api, ms)
                elif side == "older":
                    read = await read_older(api, happenings[0])
                else:
                    read = await read_newer(api, happenings[-1])
            except LedgerError as error:
                self.call_later(self._fail, literal(error))
            else:
                self.call_later(self._take_around, read, side, ms, steps, number)

    def _read(self, side: str, ms: int | None, steps: int) -> None:
        if side == "newer" and not self._event_run.known:
            side = "around"
        self._reading, self._reads = True, self._reads + 1
        self._read_around(side, ms, steps, self._reads)

    @asks("past-line")
    async def _read_line(self) -> None:
        from ledger_tui.features.past.reading import read_around, read_failures, read_first

        api, first = self._view_context.api, self._first_ms
        with the_present():
            try:
                newest = (await read_around(api, None)).known
                latest = newest[-1].ms if newest else 0
                first = await read_first(api, max(latest, self.now_ms)) if first is None else first
                self.call_later(self._take_line, first, latest, ())
                self.call_later(self._take_line, first, latest, await read_failures(api))
            except LedgerError as error:
                self.call_later(self._fail, literal(error))

    @while_running
    def _take_around(self, read: PastReading, side: str, ms: int | None, steps: int, number: int) -> None:
        """Add the events that were read, and go `steps` steps from `ms`.

        `side` says where the events belong: "around", "older" or "newer". `number` is the number of the read;
        only the newest read counts.
        """
        if number != self._reads:
            return
        self._reading = False
        if self.ms is None:
            self._read_line()
        if side == "around":
            self._event_run.begin(read.known, begins=read.begins, ends=read.ends)
        elif side == "older":
            self._event_run.add_older(read.known, begins=read.begins)
        else:
            self._event_run.add_newer(read.known, ends=read.ends)
        further = self._event_run.needs(ms, steps) if read.known else ""
        if steps == 0:
            self._show(ms)
        elif ms is None and not read.known:
            self.notify("There is no event to step to.")
        elif ms is not None and further:
            self._read(further, ms, steps)
        else:
            self._show(self._event_run.step(ms, steps))

    @while_running
    def _take_line(self, first_ms: int | None, latest_ms: int, failures: Sequence[int]) -> None:
        """Store the times of the first event, the newest event and the failures."""
        self._first_ms, self._latest_ms = first_ms, latest_ms
        self._failures = failures or self._failures
        self.refresh()

    @while_running
    def _fail(self, sentence: str) -> None:
        self._reading = False
        self._stop()
        self.notify(sentence, severity="warning", markup=False)

    # ------------------------------------------------------------------ two moments

    def mark(self, name: str) -> None:
        """Mark the shown moment as the earlier moment (`a`) or the later moment (`b`).

        When both moments are marked, the earlier of these two becomes `a`.
        """
        if self.ms is None:
            return
        self.marks[name] = self.ms
        if len(self.marks) == len(_MARKS):
            self.marks = dict(zip(_MARKS, sorted(self.marks.values()), strict=True))
        self.notify(self._about_marks(name))
        self.refresh()

    def comparison(self) -> Link:
        """Return the link to the changes between two moments.

        If the user has marked two moments, the link compares them. If only one moment is marked, the link
        compares it with the shown moment. If no moment is marked, or if the marked moment is itself shown,
        the link compares the shown moment with the present.
        """
        here = self.now_ms if self.ms is None else self.ms
        marks = [*self.marks.values()] or [here]
        if len(marks) == 1:
            marks.append(self.now_ms if here == marks[0] else here)
        start, end = map(moment_text, sorted(marks))
        return Link("What changed", "difference", filters={"from": start, "to": end})

    # ------------------------------------------------------------------ drawing

    @property
    def _begin_ms(self) -> int:
        happenings = self._event_run.known
        begin = (
            self._first_ms if self._first_ms is not None else happenings[0].ms if happenings else self.now_ms
        )
        return min(begin, self.ms or begin)

    def _marks_text(self) -> str:
        """Return a text with the marked moments and their signs on the line; "" if no moment is marked."""
        marks = sorted(self.marks.items())
        return "   ".join(f"{name} {_MARKS[name]} {short(ms, self.now_ms)}" for name, ms in marks)

    def _about_marks(self, name: str) -> str:
        """Return the message after the user has marked the moment `name`.

        The message names the marked moments and the next key to press.
        """
        moments = [short(ms, self.now_ms) for ms in sorted(self.marks.values())]
        if len(moments) == 1:
            begin = f"Comparing {_MARKS[name]} {moments[0]}"
            return f"{begin}: step to another moment, then press d. Here d compares with now."
        if self.marks["a"] == self.marks["b"]:
            return f"Both moments are {moments[0]}: step to another one, then press a or b again."
        return f"Comparing from {moments[0]} to {moments[1]}: d shows what changed."

    def render(self) -> Content:
        ms, width = self.ms, max(20, self.content_size.width)
        if ms is None:
            return Content("")
        names = [literal(each.about) for each in self._event_run.at(ms)]
        what = f"{names[-1]} and {len(names) - 1} more" if len(names) > 1 else "".join(names) or "nothing yet"
        keys = "▶ playing, space pauses" if self.playing else self._marks_text() or _JUMP
        left = Content.assemble(("◀ ", "bold $warning"), (long(ms), "bold"), "  ")
        room = width - left.cell_length
        right = Content.styled(f"  {keys}" if room > len(keys) + _ABOUT_LEAST else "", "$muted")
        about = Content(what).truncate(max(1, room - right.cell_length), ellipsis=True)
        gap = " " * max(0, room - about.cell_length - right.cell_length)
        begin = f"{short(self._begin_ms, self.now_ms)} "
        columns = max(1, width - len(begin) - 4)
        bar = line(ms, self._begin_ms, self.now_ms, self._failures, self.marks, columns)
        return Content.assemble(
            left, about, gap, right, "\n", (begin, "$muted"), toned_line(bar), (" now", "$muted")
        )

    def on_click(self, event: events.Click) -> None:
        if self.ms is None or event.y < 1:
            return
        begin = len(short(self._begin_ms, self.now_ms)) + 1 + self.styles.padding.left
        columns = max(1, self.content_size.width - begin + self.styles.padding.left - 4)
        self.go(moment_at(event.x - begin, self._begin_ms, self.now_ms, columns))
