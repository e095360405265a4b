"""Text of the server made safe to draw.

A terminal obeys control characters wherever they come from, and Textual passes them on even with markup off.
So everything that came over the wire goes through `literal` on its way to the screen.
"""

from __future__ import annotations

import re
import unicodedata

from rich.cells import cell_len, set_cell_size

# Cc: control (ESC, C1 …), Cf: format (bidi overrides, zero width …), Cs: lone surrogates, Zl/Zp: separators.
# The joiner of emoji is among them: terminals draw what it joins in two cells or in four, so a text of the
# server could use it to move everything after it. Of joined emoji the first is drawn, which is two cells
# everywhere.
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_EMOJI = "[\U0001f000-\U0001faff\u2190-\u2bff]"
_WITH = "[\U0001f3fb-\U0001f3ff\ufe0f]*"  # the colour of a skin, and the form of an emoji
_JOINED = re.compile(f"({_EMOJI}){_WITH}(?:\u200d{_EMOJI}{_WITH})+")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_CONTROL_PICTURES = 0x2400
_SYMBOL_FOR_DELETE = "\N{SYMBOL FOR DELETE}"
ELLIPSIS = "…"


def literal(value: object) -> str:
    """Return the text of `value` with each character a terminal would obey replaced by a visible one."""
    text = value if isinstance(value, str) else str(value)
    if text.isprintable():
        return text
    return "".join(map(_visible, _JOINED.sub(r"\1", text)))


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    if code == 0x7F:
        return _SYMBOL_FOR_DELETE
    if unicodedata.category(character) in _UNSAFE_CATEGORIES:
        return _REPLACEMENT
    return character


def fit(text: str, width: int, align: str = "left") -> str:
    """Return `text` in exactly `width` cells, padded or cut with an ellipsis; wide characters are two."""
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + ELLIPSIS if width > 0 else ""
    padding = " " * (width - length)
    return padding + text if align == "right" else text + padding
