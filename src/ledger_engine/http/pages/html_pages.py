"""HTML pages, rendered from the templates in this package; all have the same security headers."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from quart import Response

_TEMPLATES = Path(__file__).with_name("templates")
_environment = Environment(
    loader=FileSystemLoader(_TEMPLATES),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
# No scripts, nothing from other servers, no framing, no caching, and no referrer to other sites.
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_POLICY = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'"


def page(template: str, status: int = 200, *, forms_lead_to: str = "'none'", **values: object) -> Response:
    """Return the page of a template.

    Its forms, and redirects that answer them, may only go to `forms_lead_to`.
    """
    return Response(
        _environment.get_template(template).render(values),
        status=status,
        content_type="text/html; charset=utf-8",
        headers=_guarded(forms_lead_to),
    )


def message(status: int, title: str, text: str, *, back: str | None = None) -> Response:
    """Return a page that says why it goes no further; `back` is the address to try again."""
    return page("message.html", status, title=title, text=text, back=back)


def redirect(location: str, status: int = 303) -> Response:
    """Redirect the browser, with 303 so that it does not send the form again (RFC 9700, 4.12)."""
    headers = {**_guarded("'none'"), "Location": location}
    return Response(HTTPStatus(status).phrase, status=status, content_type="text/plain", headers=headers)


@cache
def style() -> str:
    """Return the style sheet of all pages."""
    return (_TEMPLATES / "style.css").read_text(encoding="utf-8")


def _guarded(forms_lead_to: str) -> dict[str, str]:
    return {**_HEADERS, "Content-Security-Policy": f"{_POLICY}; form-action {forms_lead_to}"}
