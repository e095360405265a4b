"""Masks secrets inside other texts: a test key becomes `sk_test_••••`.

Logs contain texts that clients sent, and clients send keys in descriptions, queries and paths. Some of these
keys are escaped, as in a URL or in JSON.
"""

from __future__ import annotations

import re

MASK = "••••"

# The long prefixes in the first line of the pattern occur in no ordinary word. A two-letter prefix could be
# the end of a word, as in `chat_room`. So a two-letter prefix counts only in three cases: the prefix begins a
# word; at least as many characters follow as a secret contains; or fewer characters follow, and the text ends
# there. In the third case the text may have been cut inside the secret.
_VALUE = re.compile(
    r"(sk_test|sk_live|whsec)_[A-Za-z0-9]{8,}"
    r"|(?:(?<![A-Za-z0-9_])(at|rt|ac|si)_[A-Za-z0-9]{8,}"
    r"|(at|rt|ac|si)_(?:[A-Za-z0-9]{32,}|[A-Za-z0-9]{8,}\Z))"
)
# JSON members whose value is a secret, whatever the secret looks like.
_MEMBER = re.compile(
    r'("(?:password|secret|client_secret|code_verifier|access_token|refresh_token|api_key|token)"\s*:\s*")'
    r'(?:[^"\\]|\\.)*'
)
# The two letters before the underscore in each prefix of `_VALUE`, such as `ec` in `whsec_`, and the two
# letters before the underscore in the member `api_key`.
_BEFORE_UNDERSCORE = frozenset({"sk", "at", "rt", "ac", "si", "ec", "pi"})
# A complete secret, in the form of docs/decisions.md#credentials-key and #webhooks-endpoints.
_WHOLE = re.compile(
    r"(?:sk_test|sk_live|whsec)_[A-Za-z0-9]{32}|(?<![A-Za-z0-9])(?:at|rt)_[A-Za-z0-9]{32}(?![A-Za-z0-9])"
)
_ESCAPE = re.compile(r"(?:%|\\u00)([2-7][0-9A-Fa-f])")


def masked(text: str) -> str:
    """Return the text without its secrets.

    A mask replaces each key, token and signing secret except for its prefix, and the whole value of a JSON
    member such as `password`.
    """
    if not may_hold_secrets(text):
        return text
    if "%" in text or "\\u00" in text:
        plain = _ESCAPE.sub(_decode, text)
        if _VALUE.search(plain) or _MEMBER.search(plain):
            text = plain
    return _MEMBER.sub(rf"\1{MASK}", _VALUE.sub(_mask_value, text))


def may_hold_secrets(text: str) -> bool:
    """Return whether the text could contain a secret. This check is cheap; `masked` is the full search."""
    # This function runs for every request, and nearly always returns False. To look at the letters before
    # each underscore is faster than to search for each prefix.
    for part in text.split("_")[:-1]:
        if part[-2:] in _BEFORE_UNDERSCORE:
            return True
    return (
        "secret" in text
        or "password" in text
        or "token" in text
        or "verifier" in text
        or "%" in text
        or "\\u00" in text
    )


def holds_secret(text: str) -> bool:
    """Return whether the text contains a complete credential or signing secret."""
    return _WHOLE.search(text) is not None


def _mask_value(match: re.Match[str]) -> str:
    return f"{match[1] or match[2] or match[3]}_{MASK}"


def _decode(match: re.Match[str]) -> str:
    """Return the character of a percent escape or a JSON escape.

    Only a character that can occur in a secret, or in the name of a member, is decoded.
    """
    letter = chr(int(match[1], 16))
    return letter if letter.isalnum() or letter == "_" else match[0]
