"""Write docs/errors.md, the catalogue of errors, from the code: `python -m tools.error_page`.

Statuses, types, codes and the form of the bodies come from `http/errors.py`. The messages come from the
places in the source that raise the errors. This file contains the meaning of each code to a caller.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import ledger_engine
from ledger_engine.core.errors import DuplicateIdempotencyKey, InvalidRequest, NotFound, OAuthRefusal
from ledger_engine.http import bodies
from ledger_engine.http.errors import CODES, OAUTH_CODES, RateLimited, render

PAGE = Path(__file__).resolve().parents[1] / "docs" / "errors.md"
SOURCE = Path(ledger_engine.__file__).resolve().parent
# The packages that a request can reach. Commands raise the same errors with other messages.
PACKAGES = ("core", "access", "store", "events", "ledger", "log", "sandbox", "http")
# Classes of errors that always have the same code. The source raises them with a message only.
_BY_CLASS = {
    "ExpiredCredential": "expired_credential",
    "BodyTimeout": "invalid_value",
    "PreconditionFailed": "precondition_failed",
    # Errors of the connection (`http/wire/`), as `from_wire` translates them.
    "BadRequest": "invalid_value",
    "TargetTooLong": "uri_too_long",
    "HeadTooLarge": "headers_too_large",
}
UNKNOWN = "…"

# The meaning of each code, and the caller's next step.
MEANINGS: dict[str, str] = {
    "missing_field": "A required field or parameter is absent. Send what `param` names.",
    "unknown_field": "The operation takes no such field or parameter. Check the spelling: the server ignores"
    " nothing.",
    "invalid_value": "A value breaks a rule. The message names the rule, `param` the field.",
    "invalid_json": "The body is not a JSON object in the [strict sense](conventions.md#requests). The"
    " message names the place.",
    "invalid_cursor": "The cursor was never the id of an object of this list. Begin the list again.",
    "unsupported_content_type": "Send JSON: `Content-Type: application/json`, or no such header.",
    "currency_mismatch": "The two accounts of a transfer have different currencies.",
    "insufficient_funds": "The debit would take the account below zero, and the project forbids this.",
    "balance_out_of_range": "The balance would be beyond ±(2^53 − 1). Some clients cannot hold it.",
    "unsupported_grant_type": "`POST /v1/auth/token` knows two grant types.",
    "header_conflict": "A header occurs twice, or two headers contradict each other. A proxy may have added"
    " a header.",
    "missing_credential": "The request has no `Authorization` header.",
    "invalid_credential": "The key or token is unknown or badly written, or a refresh token was used before."
    " Check that you copied the whole key, and that it is a key of this server.",
    "expired_credential": "An access token is valid for an hour. Refresh it, or get a token with the key.",
    "revoked_credential": "Somebody revoked the key, or archived its project. Get a new key.",
    "missing_scope": "The credential is restricted, and lacks the scope that the message names.",
    "missing_role": "The credential's role is too low. The message names the necessary role.",
    "missing_live_key": "The project has live keys, so this request needs a live key.",
    "quota_exceeded": "A limit of the plan is reached, or too many listeners follow the event stream. Take a"
    " larger plan, delete webhook endpoints that you do not need, or close a stream.",
    "not_found": "There is no such path, or no such object in the credential's project and mode. A test key"
    " does not see objects of the live mode, and a live key does not see objects of the test mode.",
    "method_not_allowed": "The path exists, but not with this method. The header `Allow` names the methods of"
    " the path.",
    "duplicate_idempotency_key": "An earlier request with this key succeeded. [Idempotency"
    " keys](idempotency.md) shows how to read its result.",
    "invoice_not_draft": "The invoice has been opened, so it cannot be changed or opened again.",
    "invoice_not_open": "Only an open invoice can be paid or voided. Look at its `status`.",
    "order_not_open": "Only an open order can be paid. Look at its `status`.",
    "order_not_paid": "Only a paid order can be shipped. Look at its `status`.",
    "user_deactivated": "The user is deactivated. Restore the user first, within 30 days.",
    "email_taken": "Another active user of this project and mode has the address.",
    "not_recoverable": "The state of the object does not allow this: the change was undone before, or can no"
    " longer be undone.",
    "not_sealed_yet": "A new event is in the log within a second. Ask again then.",
    "precondition_failed": "The object is not in the state that `If-Match` names: somebody has changed the"
    " object since. Nothing was done. Get the object, look at the difference, and [send the change with the"
    " new `ETag`](conventions.md#conditional-changes).",
    "payload_too_large": "A JSON body may have 1 MB. Send fewer objects at a time.",
    "uri_too_long": "A URL may have 8 KB.",
    "headers_too_large": "All headers together may have 16 KB. Cookies of other programs count too.",
    "internal_error": "A fault of the server. The server's log shows the details for the id in the message.",
    "storage_unavailable": "The disk is full, hangs or is gone. The message states if the change was made.",
}
OAUTH_MEANINGS: dict[str, str] = {
    "invalid_request": "a parameter is missing, occurs twice, or has a wrong value",
    "invalid_grant": "the code or refresh token is unknown, expired or used, or the verifier does not fit",
    "invalid_scope": "a scope is unknown, or more than the user may give",
    "unsupported_grant_type": "the grant type is neither `authorization_code` nor `refresh_token`",
    "invalid_client": "the app is not known",
    "server_error": "a fault of the server",
    "temporarily_unavailable": "the storage is not available; try again later",
}

_HEAD = """\
# Errors

<!-- Made from the code: `make catalogues` writes this page anew. -->

Reference: every error of the server, as a list to search. [The interface](interface.md#errors) and the
[decisions](decisions.md#errors) contain the rules.

**Decide by `code`** (or by the status), and show `message` to people: messages may change, codes do not.

| status | can you send the same request again? |
| --- | --- |
| 400, 404, 405, 409, 413, 414, 431 | no: the server would refuse the request again |
| 412 | after you get the object again, with its new `ETag` |
| 401 | after you get another token, or with another key |
| 403 | after a change of the credential or the plan |
| 408 | yes |
| 429 | yes, after the number of seconds in `Retry-After` |
| 500, 503, and no answer at all | yes; a POST with the same [`Idempotency-Key`](idempotency.md) |

The header `Request-Id` of each answer contains an id. If the credential was valid, you find the request under
this id in the [request log](webhooks.md#the-request-log).

## The shapes

"""


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
    return 0


def page() -> str:
    """Return the text of docs/errors.md."""
    return "".join([_HEAD, *_shapes(), *_codes(), *_oauth_codes()])


@cache
def messages() -> dict[str, list[str]]:
    """Return the messages in the source by their codes, with `…` for a value of the request."""
    found: dict[str, set[str]] = {}
    for package in PACKAGES:
        for file in sorted((SOURCE / package).rglob("*.py")):
            for code, message in _raised_in(file):
                found.setdefault(code, set()).add(message)
    # All rules of the pydantic models share one `raise`. Each rule has its own end of the message.
    found["invalid_value"] |= {f"… must {re.sub('{.*?}', UNKNOWN, rule)}." for rule in bodies._RULES.values()}
    return {code: sorted(texts, key=_without_signs) for code, texts in found.items()}


def _shapes() -> Iterator[str]:
    missing = InvalidRequest("missing_field", "currency is required.", "currency")
    yield "On the ledger and the token endpoint, `/v1/…`:\n\n"
    yield _example(*_answer(missing, "/v1/accounts"))
    yield "In the directory, `/api/…`:\n\n"
    yield _example(*_answer(NotFound("user", "usr_01kafzrhwaez1c3e5g7k9n1q3s"), "/api/users/usr_…"))
    yield "At OAuth's endpoints, `/oauth/…` (RFC 6749):\n\n"
    used_code = OAuthRefusal("invalid_grant", "The code has already been used; its tokens are revoked.")
    yield _example(*_answer(used_code, "/oauth/token"))
    yield "Over the rate limit, on every path:\n\n"
    yield _example(*_answer(RateLimited(12), "/v1/accounts"))
    yield "The second use of an [idempotency key](idempotency.md) has two more fields:\n\n"
    invoice, payment = "inv_01kafzr4qbf6s8d0g2j4m6p8rs", "txn_01kafzqm2cemx9v3r5t7w0y2ah"
    used_key = DuplicateIdempotencyKey(invoice, True, (invoice, payment))
    yield _example(*_answer(used_key, f"/v1/invoices/{invoice}/pay"))


def _codes() -> Iterator[str]:
    raised = messages()
    yield "## The codes\n\n"
    yield "`…` stands for a part that varies, such as an id or the name of a field.\n\n"
    for code in dict.fromkeys(code for _, codes in CODES.values() for code in codes):
        statuses = [(status, type) for status, (type, codes) in CODES.items() if code in codes]
        where = " or ".join(str(status) for status, _ in statuses)
        yield f"### {code}\n\n{where} `{statuses[0][1]}`. {MEANINGS[code]}\n\n"
        yield "".join(f"- {_shown(message)}\n" for message in raised[code]) + "\n"


def _oauth_codes() -> Iterator[str]:
    yield "## OAuth's codes\n\n| status | `error` | |\n| --- | --- | --- |\n"
    for status, codes in OAUTH_CODES.items():
        for code in codes:
            yield f"| {status} | `{code}` | {OAUTH_MEANINGS[code]} |\n"


def _answer(error: Any, path: str) -> tuple[int, Any]:
    status, _, body = render(error, path)
    return status, json.loads(body)


def _example(status: int, body: Any) -> str:
    return f"```json\n// {status}\n{json.dumps(body, ensure_ascii=False, indent=2)}\n```\n\n"


def _raised_in(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the code and the message of each error that the file constructs."""
    known = {code for _, codes in CODES.values() for code in codes}
    dotted = ".".join(["ledger_engine", *file.relative_to(SOURCE).with_suffix("").parts])
    module = importlib.import_module(dotted.removesuffix(".__init__"))
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        first, text = node.args[0], None
        code = _BY_CLASS.get(ast.unparse(node.func).rpartition(".")[2])
        if code is not None:
            text = _text(first, module)
        elif isinstance(first, ast.Constant) and first.value in known and len(node.args) > 1:
            code, text = str(first.value), _text(node.args[1], module)
        if code is not None and text is not None and len(re.findall(r"[A-Za-z]{2,}", text)) > 1:
            yield code, text


def _text(node: ast.expr, module: ModuleType) -> str | None:
    """Return the text of a string literal, with the values of the module's constants.

    Returns None for an expression that is not a string literal.
    """
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            parts.append(_value(part, module))
        elif isinstance(part, ast.Constant):
            parts.append(str(part.value))
    return re.sub(f"{UNKNOWN}+", UNKNOWN, "".join(parts))


def _value(part: ast.FormattedValue, module: ModuleType) -> str:
    """Return the text of an expression that consists of constants; `…` for any other expression."""
    names = {node.id for node in ast.walk(part.value) if isinstance(node, ast.Name)}
    if not names <= vars(module).keys():
        return UNKNOWN
    value = eval(compile(ast.Expression(part.value), "<message>", "eval"), vars(module))
    if not isinstance(value, str | int):
        return UNKNOWN
    spec = ast.literal_eval(part.format_spec.values[0]) if isinstance(part.format_spec, ast.JoinedStr) else ""
    return format(value, spec)


def _without_signs(message: str) -> str:
    return re.sub(r"[^\w ]", "", message).strip().lower()


def _shown(message: str) -> str:
    """Return the message as code in Markdown."""
    return f"`` {message} ``" if "`" in message else f"`{message}`"


if __name__ == "__main__":
    raise SystemExit(main())
