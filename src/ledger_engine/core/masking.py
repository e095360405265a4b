"""Masking: secrets that stand in other texts, found and cut to their kind.

A log shows what people sent, and people send keys in descriptions, queries and paths, whole and in escapes.
"""

from __future__ import annotations

import re

MASK = "••••"

# The first have a prefix like no word. The others' could end one, as in `chat_room`: they count where a word
# begins, with as many characters as a secret has, or at the end, where the text may have been cut.
_VALUE = re.compile(
    r"(sk_test|sk_live|whsec)_[A-Za-z0-9]{8,}"
    r"|(?:(?<![A-Za-z0-9_])(at|rt|ac|si)_[A-Za-z0-9]{8,}"
    r"|(at|rt|ac|si)_(?:[A-Za-z0-9]{32,}|[A-Za-z0-9]{8,}\Z))"
)
# Members that hold a secret whatever it looks like.
_MEMBER = re.compile(
    r'("(?:password|secret|client_secret|code_verifier|access_token|refresh_token|api_key|token)"\s*:\s*")'
    r'(?:[^"\\]|\\.)*'
)
# A secret as decisions.md 4 and 12 form them, by itself.
_WHOLE = re.compile(
    r"(?:sk_test|sk_live|whsec)_[A-Za-z0-9]{32}|(?<![A-Za-z0-9])(?:at|rt)_[A-Za-z0-9]{32}(?![A-Za-z0-9])"
)
_ESCAPE = re.compile(r"(?:%|\\u00)([2-7][0-9A-Fa-f])")


def masked(text: str) -> str:
    """The text without secrets: keys, tokens, passwords and signing secrets are cut to their kind."""
    if not may_hold_secrets(text):
        return text
    if "%" in text or "\\u00" in text:
        plain = _ESCAPE.sub(_letter, text)
        if _VALUE.search(plain) or _MEMBER.search(plain):
            text = plain
    return _MEMBER.sub(rf"\1{MASK}", _VALUE.sub(_kind, text))


def may_hold_secrets(text: str) -> bool:
    """Whether it is worth while to look closer."""
    # Written out: it is asked of each request, and nearly always the answer is no.
    return (
        "sk_" in text
        or "at_" in text
        or "rt_" in text
        or "ac_" in text
        or "si_" in text
        or "whsec_" in text
        or "secret" in text
        or "password" in text
        or "token" in text
        or "api_key" in text
        or "verifier" in text
        or "%" in text
        or "\\u00" in text
    )


def holds_secret(text: str) -> bool:
    """Whether a whole credential or signing secret stands in the text."""
    return _WHOLE.search(text) is not None


def _kind(found: re.Match[str]) -> str:
    return f"{found[1] or found[2] or found[3]}_{MASK}"


def _letter(found: re.Match[str]) -> str:
    """What a percent or JSON escape stands for, if a secret or the name of a member can have that in it."""
    letter = chr(int(found[1], 16))
    return letter if letter.isalnum() or letter == "_" else found[0]
