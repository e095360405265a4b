"""A real server with a user who can sign in and an app that may ask, and what a person does in a browser."""

import re
import subprocess
import sys
from pathlib import Path

import httpx

from ledger_tui.client.oauth import OAuthApp
from ledger_tui.embedded import EmbeddedServer

EMAIL, PASSWORD = "ada@example.com", "correct horse battery staple"


class Ledger:
    """A real server with a user who can sign in and an app that may ask."""

    def __init__(self, folder: Path) -> None:
        self._database = str(folder / "ledger.db")
        self.server = EmbeddedServer(self._database)
        self.url, self.key = self.server.start()
        user = {"name": "Ada", "email": EMAIL, "role": "admin"}
        headers = {"Authorization": f"Bearer {self.key}"}
        made = httpx.post(f"{self.url}/api/users", json=user, headers=headers)
        assert made.status_code == 201, made.text
        self._admin("users", "set-password", EMAIL, "--password-stdin", told=PASSWORD + "\n")
        told = self._admin(
            "apps", "create", "Dashboard", "--redirect-uri", "http://127.0.0.1/callback", "--json"
        )
        found = re.search(r"app_[0-9a-z]+", told)
        assert found is not None
        self.app = OAuthApp(self.url, found.group(), "read:projects read:users")

    def _admin(self, *arguments: str, told: str = "") -> str:
        command = [sys.executable, "-m", "ledger_engine", *arguments, "--database", self._database]
        return subprocess.run(command, input=told, capture_output=True, text=True, check=True).stdout


def form_of(page: str, base: str) -> tuple[str, dict[str, str]]:
    """The first form of a page: where it goes and its hidden fields."""
    action = re.search(r'<form[^>]*action="([^"]+)"', page)
    assert action is not None, page
    inputs = re.findall(r"<input\b[^>]*>", page)
    fields = {}
    for each in inputs:
        name, value = re.search(r'name="([^"]+)"', each), re.search(r'value="([^"]*)"', each)
        if name and 'type="hidden"' in each:
            fields[name[1]] = value[1].replace("&amp;", "&") if value else ""
    return base + action[1], fields


async def decide(browser: httpx.AsyncClient, ledger: Ledger, link: str, decision: str) -> httpx.Response:
    """What a person does: open the link, sign in, allow or not, be sent back."""
    page = await browser.get(link)
    where, fields = form_of(page.text, ledger.url)
    page = await browser.post(where, data={**fields, "email": EMAIL, "password": PASSWORD})
    where, fields = form_of(page.text, ledger.url)
    return await browser.post(where, data={**fields, "decision": decision})
