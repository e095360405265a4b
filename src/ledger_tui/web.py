"""`ledger-tui --web`: the dashboard in a browser on this machine, by textual-serve, for who holds the link.

The link carries a token that is good once: it is spent on a session cookie. Every request must come to
this very address (a name rebound to it is another Host) and from a page of it (Origin), or it is 403.
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
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from aiohttp import web
from textual_serve.server import Server

from ledger_tui.embedded import EmbeddedServer, ServerDied
from ledger_tui.options import Options

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HOST = "127.0.0.1"
_STOP_SECONDS = 2.0
_FONT = (
    '<style>@font-face { font-family: "Roboto Mono";'
    ' src: url("/static/fonts/RobotoMono-VariableFont_wght.ttf"); }</style>'
)


class AccessGuard:
    """Who may come in. `port` is known once it listens."""

    def __init__(self) -> None:
        self.port = 0
        self._token: str | None = secrets.token_urlsafe(32)
        self._session: str | None = None

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def link(self) -> str:
        """What to open, once."""
        return f"{self.address}/?token={self._token}"

    @property
    def cookie(self) -> str:
        # A browser keeps one jar for all ports of a host.
        return f"ledger-tui-{self.port}"

    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The way every request takes."""
        if not self._is_for_this_server(request):
            return _no("This address is not served here.")
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        if request.path == "/" and "token" in request.query:
            return self._start_session(request)
        session = request.cookies.get(self.cookie, "")
        if self._session is None or not hmac.compare_digest(session.encode(), self._session.encode()):
            return _no("Open the link that ledger-tui printed; it works once.")
        return await handler(request)

    def _is_for_this_server(self, request: web.Request) -> bool:
        own = (f"{HOST}:{self.port}", f"localhost:{self.port}")
        host = request.headers.get("Host", "")
        if len(request.headers.getall("Host", [])) != 1 or host not in own:
            return False
        origin = request.headers.get("Origin")
        if origin is None:  # a browser always names it for a websocket
            return request.headers.get("Upgrade") is None
        return origin == f"http://{host}"

    def _start_session(self, request: web.Request) -> web.StreamResponse:
        given = request.query["token"]
        if self._token is None or not hmac.compare_digest(given.encode(), self._token.encode()):
            return _no("This link has already been used, or belongs to another run of ledger-tui.")
        self._token = None
        self._session = secrets.token_urlsafe(32)
        answer = web.Response(status=303, headers={"Location": "/"})
        answer.set_cookie(self.cookie, self._session, httponly=True, samesite="Strict", path="/")
        return answer


def _no(sentence: str) -> web.Response:
    return web.Response(status=403, text=sentence + "\n")


class WebDashboard(Server):
    """textual-serve's server behind the door. Each page opened is a dashboard in a process of its own."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(shlex.join(command), host=HOST, title="Ledger")
        self.guard = AccessGuard()

    async def on_startup(self, app: web.Application) -> None:
        """No banner: the link is all there is to say."""

    async def open(self, port: int) -> web.AppRunner:
        """Listen on a port of the loopback, 0 for a free one. Raises OSError."""
        app = await self._make_app()

        @web.middleware
        async def check_access(request: web.Request, handler: Handler) -> web.StreamResponse:
            answer = await self.guard.check(request, handler)
            if isinstance(answer, web.Response) and answer.content_type == "text/html":
                answer.text = self._without_what_is_elsewhere(answer.text or "")
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

    def _without_what_is_elsewhere(self, page: str) -> str:
        """textual-serve's page links a font of the web, which it also brings along."""
        own = re.escape(self.public_url)
        return re.sub(rf'<link\b[^>]*\bhref="(?!{own}/)[a-z]*:?//[^>]*>', _FONT, page)

    async def _add_headers(self, _request: web.Request, response: web.StreamResponse) -> None:
        socket = f"ws://{HOST}:{self.guard.port}"
        response.headers.update(
            {
                # Nothing is loaded from elsewhere, nothing frames it.
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
    """The message says why, in one sentence."""


def serve(options: Options, port: int, show_link: Callable[[str], None]) -> None:
    """Serve dashboards that were chosen so until Ctrl-C or SIGTERM; `tell` is given the link.

    A server of our own is started once for all of them, and all end with it. Raises CannotServe.
    """
    server = None
    url, key = options.url, options.key
    try:
        if url is None and options.profile is None:
            server = EmbeddedServer(options.database, demo=options.demo)
            url, key = server.start()
        if key is not None:  # in their environment: a command line is there for everybody to see
            os.environ["LEDGER_API_KEY"] = key
        # sys.path goes along, so that they are found where we were: also inside a one-file archive.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        where = ["--url", url] if url is not None else ["--profile", _name_of(options)]
        command = [
            sys.executable,
            "-m",
            "ledger_tui",
            *where,
            *(["--read-only"] if options.read_only else []),
        ]
        asyncio.run(_serve(command, port, show_link, server))
    except ServerDied as error:
        raise CannotServe(f"The server did not start: {error}") from None
    except OSError as error:
        raise CannotServe(f"Cannot listen on port {port}: {error.strerror}.") from None
    finally:
        if server is not None:
            server.stop()


def _name_of(options: Options) -> str:
    assert options.profile is not None
    return options.profile.name


async def _serve(
    command: Sequence[str], port: int, show_link: Callable[[str], None], server: EmbeddedServer | None
) -> None:
    dashboard = WebDashboard(command)
    runner = await dashboard.open(port)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        if sys.platform != "win32":  # there Ctrl-C ends the loop itself
            loop.add_signal_handler(number, ended.set)
    last_words = _watch(server, ended) if server is not None else []
    try:
        show_link(dashboard.guard.link)
        await ended.wait()
    finally:
        await runner.cleanup()
    if last_words:
        raise CannotServe(f"The server ended: {last_words[0]}")


def _watch(server: EmbeddedServer, ended: asyncio.Event) -> list[str]:
    """Set `ended` when the server ends by itself; its last words come into what is given back."""
    last_words: list[str] = []
    loop = asyncio.get_running_loop()

    def wait() -> None:
        if (sentence := server.wait_for_end()) is not None:
            last_words.append(sentence)
            with suppress(RuntimeError):  # we ended meanwhile, and the loop is closed
                loop.call_soon_threadsafe(ended.set)

    # A thread of the loop's own would be waited for at the end, and this one waits for the server.
    threading.Thread(target=wait, name="server-end", daemon=True).start()
    return last_words
