"""Makes text from the server and from the clipboard safe to draw.

A terminal obeys control characters in any text, and Textual passes them on even if markup is off. So each
text from the server goes through `literal` before it is drawn.
"""

from __future__ import annotations

import re
import unicodedata

from rich.cells import cell_len, set_cell_size

# Cc: control (ESC, C1 …), Cf: format (bidi overrides, zero width …), Cs: lone surrogates, Zl/Zp: separators.
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Terminals disagree about the width of an emoji that has a skin tone, a variation selector, or other emojis
# joined to it. (A variation selector chooses between the emoji form and the text form.) A text from the
# server could use such an emoji to shift the rest of the line. So `literal` keeps only the first emoji, and
# drops everything that is joined to it. All terminals give the same width to a single emoji.
_EMOJI = "[\U0001f000-\U0001f3fa\U0001f400-\U0001faff\u2190-\u2bff]"
_SKIN = "\U0001f3fb-\U0001f3ff"
_SELECTOR = "\ufe00-\ufe0f"
_MODIFIERS = f"[{_SKIN}{_SELECTOR}]*"
_WHOLE_EMOJI = re.compile(f"({_EMOJI}){_MODIFIERS}(?:\u200d{_EMOJI}{_MODIFIERS})*")
_SELECTORS = re.compile(f"[{_SELECTOR}]")
_SKINS = re.compile(f"[{_SKIN}]")
# A flag consists of two of these letters. Some terminals draw a flag, others draw each letter in a box.
_FIRST_OF_FLAGS = "\U0001f1e6"
_FLAGS = re.compile(f"[{_FIRST_OF_FLAGS}-\U0001f1ff]")
_MODIFIED = re.compile(f"[{_SKIN}{_SELECTOR}{_FIRST_OF_FLAGS}-\U0001f1ff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_CONTROL_PICTURES = 0x2400
_SYMBOL_FOR_DELETE = "\N{SYMBOL FOR DELETE}"
ELLIPSIS = "…"


def literal(value: object) -> str:
    """Return `value` as a text that is safe to draw, and that every terminal draws as wide as `fit` counts.

    A visible character replaces each character that a terminal would obey. Use the result only on the screen.
    For a copy, a file or a request, use the original text.
    """
    text = value if isinstance(value, str) else str(value)
    if text.isprintable() and (text.isascii() or not _MODIFIED.search(text)):
        return text
    alone = _SELECTORS.sub("", _WHOLE_EMOJI.sub(r"\1", text))
    alone = _FLAGS.sub(_letter, alone)
    return "".join(map(_visible_character, _SKINS.sub(_REPLACEMENT, alone)))


def _letter(of_flag: re.Match[str]) -> str:
    """Return the plain letter for one of the two letters of a flag."""
    return chr(ord("A") + ord(of_flag[0]) - ord(_FIRST_OF_FLAGS))


def _visible_character(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    if code == 0x7F:
        return _SYMBOL_FOR_DELETE
    if unicodedata.category(character) in _UNSAFE_CATEGORIES:
        return _REPLACEMENT
    return character


# Sequences that a program sends to a terminal: colours and moves of the cursor (CSI), texts such as titles
# and links (OSC and others) up to their end, and the choice of a character set. Esc before any other
# character may be a lone esc, so only the esc is removed.
_TERMINAL_SEQUENCE = re.compile(
    r"(?s)(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x1b\x07\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[()][0-2AB]"
)
# Controls, marks of the direction of text, and characters without width. The characters that join the parts
# of an emoji stay, and so do the ends of lines.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def plain(pasted: str) -> str:
    """Return a pasted text without the characters that a terminal would obey. A tab becomes a space."""
    return _INVISIBLE.sub("", _TERMINAL_SEQUENCE.sub("", pasted)).replace("\t", " ")


def sentence(text: str) -> str:
    """Return the text with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]


def with_article(words: str) -> str:
    """Return words after `a` or `an`: `an invoice`, `a user`, `an API key`."""
    return f"{'an' if words[0] in 'aeioA' else 'a'} {words}"


# `join_units` puts this private character in place of a space at which no line may end. A no-break space
# would not help, because Textual breaks lines at no-break spaces.
JOINT = "\ue000"
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:ms|s|min|h|d|%|B|[KMG]B|[A-Z]{3})(?!\w))")


def join_units(text: str) -> str:
    """Return `text` with `JOINT` for the space between a figure and its unit, such as `751 ms`.

    A text must be broken into lines before `JOINT` becomes a space again.
    """
    return _BEFORE_UNIT.sub(JOINT, text)


_WORD = re.compile(r"\S+")
_PARTS = re.compile(r"[^/?&]+[/?&]*|[/?&]+")


def breakable(text: str, width: int) -> str:
    """Return `text` with line breaks inside each word that is longer than `width`, such as a URL.

    A line of such a word ends after the last `/`, `?` or `&` that fits on the line.
    """
    return _WORD.sub(lambda word: _break_word(word[0], width), text)


def _break_word(word: str, width: int) -> str:
    if cell_len(word) <= width:
        return word
    lines = [""]
    for part in _PARTS.findall(word):
        if lines[-1] and cell_len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def fit(text: str, width: int, align: str = "left") -> str:
    """Return `text` in exactly `width` cells, padded, or cut off with an ellipsis.

    A wide character, such as a Chinese one, counts as two cells.
    """
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + ELLIPSIS if width > 0 else ""
    padding = " " * (width - length)
    return padding + text if align == "right" else text + padding
