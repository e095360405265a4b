"""Signing in and deciding, in a real browser (docs/decisions.md#oauth)."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.browser.conftest import STATE, VERIFIER, Callback, Person
from tests.ledger_engine.access.oauth.serving import EMAIL, PASSWORD, Serving

SHIFT = "\ue008"  # WebDriver, 17.4.2
SIZES = {"desk": (1000, 800), "phone": (360, 740), "small phone": (320, 568)}


def test_a_user_lets_an_app_in(person: Person, callback: Callback, serving: Serving) -> None:
    person.comes()
    person.signs_in(EMAIL, PASSWORD)
    assert "Allow Café Planner access?" in person.sees()
    assert EMAIL in person.sees()
    person.presses("[value=allow]")
    assert person.is_at(callback.redirect_uri)
    assert "Welcome back" in person.sees()
    back = callback.query
    assert (back["state"], back["iss"]) == (STATE, serving.url)
    answer = httpx.post(f"{serving.url}/oauth/token", json={"code": back["code"], "code_verifier": VERIFIER})
    assert answer.status_code == 200
    headers = {"Authorization": f"Bearer {answer.json()['access_token']}"}
    assert httpx.get(f"{serving.url}/v1/accounts", headers=headers).status_code == 200


def test_a_scope_beyond_the_users_role_is_refused_right_after_the_sign_in(
    person: Person, callback: Callback
) -> None:
    """The browser follows a form's redirects as far as the page's policy lets it."""
    person.comes(scope="admin:billing")
    person.signs_in(EMAIL, PASSWORD)
    assert person.is_at(callback.redirect_uri)
    assert callback.query["error"] == "invalid_scope"


def test_it_works_without_scripts_and_with_the_keyboard_alone_and_the_focus_is_seen(
    person: Person, callback: Callback
) -> None:
    person.chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    person.comes()
    assert person.focused().get_attribute("name") == "email"
    assert_focus_is_seen(person)
    person.focused().send_keys(EMAIL + "\t")
    assert person.focused().get_attribute("name") == "password"
    assert_focus_is_seen(person)
    person.focused().send_keys("\t")
    assert person.focused().get_attribute("class") == "yes"
    assert_focus_is_seen(person)
    person.focused().send_keys(SHIFT + "\t")
    person.uses(PASSWORD + "\n")
    person.one("body").send_keys("\t")
    assert person.focused().get_attribute("value") == "deny"
    person.focused().send_keys("\t")
    assert person.focused().get_attribute("value") == "allow"
    person.uses("\n")
    assert "code" in callback.query


def assert_focus_is_seen(person: Person) -> None:
    assert person.chromium.execute_script(OUTLINE, person.focused()) == "solid 3px"


def test_somebody_else_can_decide_and_does_not_let_the_app_in(person: Person, callback: Callback) -> None:
    person.comes()
    person.signs_in(EMAIL, PASSWORD)
    person.presses(".who button")
    assert person.one("h1").text == "Sign in"
    person.comes()
    assert person.one("h1").text == "Sign in"
    person.signs_in(EMAIL, PASSWORD)
    person.presses("[value=deny]")
    assert callback.query["error"] == "access_denied"
    assert "code" not in callback.query


def test_nothing_comes_from_elsewhere_or_is_refused_by_the_policy_and_scripts_do_not_see_the_cookie(
    person: Person, serving: Serving
) -> None:
    person.comes()
    [before] = person.chromium.get_cookies()
    person.signs_in(EMAIL, PASSWORD)
    [after] = person.chromium.get_cookies()
    assert before["value"] != after["value"]
    assert (after["httpOnly"], after["sameSite"]) == (True, "Lax")
    assert person.runs("document.cookie") == ""
    loaded = person.runs("performance.getEntriesByType('resource').map(entry => entry.name)")
    assert loaded == [f"{serving.url}/oauth/style.css"]
    assert person.runs("document.scripts.length") == 0
    assert [entry["message"] for entry in person.chromium.get_log("browser")] == []


def test_two_ledgers_on_one_machine_do_not_sign_each_others_users_out(
    person: Person, callback: Callback, tmp_path: Path
) -> None:
    other = Serving(tmp_path)
    other.start()
    try:
        other.make_user()
        app = other.cli("apps", "create", "Till", "--native", "--redirect-uri", "http://127.0.0.1/callback")
        there = Person(person.chromium, other, {**person.params, "client_id": app["client_id"]})
        person.comes()
        person.signs_in(EMAIL, PASSWORD)
        there.comes()
        there.signs_in(EMAIL, PASSWORD)
        assert "Allow Till access?" in there.sees()
        person.comes()
        assert "Allow Café Planner access?" in person.sees()
    finally:
        other.stop()


def test_two_windows_at_once_both_get_to_the_end(person: Person, callback: Callback) -> None:
    first = person.chromium.current_window_handle
    person.comes()
    person.chromium.switch_to.new_window("tab")
    person.comes(state="second")
    person.signs_in(EMAIL, PASSWORD)
    person.presses("[value=allow]")
    assert callback.query["state"] == "second"
    person.chromium.close()
    person.chromium.switch_to.window(first)
    # The page in the first window is from before the sign-in: it is refused, and leads on.
    person.signs_in(EMAIL, PASSWORD)
    assert "out of date" in person.sees()
    person.presses("a.yes")
    person.presses("[value=allow]")
    assert callback.query["state"] == STATE


def test_an_unknown_app_stays_on_an_error_page(person: Person, callback: Callback, serving: Serving) -> None:
    person.comes(client_id="app_none")
    assert person.is_at(f"{serving.url}/oauth/authorize")
    assert "cannot continue" in person.sees()
    person.comes(redirect_uri="http://127.0.0.1:1/elsewhere")
    assert person.is_at(f"{serving.url}/oauth/authorize")
    assert callback.seen == []


# Other sites


@pytest.fixture
def evil(person: Person, tmp_path: Path) -> Any:
    """Open a page of somebody else's."""

    def show(text: str) -> None:
        page = tmp_path / "evil.html"
        page.write_text(f"<!doctype html><title>Evil</title>{text}", encoding="utf-8")
        person.chromium.get(page.as_uri())

    return show


def test_another_site_neither_shows_a_page_in_a_frame_nor_forges_a_consent(
    person: Person, evil: Any, callback: Callback, serving: Serving
) -> None:
    person.comes()
    assert_not_shown_in_a_frame(person, evil)
    person.comes()
    person.signs_in(EMAIL, PASSWORD)
    assert_not_shown_in_a_frame(person, evil)
    inputs = "".join(
        f'<input type="hidden" name="{name}" value="{value.replace(chr(34), "&quot;")}">'
        for name, value in {**person.params, "decision": "allow", "token": "0" * 64}.items()
    )
    evil(f'<form method="post" action="{serving.url}/oauth/consent">{inputs}<button>Win</button></form>')
    person.presses("button")
    assert "out of date" in person.sees()
    assert callback.seen == []


def assert_not_shown_in_a_frame(person: Person, evil: Any) -> None:
    """Have another site show the present page in a frame."""
    url = person.chromium.current_url.replace('"', "%22").replace("&", "&amp;")
    evil(f'<iframe src="{url}" width="600" height="600"></iframe>')
    person.chromium.switch_to.frame(0)
    assert "Café Planner" not in person.one("html").text
    assert person.every("form") == []
    person.chromium.switch_to.default_content()
    assert any("frame-ancestors" in entry["message"] for entry in person.chromium.get_log("browser"))


# How it looks


def test_a_wrong_password_is_reported_and_every_page_fits_every_window_and_can_be_read(
    person: Person,
) -> None:
    person.comes()
    looks_good(person)
    person.signs_in(EMAIL, "not my password")
    alert = person.one("[role=alert]")
    assert "email or the password is wrong" in alert.text
    assert person.one("[name=email]").get_attribute("value") == EMAIL
    password = person.one("[name=password]")
    assert password.get_attribute("value") == ""
    assert password.get_attribute("aria-describedby") == alert.get_attribute("id")
    assert person.focused() == password
    looks_good(person)
    password.send_keys(PASSWORD)
    person.presses("button.yes")
    assert "Allow Café Planner access?" in person.sees()
    looks_good(person)
    person.comes(client_id="app_none_with_a_name_that_goes_on_and_on_and_on")
    looks_good(person)


def looks_good(person: Person) -> None:
    for size, dark in itertools.product(SIZES, (False, True)):
        person.has(*SIZES[size], dark=dark)
        page = person.chromium.execute_script(PAGE)
        assert page["fits"], size
        assert (luminance(colour(page["behind"])) < 0.2) is dark
        for text, front, back in page["texts"]:
            assert contrast(colour(front), colour(back)) >= 4.5, f"{text!r}: {front} on {back}"
        assert all(height >= 40 for height in page["buttons"]), (size, page["buttons"])
        assert all(page["labels"]), size
        assert (page["headings"], page["language"]) == (1, "en")
        assert page["title"]


# The colour of an element's text and of what lies behind it.
PAGE = """
    const every = (selector) => [...document.querySelectorAll(selector)];
    function behind(element) {
        const own = getComputedStyle(element).backgroundColor;
        return own === "rgba(0, 0, 0, 0)" ? behind(element.parentElement) : own;
    }
    return {
        fits: document.documentElement.scrollWidth <= window.innerWidth,
        behind: getComputedStyle(document.body).backgroundColor,
        texts: every("h1, p, label, button, li strong, li span, a, .mode")
            .filter((element) => element.innerText)
            .map((element) => [element.innerText, getComputedStyle(element).color, behind(element)]),
        buttons: every("button").map((button) => button.getBoundingClientRect().height),
        labels: every("input:not([type=hidden])")
            .map((field) => document.querySelector(`label[for=${field.id}]`).checkVisibility()),
        headings: every("h1").length,
        language: document.documentElement.lang,
        title: document.title,
    };
"""
OUTLINE = """
    const style = getComputedStyle(arguments[0]);
    return style.outlineStyle + " " + style.outlineWidth;
"""
Colour = tuple[int, ...]


def colour(text: str) -> Colour:
    found = re.fullmatch(r"rgb\((\d+), (\d+), (\d+)\)", text)
    assert found, text
    return tuple(int(part) for part in found.groups())


def luminance(colour: Colour) -> float:
    """WCAG 2, relative luminance."""
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(front: Colour, back: Colour) -> float:
    """WCAG 2, contrast ratio; text needs 4.5 (AA)."""
    lighter, darker = sorted((luminance(front), luminance(back)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)
