"""The overview: the state of the ledger on one screen, as tiles. Each tile leads to the lists behind it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.timer import Timer

from ledger_client.errors import LedgerError
from ledger_tui.client import figures
from ledger_tui.client.errors import NotOffered
from ledger_tui.client.past import at_moment
from ledger_tui.client.records import Record
from ledger_tui.client.session import ConnectionState
from ledger_tui.client.totals import BUCKET_SECONDS, BalanceSums, PostingRate, moment
from ledger_tui.features.overview import tiles
from ledger_tui.features.overview.balance_history import BalanceHistory
from ledger_tui.features.overview.known import EVENTS_READ, KnownFigures
from ledger_tui.features.overview.request_figures import RequestFigures, RequestOutcome
from ledger_tui.formats import plot
from ledger_tui.formats.text import literal
from ledger_tui.formats.times import since
from ledger_tui.resources.base import Cell, Link, Place
from ledger_tui.resources.proofs import NO_LOG, PART, CheckpointText, parse_checkpoint
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.status_bar import awaited
from ledger_tui.ui.tiles import MARGIN, Tile, TileContent, TiledView, sentence
from ledger_tui.ui.view import Context, LinkFollowed, NamesLoaded, ObjectFound, ScreenRow

# the maximum number of pages to read for a figure; it is 1 in the past, and on a server with a low rate limit
_PAGES = 10
_PAGES_OF_STAGE = 3
_DRAW_SECONDS = 0.1  # the figures that are read within this time are drawn together
_GENEROUS_LIMIT = 600
_PACE_SECONDS = 0.15  # the pause after each figure if the rate limit is below `_GENEROUS_LIMIT`
_WIDE_COLUMNS = 100  # from this width on, the tile of webhooks stands next to the tile of events
_TALL_ROWS = 30
_HISTORY_POINTS = 120
# The tile of balances normally shows the same period as the bars in the tile of postings. If the last
# transaction is older than this period, the tile shows the shortest of `_LONGER_SECONDS` that contains this
# transaction.
_LONGER_SECONDS = (3_600, 86_400, 604_800, 2_592_000)
_FIGURES = ("events", "balances", "postings", "invoices", "orders", "requests", "webhooks", "log")
_PARTS = {
    "invoices": "invoices.list",
    "requests": "requests",
    "webhooks": "webhook_endpoints",
    "events": "events",
    "log": PART,
}
_DRAWN_WITH = {"postings": ("tile-postings", "tile-balances", "tile-events"), "done": ()}
_LACKS = {
    "invoices": "This server has no list of invoices.",
    "webhooks": "This server shows no webhook deliveries.",
    "log": NO_LOG,
}


_READING = Cell("reading…", "dim")


class Overview(TiledView):
    """The screen of the overview. It reads its figures one after the other. Before it reads them
    again, it pauses, so that polling stays within its share of the rate limit.
    """

    def __init__(self, place: Place, context: Context) -> None:
        super().__init__(place, context)
        self._begin()
        self._known_figures = KnownFigures()
        self._passed_pages: figures.PassedPages = {}
        self._requests = 1
        self._read_at = self._log_read_at = 0.0
        self._old: set[str] = set()  # the shown figures that belong to another moment
        self._undrawn: set[str] = set()  # the tiles whose figures were read since the last drawing
        self._drawing: Timer | None = None
        self._is_settled = False

        def tile(name: str, title: str, draw: Callable[[Any, int, int], TileContent], kind: str) -> Tile:
            def draw_figure(width: int, height: int) -> TileContent:
                figure = self.figures.get(name)
                if figure is None:
                    return sentence(self._awaited(), width)
                if isinstance(figure, str):
                    return sentence(figure, width)
                content = draw(figure, width, height)
                return replace(content, fact=[_READING]) if name in self._old else content

            follows = name == "events"  # the newest event is in the first row
            return Tile(title, draw_figure, Link(title, kind), id=f"tile-{name}", follows=follows)

        self.tiles = (
            tile("balances", "balances", self._balances, "accounts"),
            tile("postings", "postings / min", self._postings, "transactions"),
            tile("invoices", "invoices ▸ paid", tiles.invoices, "invoices"),
            tile("orders", "orders ▸ shipped", tiles.orders, "orders"),
            tile("requests", "requests", tiles.requests, "requests"),
            tile("webhooks", "webhooks", self._webhooks, "webhook_endpoints"),
            tile("events", "newest events", self._events, "events"),
        )

    def _begin(self) -> None:
        self.rate = PostingRate()
        self.history = BalanceHistory()
        self.requests = RequestFigures()
        # by name, each figure or a text with the reason why the figure is missing
        self.figures: dict[str, Any] = {}
        self.latest: list[Record] = []

    def forget(self) -> None:
        super().forget()
        self._begin()
        self._known_figures = KnownFigures()
        self._passed_pages.clear()

    def moment_changed(self) -> None:
        """Read the figures of the moment that is shown now.

        If the former and the new moment are both in the past, the former figures stay until the new figures
        arrive, and a running read for the former moment goes on to its end. If each new moment interrupted
        the read, no figure would appear while the user holds a key down.
        """
        self._is_settled = False
        if None in (self._known_figures.ms, self.context.session.moment_ms):
            self.reading = False
            self._begin()
            self._known_figures = KnownFigures()
        self._old = set(self.figures)
        self.draw()
        self.next_poll_at = self._read_at + self.context.session.pause_after(self._requests, least=0.0)
        self.tick()

    def _awaited(self) -> str:
        """Return the text for a figure that is not read yet.

        While the dashboard connects, the text is empty, because the status bar shows this state.
        """
        session = self.context.session
        begins = session.state in (ConnectionState.STARTING, ConnectionState.CONNECTING)
        return "" if begins and not session.unanswered_seconds else awaited(session).plain

    def compose(self) -> ComposeResult:
        yield self.caption
        yield ScreenRow(*self.tiles[:2], classes="upper")
        yield ScreenRow(*self.tiles[2:5], classes="middle")
        yield Container(*self.tiles[5:], classes="lower")

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= _WIDE_COLUMNS, "-wide")
        self.set_class(event.size.height >= _TALL_ROWS, "-tall")
        self.draw_caption()

    # ------------------------------------------------------------------ the tiles

    @property
    def has_figures(self) -> bool:
        return len(self.figures) == len(_FIGURES)

    @property
    def unread(self) -> bool:
        # A figure that is read but not drawn counts as unread, because keys act on the drawn rows.
        return not self.has_figures or bool(self._undrawn)

    @property
    def settled(self) -> bool:
        """Whether all figures belong to the shown moment."""
        return self._is_settled

    def action_open(self) -> None:
        choice, link = self.tile.chosen, self.tile.link
        if choice is not None and choice.record is not None and link.record_id is not None:
            self.post_message(ObjectFound(link.resource, choice.record, by_link=True))
        else:
            self.post_message(LinkFollowed(link))

    @property
    def failing_endpoint(self) -> str | None:
        """The id of the selected webhook endpoint if this endpoint fails."""
        healths, selected_id = self.figures.get("webhooks"), (self.selected or {}).get("id")
        if selected_id is None or not isinstance(healths, list):
            return None
        fails = any(health.fails and health.endpoint.get("id") == selected_id for health in healths)
        return str(selected_id) if fails else None

    # ------------------------------------------------------------------ reading

    def poll(self) -> float:
        ms = self.context.session.moment_ms
        if ms != self._known_figures.ms:
            figures = self.figures
            self._begin()
            self.figures = figures
        self._known_figures.begin(ms)
        self.reading = True
        self._read(ms)
        return self.context.session.pause_after(self._requests)

    @asks("figures")
    async def _read(self, ms: int | None) -> None:
        session, traffic = self.context.session, self.context.traffic
        generous = session.limit is None or session.limit >= _GENEROUS_LIMIT
        # In the past each move to another moment reads the figures again, so read only one page of each list.
        pages = _PAGES if generous and ms is None else 1
        before = traffic.count
        for name in _FIGURES:
            if _PARTS.get(name) in session.missing_parts:
                self.call_later(self.take_figure, name, None)
                continue
            if self._known_figures.stays(name):
                continue
            try:
                with at_moment(ms):
                    figure = await self._read_figure(name, pages)
            except NotOffered:
                figure = None
            except LedgerError as error:
                figure = literal(error)
            self._known_figures.take(name, figure, session.server_time)
            self.call_later(self.take_figure, name, figure)
            if not generous:
                await asyncio.sleep(_PACE_SECONDS)
        self.call_later(self.take_figure, "done", max(1, traffic.count - before))

    async def _read_figure(self, name: str, pages: int) -> Any:
        api = self.context.api
        match name:
            case "postings":
                return await figures.read_postings(api, self.rate.newest, pages)
            case "balances":
                return await figures.read_balances(api, pages)
            case "events":
                return await figures.read_events(api, EVENTS_READ)
            case "invoices":
                return await figures.read_invoices(api, min(pages, _PAGES_OF_STAGE))
            case "orders":
                return await figures.read_orders(api, min(pages, _PAGES_OF_STAGE))
            case "requests":
                return await figures.read_requests(api, self.requests.newest, min(pages, _PAGES_OF_STAGE))
            case "log":
                return parse_checkpoint((await api.read("/v1/log/checkpoint", part=PART)).body)
            case _:
                return await figures.read_health(api, self._passed_pages)

    @while_running
    def take_figure(self, name: str, figure: Any) -> None:
        """Show the figure `name`.

        If `figure` is a text, it is the reason why the figure could not be read; None means that the server
        does not offer the figure. At the end of a read, `name` is "done" and `figure` the number of requests.
        """
        self._old.discard(name)
        if name == "webhooks" and isinstance(figure, list):
            self.context.names.learn_endpoints(health.endpoint for health in figure)
        if name == "done":
            if self._known_figures.ms == self.context.session.moment_ms:
                # The figures that are still in `_old` have not changed, so they were not read again. Redraw
                # their tiles without the note `_READING`.
                self._undrawn.update(f"tile-{each}" for each in self._old)
                self._old.clear()
            self.end_read(figure)
            self._requests = figure
            session = self.context.session
            self._is_settled, self._read_at = self._known_figures.ms == session.moment_ms, session.clock()
            if not self._is_settled:
                self.next_poll_at = session.clock() + session.pause_after(figure, least=0.0)
        elif figure is None:
            self._take_lack(name)
        elif isinstance(figure, str):
            self.figures[name] = figure
        elif name == "postings":
            self.rate.take(figure.rows, now=figure.now, all_read=figure.reached)
            self.history.take(figure.rows, all_read=figure.reached, currency=self.context.names.currency)
            self.latest = figure.rows[:EVENTS_READ] if figure.rows else self.latest
            self.figures[name] = self.rate
        elif name == "balances":
            self._take_balances(*figure)
        elif name == "requests":
            self.requests.take(figure, self.context.traffic.is_own)
            self.figures[name] = self.requests
        else:
            self.figures[name] = figure
            self._log_read_at = self.context.session.present_time if name == "log" else self._log_read_at
        self._undrawn.update(_DRAWN_WITH.get(name, (f"tile-{name}",)))
        if name == "done":
            self._draw_taken()
        elif self._drawing is None:  # draw figures that arrive in quick succession together
            self._drawing = self.set_timer(_DRAW_SECONDS, self._draw_taken)

    @while_running
    def _draw_taken(self) -> None:
        if self._drawing is not None:
            self._drawing.stop()
            self._drawing = None
        self.draw_caption()
        for tile in self.tiles:
            if tile.id in self._undrawn:
                tile.show_changes()
        if self.tile.id == "tile-webhooks" and self.tile.id in self._undrawn:
            self.refresh_bindings()  # the chosen endpoint may fail now, or fail no more
        self._undrawn.clear()

    def _take_balances(self, balances: BalanceSums, accounts: list[Record]) -> None:
        self.figures["balances"] = balances
        if accounts:
            self.context.session.saw_livemode(accounts[0].get("livemode"))
        if self.context.names.learn(accounts):
            self.post_message(NamesLoaded())

    def _take_lack(self, name: str) -> None:
        """Replace a figure that the server does not offer.

        Show the dashboard's own requests instead of the requests of the log, the newest transactions instead
        of the events, and a sentence instead of any other figure.
        """
        if name == "requests":
            own = (RequestOutcome(each.status, each.duration_ms) for each in self.context.traffic)
            self.requests.replace(own)
            self.figures[name] = self.requests
        elif name == "events":
            self.figures[name] = self.latest
        else:
            self.figures[name] = _LACKS[name]

    # ------------------------------------------------------------------ drawing

    def session_changed(self) -> None:
        if not self.has_figures:
            self.draw()
        else:
            self.draw_caption()

    def caption_text(self) -> Content:
        session = self.context.session
        now = time.strftime("%H:%M:%S", time.gmtime(session.server_time))
        if self._today != time.strftime("%Y-%m-%d", time.gmtime()):
            now = f"{self._today} {now}"
        right = f"✕ {self.problem} " if self.problem else f"{now} UTC "
        left = Content.styled(" Overview", "bold")
        if session.state is ConnectionState.STARTING and session.progress is not None:
            bar_text, empty = plot.meter(session.progress, max(10, self.size.width // 3))
            progress_text = f" {session.progress:.0%} of the demo's data loaded"
            left = Content.assemble(
                left, "  ", (bar_text, "$accent"), (empty, "$faint"), (progress_text, "$muted")
            )
            right = ""
        left = self._with_log(left, self.size.width - len(right) - 1)
        width_left = max(1, self.size.width - left.cell_length - len(right))
        style = "bold $error" if self.problem else "$muted"
        return Content.assemble(left, " " * width_left, (right, style))

    def _with_log(self, left: Content, width: int) -> Content:
        """Return `left` with a text about the transparency log, if the text fits.

        The text names the number of events in the log, the time at which the dashboard read this number, and
        the witnesses. It names no age, because an age would be wrong while the next read waits.
        """
        log = self.figures.get("log")
        # the checkpoint describes the present log, not the log at a past moment
        if self.context.session.moment_ms is not None:
            return left
        if not isinstance(log, CheckpointText):
            text, tone = f"   {log}" if log == NO_LOG else "", "$muted"
        else:
            read_at = datetime.fromtimestamp(self._log_read_at, UTC)
            witnesses = f", {by}" if (by := log.signed_by(read_at)) else ""
            text, tone = f"   Log: {log.size:,} events, checked {read_at:%H:%M:%S}{witnesses}", "$plus"
        return Content.assemble(left, (text, tone)) if left.cell_length + len(text) < width else left

    def names_loaded(self) -> None:
        self.draw()

    def shown_path(self) -> str:
        return "/v1/accounts"

    def _balances(self, figure: BalanceSums, width: int, height: int) -> TileContent:
        # Show the period of the bars in the tile of postings, or a longer period that includes the last
        # posting.
        columns = self.tiles[1].content_size.width - MARGIN - tiles.AXIS
        seconds_shown, quiet = max(1, columns) * BUCKET_SECONDS, self._quiet_seconds
        seconds = next((each for each in (seconds_shown, *_LONGER_SECONDS) if each >= quiet), seconds_shown)
        earlier = self.history.earlier(figure.sums, self._last_read, seconds, _HISTORY_POINTS)
        return tiles.balances(figure, earlier, seconds / (_HISTORY_POINTS - 1), width, height)

    @property
    def _last_read(self) -> float:
        """The server's time at the last read of postings. The drawn periods end at this time.

        The overview reads no figures while another screen is shown. If the periods ended now, the last minute
        would look empty until the next read.
        """
        read_at = self.rate.read_at
        return self.context.session.server_time if read_at is None else read_at

    @property
    def _quiet_seconds(self) -> float:
        """The seconds from the last transaction to the last read; 0 if no transaction is known."""
        at = moment(self.latest[0].get("created")) if self.latest else None
        return 0.0 if at is None else self._last_read - at

    def _postings(self, rate: PostingRate, width: int, height: int) -> TileContent:
        quiet = self._quiet_seconds
        if quiet > max(1, width - tiles.AXIS) * BUCKET_SECONDS:
            ago = since(timedelta(seconds=quiet))
            return tiles.last_postings(self.latest, self.context.names, ago, width, height, self._today)
        return tiles.postings(rate, self._last_read, width, height)

    def _webhooks(self, figure: list[figures.EndpointHealth], width: int, height: int) -> TileContent:
        return tiles.webhooks(figure, width, height, self._today)

    def _events(self, rows: list[Record], width: int, height: int) -> TileContent:
        names = self.context.names
        if _PARTS["events"] not in self.context.session.missing_parts:
            return tiles.events(rows, names, width, height, self._today)
        postings = self.figures.get("postings")  # postings are read after the events, so they may be missing
        if postings is None or isinstance(postings, str):
            return sentence(postings or self._awaited(), width)
        return tiles.newest_postings(self.latest, names, width, height, self._today)

    @property
    def _today(self) -> str:
        """The date of the shown moment, in the format of the records."""
        return time.strftime("%Y-%m-%d", time.gmtime(self.context.session.server_time))
