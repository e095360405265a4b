"""The dashboard in a browser, over real HTTP and a real websocket, is open only to the first user of the
link.
"""

import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import httpx
import pytest

from tests.ledger_tui.contract_server import KEY, ContractServer
from tests.ledger_tui.driving import PATIENCE_SECONDS, until

pytestmark = pytest.mark.process


ENDS = itertools.cycle((signal.SIGHUP, signal.SIGTERM))  # a closed terminal, and kill


@contextmanager
def dashboard_in_browsers(server: ContractServer, folder: Path) -> Iterator[str]:
    """Run a real `ledger-tui --web` and yield the link it prints."""
    own = {"LEDGER_API_KEY": KEY, "LEDGER_TUI_CONFIG": str(folder / "config.toml"), "TMPDIR": str(folder)}
    environment = {**os.environ, **own}
    command = [sys.executable, "-m", "ledger_tui", "--url", server.url, "--web"]
    kept = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it would be ignored, there too
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        signal.signal(signal.SIGHUP, kept)
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline())
            assert found is not None
            yield found.group()
        finally:
            process.send_signal(next(ENDS))
        assert process.wait(PATIENCE_SECONDS) == 0


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Run one for all tests that need no new link; yield its address, and the cookie of its only session."""
    with ContractServer() as server:
        server.add_account("Kuwait branch", "KWD", 1500)
        with dashboard_in_browsers(server, tmp_path_factory.mktemp("web")) as link:
            answer = httpx.get(link)
            assert answer.status_code == 303
            yield root(link), answer.headers["Set-Cookie"].partition(";")[0]


@pytest.fixture
async def stranger() -> AsyncIterator[aiohttp.ClientSession]:
    """A browser without a session."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield session


@pytest.fixture
async def browser(address: tuple[str, str]) -> AsyncIterator[aiohttp.ClientSession]:
    """The browser that has the session."""
    async with aiohttp.ClientSession(headers={"Cookie": address[1]}) as session:
        yield session


def root(link: str) -> str:
    return link.partition("/?")[0]


async def status(browser: aiohttp.ClientSession, url: str, **headers: str) -> int:
    async with browser.get(url, headers=headers, allow_redirects=False) as answer:
        return answer.status


async def test_the_link_is_good_once_and_becomes_a_session(
    server: ContractServer, tmp_path: Path, stranger: aiohttp.ClientSession
) -> None:
    with dashboard_in_browsers(server, tmp_path) as link:
        assert await status(stranger, root(link)) == 403
        assert await status(stranger, root(link) + "/?token=guess") == 403
        async with stranger.get(link, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        async with stranger.get(root(link)) as answer:
            assert answer.status == 200
            page = await answer.text()
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert not re.findall(rf"""(?:href|src)\s*=\s*["'](?!{re.escape(root(link))}/|data:)""", page)
        assert "googleapis" not in page
        assert "<title>Ledger · 127.0.0.1:" in page
        assert ".focus()" in page  # without a click
        assert "css/xterm.css" in page
        fonts = re.findall(r'url\("(/static/fonts/[^"]+)"\)', page)
        assert [await status(stranger, root(link) + font) for font in fonts] == [200]
        assert KEY not in page
        assert "token=" not in page
        async with aiohttp.ClientSession() as other:
            assert await status(other, link) == 403


async def test_the_dashboard_is_drawn_and_driven_through_the_websocket(
    address: tuple[str, str], browser: aiohttp.ClientSession
) -> None:
    socket = address[0].replace("http:", "ws:") + "/ws?width=100&height=30"
    async with browser.ws_connect(socket, headers={"Origin": address[0]}, timeout=PING) as websocket:
        await sees(websocket, "Kuwait branch")
        await websocket.send_json(["stdin", "2"])
        await sees(websocket, "No transactions here.")


async def test_a_page_that_is_loaded_again_is_where_it_was(
    server: ContractServer, tmp_path: Path, stranger: aiohttp.ClientSession
) -> None:
    with dashboard_in_browsers(server, tmp_path) as link:
        await status(stranger, link)
        socket = root(link).replace("http:", "ws:") + "/ws?width=100&height=30"
        origin = {"Origin": root(link)}
        async with stranger.ws_connect(socket, headers=origin, timeout=PING) as websocket:
            await sees(websocket, "Accounts")
            await websocket.send_json(["stdin", "2"])
            await sees(websocket, "No transactions here.")
            await until(
                lambda: any("transactions" in file.read_text() for file in tmp_path.glob("*/last-place.json"))
            )
        async with stranger.ws_connect(socket, headers=origin, timeout=PING) as websocket:
            await sees(websocket, "No transactions here.")
    assert not [*tmp_path.glob("*/last-place.json")]


PING = aiohttp.ClientWSTimeout(ws_receive=PATIENCE_SECONDS)


async def sees(websocket: aiohttp.ClientWebSocketResponse, text: str) -> None:
    seen = b""
    while text.encode() not in seen:
        message = await websocket.receive(PATIENCE_SECONDS)
        assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), seen
        seen += message.data if isinstance(message.data, bytes) else message.data.encode()


async def test_without_a_session_everything_is_403(
    address: tuple[str, str], stranger: aiohttp.ClientSession
) -> None:
    for path in ("/", "/ws", "/static/js/textual.js", "/download/x"):
        assert await status(stranger, address[0] + path) == 403, path


async def test_a_rebound_name_and_another_sites_page_are_403(
    address: tuple[str, str], browser: aiohttp.ClientSession
) -> None:
    port = address[0].rpartition(":")[2]
    assert await status(browser, address[0]) == 200
    for headers in (
        {"Host": f"evil.example:{port}"},
        {"Host": "127.0.0.1"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://localhost:{port}"},
        {"Origin": f"http://127.0.0.1:{int(port) + 1}"},
    ):
        assert await status(browser, address[0], **headers) == 403, headers
    socket = address[0].replace("http:", "ws:") + "/ws"
    for headers in ({"Origin": "https://evil.example"}, {}):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await browser.ws_connect(socket, headers=headers)
        assert refused.value.status == 403


async def test_nothing_can_be_posted(address: tuple[str, str], browser: aiohttp.ClientSession) -> None:
    async with browser.post(address[0]) as answer:
        assert answer.status == 405


def test_a_port_that_is_taken_is_one_line(server: ContractServer) -> None:
    command = [sys.executable, "-m", "ledger_tui", "--url", server.url, "--web", "--port", str(server.port)]
    environment = {**os.environ, "LEDGER_API_KEY": KEY}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: Cannot listen on port {server.port}: ")
    assert len(done.stderr.splitlines()) == 1


# Replaces the server: it prints an address, and ends when the test ends it.
MORTAL = """
import json, os
print(json.dumps({"url": "http://127.0.0.1:9", "key": "sk_test_x"}), flush=True)
open(os.environ["MORTAL_END"]).read()
"""


def test_the_end_of_its_own_server_is_one_line_and_ends_it(tmp_path: Path) -> None:
    (tmp_path / "ledger_engine").mkdir()
    (tmp_path / "ledger_engine" / "__main__.py").write_text(MORTAL, encoding="utf-8")
    (tmp_path / "ledger_engine" / "__init__.py").touch()
    end = tmp_path / "end"
    os.mkfifo(end)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)]),
        "LEDGER_TUI_CONFIG": str(tmp_path / "config.toml"),
        "MORTAL_END": str(end),
    }
    command, pipe = [sys.executable, "-m", "ledger_tui", "--web"], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            assert "Open http://" in process.stdout.readline()
            end.write_text("now", encoding="utf-8")
            _told, errors = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 1
    assert errors.startswith("Error: The server ended: ")
    assert len(errors.splitlines()) == 1
