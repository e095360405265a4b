"""The screen of the request log. The user can edit a request and send it again.

If the server has no request log, the screen shows the dashboard's own requests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import SequenceMatcher
from itertools import zip_longest
from textwrap import wrap
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ledger_client.errors import LedgerError
from ledger_tui.client.api import new_idempotency_key
from ledger_tui.client.records import Record
from ledger_tui.client.session import Mode
from ledger_tui.client.traffic import SentRequest
from ledger_tui.features.raw import in_program, json_text
from ledger_tui.formats.text import fit, literal
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.base import Place
from ledger_tui.resources.requests import as_exchange, fits, own_request, requests_resource
from ledger_tui.ui.dialogs import Dialog, confirm
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.keys import REQUESTS_KEYS, RESOURCE_KEYS
from ledger_tui.ui.view import Context

_METHODS = ("GET", "POST", "PATCH", "PUT", "DELETE")
_MASK = "•"


class RequestsView(ResourceView):
    """The screen of the request log. Copy-as-curl copies the selected request."""

    BINDINGS = [*REQUESTS_KEYS, *RESOURCE_KEYS]

    def __init__(self, _place: Place, context: Context) -> None:
        super().__init__(requests_resource(context.traffic.is_own), context)

    def stand_in_rows(self) -> list[Record]:
        traffic = self.context.traffic
        exchanges = [*traffic]
        first = traffic.count - len(exchanges)
        rows = [own_request(first + n, exchange) for n, exchange in enumerate(exchanges)][::-1]
        return [row for row in rows if fits(row, self.model.filters)]

    def shown_exchange(self) -> SentRequest:
        record = self.selected
        if record is None:
            return super().shown_exchange()
        return as_exchange(record, self.context.session.url)

    def action_edit_request(self) -> None:
        """Edit the selected request in $EDITOR, then offer to send it."""
        record = self.selected
        if record is None:
            return
        self.model.hold()
        problem, text = in_program(
            self.app, "EDITOR", request_text(record), self.context.key_variables, ".http"
        )
        if problem:
            self.notify(problem, severity="warning", markup=False)
        self.app.push_screen(ResendScreen(record, text, self.context))


class RequestTextError(ValueError):
    """The edited text is not a request; the message gives the reason."""


class EditedRequest(NamedTuple):
    """A request that the user has edited."""

    method: str
    path: str
    params: Mapping[str, str]
    body: Mapping[str, Any] | None


def request_text(record: Record) -> str:
    """Return a logged request as a text to edit: method and path, an empty line, and the body."""
    query = record.get("query")
    line = f"{record.get('method', 'GET')} {record.get('path', '/')}" + (f"?{query}" if query else "")
    body = record.get("request_body")
    return f"{line}\n\n{_pretty(body)}\n" if body else f"{line}\n"


def parse_request(text: str) -> EditedRequest:
    """Parse an edited text as a request. Raises RequestTextError."""
    head, _, rest = text.strip().partition("\n")
    method, _, target = head.strip().partition(" ")
    path, _, query = target.strip().partition("?")
    if method.upper() not in _METHODS or not path.startswith("/") or " " in path:
        raise RequestTextError("The first line must be a method and a path, such as POST /v1/transactions.")
    if _MASK in text:
        raise RequestTextError(
            "A value is masked (••••), because the log stores no secrets. Replace it, or remove it."
        )
    body = None
    if rest.strip():
        try:
            body = json.loads(rest)
        except (ValueError, RecursionError) as error:
            raise RequestTextError(f"The body is not JSON: {error}.") from None
        if not isinstance(body, dict):
            raise RequestTextError("The body must be a JSON object.")
    return EditedRequest(method.upper(), path, dict(parse_qsl(query, keep_blank_values=True)), body)


def answer_text(status: object, body: object) -> str:
    """Return an answer as a text to compare: the status, and the body or, for an error, only its code,
    message and param.
    """
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return f"{status}\n{body}"
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, dict):
        body = {"error": {name: error.get(name) for name in ("code", "message", "param")}}
    return f"{status}\n{json_text(body) if body is not None else ''}"


def side_by_side(before: str, after: str, width: int) -> list[Content]:
    """Return two texts side by side in `width` cells, with a mark between lines that differ.

    A line that is wider than its column goes on below, in the same column.
    """
    old, new = before.split("\n"), after.split("\n")
    half = max(10, (width - 3) // 2)
    lines = [Content.styled(fit("before", half) + "   now", "bold $muted")]
    for kind, i, j, k, m in SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        for n in range(max(j - i, m - k)):
            left = old[i + n] if i + n < j else ""
            right = new[k + n] if k + n < m else ""
            mark, style = (" ≠ ", "$warning") if kind != "equal" else ("   ", "")
            for one, other in zip_longest(_broken(left, half), _broken(right, half), fillvalue=""):
                lines.append(Content.styled(fit(one, half) + mark + fit(other, half), style))
                mark = "   "
    return lines


def _broken(line: str, width: int) -> list[str]:
    """Return a line as lines of at most `width` characters, all with the indentation of the first line."""
    indent = " " * min(len(line) - len(line.lstrip()), width // 2)
    return wrap(literal(line), width, subsequent_indent=indent) or [""]


def _pretty(body: object) -> str:
    try:
        return json_text(json.loads(str(body)))
    except (ValueError, RecursionError):  # the log cut the body off after 4 KB, or the body is not JSON
        return str(body)


class ResendScreen(Dialog[None]):
    """Shows an edited request, sends it after the user presses `y`, and compares the new answer with the
    logged answer. A POST gets a new idempotency key.

    A sent request must be edited again before it can be sent again.
    """

    is_question = True

    BINDINGS = [
        Binding("y", "send", "send", show=True),
        Binding("e", "edit", "edit again", show=True),
        Binding("escape,n,q", "dismiss", "close", show=True),
    ]

    def __init__(self, record: Record, text: str, context: Context) -> None:
        super().__init__("resend", "Send again", context.session.mode)
        self._record = record
        self._text = text
        self._view_context = context
        self._is_sent = False  # whether the text was sent as it is now

    def content(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(id="resend-request")
            yield Static(id="resend-answers")
        yield self.notes

    def on_mount(self) -> None:
        self._show()

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        if action == "send" and self._is_sent and not self.working:
            return False
        return None if action in ("send", "edit") and self.working else True

    @property
    def answers(self) -> str:
        if self.working:
            return ""
        if self._is_sent:
            return "The request was sent. e edits it to send it again."
        line = literal(self._text.strip().partition("\n")[0])
        return f"Press y to send {line}, n to cancel."

    def _show(self) -> None:
        self.query_one("#resend-request", Static).update(
            Content("\n".join(map(literal, self._text.split("\n"))))
        )
        self.note(self.answers)

    def action_edit(self) -> None:
        self._is_sent = False
        problem, self._text = in_program(
            self.app, "EDITOR", self._text, self._view_context.key_variables, ".http"
        )
        self._show()
        if problem:
            self.note(problem, problem=True)

    def action_send(self) -> None:
        """Send the request. Outside test mode the user first types the path, unless the request is a GET."""
        session = self._view_context.session
        try:
            request = parse_request(self._text)
        except RequestTextError as error:
            self.note(literal(error), problem=True)
            return
        if request.method == "GET" or session.mode is Mode.TEST:
            self._begin(request)
        else:
            text = f"Send {request.method} {literal(request.path)} again?"
            confirm(self.app, text, request.path, session.mode, lambda: self._begin(request), "path")

    def _begin(self, request: EditedRequest) -> None:
        self._is_sent = True
        self.begin("Sending…")
        self._send(request)

    @asks("resend")
    async def _send(self, request: EditedRequest) -> None:
        method, path, params, body = request
        key = new_idempotency_key() if method == "POST" else None
        try:
            answer = await self._view_context.api.call(
                method, path, params=params, body=body, idempotency_key=key
            )
        except LedgerError as error:
            problem = {"code": error.code, "message": error.message, "param": error.param}
            text = answer_text(error.status, {"error": problem}) if error.status else f"no answer: {error}"
            self.call_later(self._compare, text)
        else:
            self.call_later(self._compare, answer_text(answer.status, answer.body))

    @while_running
    def _compare(self, after: str) -> None:
        """Show the logged answer and the new answer side by side."""
        before = answer_text(self._record.get("status"), self._record.get("response_body"))
        answers = self.query_one("#resend-answers", Static)
        answers.update(Content("\n").join(side_by_side(before, after, answers.size.width)))
        self.rest(
            "≠ marks the differences; e edits the request again." if before != after else "The same answer."
        )
