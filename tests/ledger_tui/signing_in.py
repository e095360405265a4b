"""A real server with a user and an app, and the steps of a person in the browser."""

import re
from pathlib import Path

import httpx

from ledger_tui.client.oauth import OAuthApp
from tests.commands import answer_of_command
from tests.ledger_tui.forked_servers import forked_server

EMAIL, PASSWORD = "ada@example.com", "correct horse battery staple"


class Ledger:
    """A real server with a user who can sign in and an app that may ask."""

    def __init__(self, folder: Path) -> None:
        database = folder / "ledger.db"
        self.server, (self.url, self.key) = forked_server(database)
        user = {"name": "Ada", "email": EMAIL, "role": "admin"}
        headers = {"Authorization": f"Bearer {self.key}"}
        made = httpx.post(f"{self.url}/api/users", json=user, headers=headers)
        assert made.status_code == 201, made.text
        answer_of_command(database, "users", "set-password", EMAIL, "--password-stdin", stdin=PASSWORD + "\n")
        link = ("--native", "--redirect-uri", "http://127.0.0.1/callback")
        app = answer_of_command(database, "apps", "create", "Dashboard", *link)
        self.app = OAuthApp(self.url, app["client_id"], "read:projects read:users")


def form_of(page: str, base: str) -> tuple[str, dict[str, str]]:
    """Return the first form of a page: its address and its hidden fields."""
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
    """Do as a person does: open the link, sign in, allow or deny, and be sent back."""
    page = await browser.get(link)
    where, fields = form_of(page.text, ledger.url)
    page = await browser.post(where, data={**fields, "email": EMAIL, "password": PASSWORD})
    where, fields = form_of(page.text, ledger.url)
    return await browser.post(where, data={**fields, "decision": decision})
