"""A real Chromium without a window, a real server, and an app on this machine that users return to."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from tests.ledger_engine.access.oauth.serving import Serving
from tests.marking import mark_folder

HOW = "on Debian and Ubuntu: apt install chromium chromium-driver"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # What no test needs, a twelfth of the CPU time: a process for drawing, a spare one for the next
    # page, one for each site, pages kept for going back, extensions, and reports of crashes.
    "--in-process-gpu",
    "--disable-gpu-compositing",
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
    "--disable-features=BackForwardCache,SpareRendererForSitePerProcess,IsolateOrigins,site-per-process,"
    "Translate,OptimizationHints,MediaRouter,PaintHolding",
    "--disable-extensions",
    "--disable-default-apps",
    "--disable-breakpad",
)
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"  # RFC 7636, appendix B
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
FILL = "arguments[0].forEach((field, at) => { field.value = arguments[1][at]; });"
STATE = "xyz & <b>'\"</b>"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_folder(Path(__file__).parent, items, "browser")


@pytest.fixture(scope="session")
def shop() -> Iterator[int]:
    """Serve a web page of another origin; yield its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>Shop</title>")

        def log_message(self, *arguments: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory, shop: int) -> Iterator[Serving]:
    running = Serving(tmp_path_factory.mktemp("browser"))
    running.start(
        *("--auth-rate-limit", "1000000/1000000", "--trusted-proxies", "1"),
        *("--cors-origin", f"http://127.0.0.1:{shop}"),
    )
    running.make_user()
    running.cli("projects", "create", "Bakery")
    yield running
    running.stop()


@dataclass
class Callback:
    """The app's redirect address, which users return to."""

    server: ThreadingHTTPServer
    seen: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.server.server_address[1]

    @property
    def redirect_uri(self) -> str:
        return f"http://127.0.0.1:{self.port}/callback"

    @property
    def query(self) -> dict[str, str]:
        """The parameters that the last user returned with."""
        return dict(parse_qsl(urlsplit(self.seen[-1]).query))


@pytest.fixture
def callback() -> Iterator[Callback]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/callback"):
                seen.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>Back</title>Welcome back")

        def log_message(self, *arguments: Any) -> None:
            """Log nothing."""

    seen: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield Callback(server, seen)
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start one browser for all tests; without it they are skipped, with a hint on how to install it."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip(f"these tests drive a real browser, which is missing here; {HOW}")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is missing; make test installs it")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    browser.set_page_load_timeout(60)
    yield browser
    browser.quit()


class Person:
    """A user at the browser, who follows an app's link."""

    def __init__(self, chromium: Any, serving: Serving, params: dict[str, str]) -> None:
        self.chromium = chromium
        self.serving = serving
        self.params = params
        self._size: tuple[int, int] | None = None
        self._dark: bool | None = None

    def comes(self, **changed: str) -> None:
        self.chromium.get(f"{self.serving.url}/oauth/authorize?{urlencode({**self.params, **changed})}")

    def one(self, selector: str) -> Any:
        """Return the first element that matches."""
        return self.chromium.find_element("css selector", selector)

    def every(self, selector: str) -> list[Any]:
        found: list[Any] = self.chromium.find_elements("css selector", selector)
        return found

    def signs_in(self, email: str, password: str) -> None:
        """Fill in the form at once; one test types it key by key."""
        fields = [self.one("[name=email]"), self.one("[name=password]")]
        self.chromium.execute_script(FILL, fields, [email, password])
        self.presses("button.yes")

    def presses(self, selector: str) -> None:
        """Press the element, and wait for the page that follows."""
        before = self.one("html")
        self.one(selector).click()
        self._wait_for(lambda: before != self.one("html"))

    def uses(self, keys: str) -> None:
        """Type on the keyboard, wherever the focus is, and wait for the page that follows."""
        before = self.one("html")
        self.focused().send_keys(keys)
        self._wait_for(lambda: before != self.one("html"))

    def focused(self) -> Any:
        """Return the focused element; a page sets the focus a moment after it has loaded."""
        self._wait_for(lambda: self.chromium.switch_to.active_element.tag_name != "body")
        return self.chromium.switch_to.active_element

    def sees(self) -> str:
        text: str = self.one("body").text
        return text

    def is_at(self, start: str) -> bool:
        url: str = self.chromium.current_url
        return url.startswith(start)

    def has(self, width: int, height: int, *, dark: bool = False) -> None:
        """Use a window of this size, and a light or dark colour scheme."""
        command = self.chromium.execute_cdp_cmd
        if self._size != (width, height):
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
            command("Emulation.setDeviceMetricsOverride", size)
            self._size = (width, height)
        if self._dark is not dark:
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            command("Emulation.setEmulatedMedia", {"features": [scheme]})
            self._dark = dark

    def runs(self, script: str) -> Any:
        """Return the value of JavaScript in the page, to which the page's policy does not apply."""
        return self.chromium.execute_script(f"return {script}")

    def _wait_for(self, condition: Any) -> None:
        from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
        from selenium.webdriver.support.ui import WebDriverWait

        ignored = (StaleElementReferenceException, WebDriverException)
        WebDriverWait(self.chromium, 60, 0.02, ignored).until(lambda _: condition())


addresses = itertools.count(1)


@pytest.fixture
def person(chromium: Any, serving: Serving, callback: Callback) -> Iterator[Person]:
    """Return a new user, with the link of a new app."""
    app = serving.cli(
        "apps", "create", "Café Planner", "--native", "--redirect-uri", "http://127.0.0.1/callback"
    )
    chromium.execute_cdp_cmd("Network.clearBrowserCookies", {})
    # The pages have a rate limit per client address, so each test has its own, as if behind a proxy.
    chromium.execute_cdp_cmd("Network.enable", {})
    forwarded = {"X-Forwarded-For": f"192.0.2.{next(addresses)}"}
    chromium.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": forwarded})
    chromium.get_log("browser")
    person = Person(
        chromium,
        serving,
        {
            "client_id": app["client_id"],
            "redirect_uri": callback.redirect_uri,
            "scope": "read:projects write:projects",
            "state": STATE,
            "code_challenge": CHALLENGE,
        },
    )
    person.has(1000, 800)
    yield person
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
