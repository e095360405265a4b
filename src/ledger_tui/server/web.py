"""`ledger-tui --web`: the dashboard in a browser on this machine, served by textual-serve.

The printed link contains a token that works once: the server exchanges it for a session cookie. To stop DNS
rebinding, the server answers 403 if the Host header, or the Origin header if there is one, names another
server.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import re
import secrets
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from html import escape

from aiohttp import web
from textual_serve.server import Server

from ledger_tui.server.embedded import EmbeddedServer, ServerDied
from ledger_tui.settings.config import LAST_PLACE_VARIABLE, Options
from ledger_tui.ui.styles import background_of

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HOST = "127.0.0.1"
_STOP_SECONDS = 2.0
_FONT = (
    '<style>@font-face { font-family: "Roboto Mono";'
    ' src: url("/static/fonts/RobotoMono-VariableFont_wght.ttf"); }</style>'
)
# Focus the terminal as soon as it appears, so that no click is needed. When the dashboard has ended, focus
# the button that restarts it.
_FOCUS = """<link rel="icon" href="data:,">
<script>
  addEventListener("load", () => {
    const focus = () => {
      const closed = document.body.classList.contains("-closed");
      document.querySelector(closed ? ".closed-dialog button" : ".xterm-helper-textarea")?.focus();
    };
    new MutationObserver(focus).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    addEventListener("focus", focus);
  });
</script>"""


class AccessGuard:
    """Access control for every request to the server. `port` is 0 until the server listens."""

    def __init__(self) -> None:
        self.port = 0
        self._token: str | None = secrets.token_urlsafe(32)
        self._session: str | None = None

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def link(self) -> str:
        """The link with the token, which works once."""
        return f"{self.address}/?token={self._token}"

    @property
    def cookie(self) -> str:
        # The cookie's name contains the port, because a browser shares cookies between all ports of a host.
        return f"ledger-tui-{self.port}"

    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a GET or HEAD with `handler`, or with 403 if the request is not allowed.

        A request is allowed if it is meant for this server and carries the session's cookie. The request with
        the link's token starts the session and gets the cookie. A method other than GET and HEAD gets a 405.
        """
        if not self._is_for_this_server(request):
            return _forbidden("This address is not served here.")
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        if request.path == "/" and "token" in request.query:
            return self._start_session(request)
        session = request.cookies.get(self.cookie, "")
        if self._session is None or not hmac.compare_digest(session.encode(), self._session.encode()):
            return _forbidden("Open the link that ledger-tui printed; it works once.")
        return await handler(request)

    def _is_for_this_server(self, request: web.Request) -> bool:
        own = (f"{HOST}:{self.port}", f"localhost:{self.port}")
        host = request.headers.get("Host", "")
        if len(request.headers.getall("Host", [])) != 1 or host not in own:
            return False
        origin = request.headers.get("Origin")
        # A request without Origin is allowed, unless it opens a websocket. Browsers always send Origin when
        # they open a websocket.
        if origin is None:
            return request.headers.get("Upgrade") is None
        return origin == f"http://{host}"

    def _start_session(self, request: web.Request) -> web.StreamResponse:
        token = request.query["token"]
        if self._token is None or not hmac.compare_digest(token.encode(), self._token.encode()):
            return _forbidden("This link has already been used, or belongs to another run of ledger-tui.")
        self._token = None
        self._session = secrets.token_urlsafe(32)
        answer = web.Response(status=303, headers={"Location": "/"})
        answer.set_cookie(self.cookie, self._session, httponly=True, samesite="Strict", path="/")
        return answer


def _forbidden(sentence: str) -> web.Response:
    return web.Response(status=403, text=sentence + "\n")


class WebDashboard(Server):
    """The server of textual-serve, protected by an AccessGuard.

    Each page in a browser shows a dashboard that runs in a process of its own.
    """

    def __init__(self, command: Sequence[str], shows: str, background: str) -> None:
        super().__init__(shlex.join(command), host=HOST, title=f"Ledger · {shows}")
        self._background = background
        self.guard = AccessGuard()

    async def on_startup(self, app: web.Application) -> None:
        """Print no banner, unlike textual-serve, because `show_link` of `serve` prints the link."""

    async def open(self, port: int) -> web.AppRunner:
        """Listen on this port of the loopback interface; 0 means any free port. Raises OSError."""
        app = await self._make_app()

        @web.middleware
        async def check_access(request: web.Request, handler: Handler) -> web.StreamResponse:
            answer = await self.guard.check(request, handler)
            if isinstance(answer, web.Response) and answer.content_type == "text/html":
                page = self._with_own_font(answer.text or "")
                title = f'<head>\n<meta charset="utf-8">\n<title>{escape(self.title)}</title>\n{_FOCUS}'
                # The terminal has whole rows and columns, so it leaves a strip of the page visible. Give the
                # page the terminal's background.
                title += "<style>body, .shade, .intro, .xterm-viewport"
                title += f" {{ background: {self._background} !important; }}"
                title += " .intro { color: #808080 !important; } .intro svg { display: none; }</style>"
                answer.text = page.replace("<head>", title, 1).replace("<html>", '<html lang="en">', 1)
            return answer

        app.middlewares.append(check_access)
        app.on_response_prepare.append(self._add_headers)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_STOP_SECONDS)
        await runner.setup()
        await web.TCPSite(runner, HOST, port).start()
        self.guard.port = runner.addresses[0][1]
        self.port = self.guard.port
        self.public_url = self.guard.address
        return runner

    def _with_own_font(self, page: str) -> str:
        """Replace the page's link to a web font with a font file that textual-serve contains."""
        own = re.escape(self.public_url)
        return re.sub(rf'<link\b[^>]*\bhref="(?!{own}/)[a-z]*:?//[^>]*>', _FONT, page)

    async def _add_headers(self, _request: web.Request, response: web.StreamResponse) -> None:
        socket = f"ws://{HOST}:{self.guard.port}"
        response.headers.update(
            {
                # Forbid the page to load anything from another host, and other pages to embed it.
                "Content-Security-Policy": (
                    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline';"
                    f" img-src 'self' data:; font-src 'self' data:; connect-src 'self' {socket};"
                    " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
                ),
                "X-Content-Type-Options": "nosniff",
                "Referrer-Policy": "no-referrer",
                "Cache-Control": "no-store",
            }
        )


class CannotServe(Exception):
    """Serving is not possible; the message gives the reason, in one sentence."""


def serve(options: Options, port: int, show_link: Callable[[str], None]) -> None:
    """Serve dashboards with these options until Ctrl-C, SIGTERM or SIGHUP.

    Once the server listens, this function calls `show_link` with the link. If the options contain neither a
    URL nor a profile, start one ledger server for all dashboards, and stop it at the end. Raises CannotServe.
    """
    server = None
    url, key = options.url, options.key
    folder = tempfile.TemporaryDirectory()
    if options.tour_pace is None:
        os.environ[LAST_PLACE_VARIABLE] = os.path.join(folder.name, "last-place.json")
    try:
        if url is None and options.profile is None:
            server = EmbeddedServer(options.database, demo=options.demo)
            url, key = server.start()
        if key is not None:  # pass secrets in the environment, because other users can read a command line
            os.environ["LEDGER_API_KEY"] = key
        # The dashboards' processes get the `sys.path` of this process, to find the same packages, even if
        # `ledger-tui` runs from a one-file archive.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        where = ["--url", url] if url is not None else ["--profile", _name_of(options)]
        command = [
            sys.executable,
            "-m",
            "ledger_tui",
            *where,
            *(["--read-only"] if options.read_only else []),
            *(["--of-demo"] if options.demo else []),
            *(["--tour", "--pace", f"{options.tour_pace:g}"] if options.tour_pace is not None else []),
        ]
        own = "demo" if options.demo else "own ledger"
        shows = own if server is not None else where[1].partition("://")[2] or where[1]
        asyncio.run(
            _serve(WebDashboard(command, shows, background_of(options.config)), port, show_link, server)
        )
    except ServerDied as error:
        raise CannotServe(f"The server did not start: {error}") from None
    except OSError as error:
        raise CannotServe(f"Cannot listen on port {port}: {error.strerror}.") from None
    finally:
        if server is not None:
            server.stop()
        folder.cleanup()


def _name_of(options: Options) -> str:
    assert options.profile is not None
    return options.profile.name


async def _serve(
    dashboard: WebDashboard, port: int, show_link: Callable[[str], None], server: EmbeddedServer | None
) -> None:
    runner = await dashboard.open(port)
    end_event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Under nohup the process ignores SIGHUP, which the system sends when the terminal closes. Do not
        # change this.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, end_event.set)
    last_lines = _watch_for_end(server, end_event) if server is not None else []
    try:
        show_link(dashboard.guard.link)
        await end_event.wait()
    finally:
        await runner.cleanup()
    if last_lines:
        raise CannotServe(f"The server ended: {last_lines[0]}")


def _watch_for_end(server: EmbeddedServer, end_event: asyncio.Event) -> list[str]:
    """Return an empty list at once, and wait in a thread until the server ends by itself.

    Then the thread adds the last line of the server's output to this list, and sets `end_event`.
    """
    last_lines: list[str] = []
    loop = asyncio.get_running_loop()

    def wait() -> None:
        if (sentence := server.wait_for_end()) is not None:
            last_lines.append(sentence)
            with suppress(RuntimeError):  # the event loop is closed already
                loop.call_soon_threadsafe(end_event.set)

    # Do not use the event loop's executor: at its end, the loop would wait for this thread, which waits for
    # the server.
    threading.Thread(target=wait, name="server-end", daemon=True).start()
    return last_lines
