"""Places at which a reader stops, in pages, docstrings, comments and names (CONTRIBUTING.md, "Words")."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

ODD_TURNS = (
    # A clause stands where a noun should: "What was refused is not there."
    re.compile(r"^\W*(?:What|Who|Whoever|Whatever|Whichever)\b(?!.*\?$)"),
    re.compile(
        r"\b(?:of|for|by|with|in|from|than|about|after|and|or|is|are|has|says|shows|names|keeps)"
        r" what (?!to\b)"
    ),
    re.compile(r"\b(?:is|are|was|were|of|for|by|and|or) (?:whoever|whatever)\b"),
    # A word points at another word: "those that", "the one before".
    re.compile(r"\b(?:those (?:that|of|which|who|in|with|from|before)|that of)\b"),
    re.compile(r"\bthe ones? (?:that|of|before|after|with)\b"),
    re.compile(r"\b(?:of (?:its|their|your) own|the latter|the former)\b"),
    # A sentence without an actor.
    re.compile(r"\b(?:is|are) (?:said|told)\b"),
    re.compile(r"\b(?:says|said|tells|told) (?:so|which|how|it|that|why|what)\b"),
    # Words that nobody says.
    re.compile(r"\b(?:anew|likewise|meanwhile|besides|forth|lately|so long ago)\b"),
    re.compile(r"\b(?:in place of|in (?:its|their) place)\b"),
    re.compile(r"(?:^|, |; )[Ww]here (?:it|there|they|you|an?|the|no|nothing|both|several|this|that)\b"),
    re.compile(r"^\W*(?:Of|Beside|Among|Out of|To it|By it|In it|From it) "),
)
_IRREGULAR = (
    *("given", "taken", "made", "kept", "held", "sent", "written", "shown", "found", "lost", "known", "seen"),
    *(
        "told",
        "begun",
        "done",
        "asked",
        "said",
        "built",
        "brought",
        "drawn",
        "chosen",
        "paid",
        "meant",
        "met",
    ),
    *("sold", "bought", "caught", "taught", "hidden", "broken", "forgotten", "gone"),
)
_PARTICIPLE = re.compile(rf"_?(?:[a-z]{{3,}}[^e\W]ed|{'|'.join(_IRREGULAR)})")
_NOUNS = {"created"}  # a field of the interface
_SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z*`\[“(])")


@dataclass(frozen=True)
class Sentence:
    """A sentence with the line at which its paragraph begins."""

    line: int
    text: str

    @property
    def odd_turns(self) -> int:
        """The number of places that a reader stops at."""
        return sum(len(pattern.findall(self.text)) for pattern in ODD_TURNS)


def sentences_of_page(text: str) -> Iterator[Sentence]:
    """Yield the sentences of a Markdown page, without headings and blocks of code."""
    fenced = False
    paragraph: list[str] = []
    start = 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = line.strip()
        fence = bare.startswith("```")
        if fence or fenced or not bare or bare.startswith(("#", "<!--", "![", "|", "- ", "* ")):
            yield from _sentences(start, " ".join(paragraph))
            paragraph = []
            fenced ^= fence
            if fence or fenced or not bare or bare[0] in "#<!":
                continue
            if bare.startswith("|"):
                for cell in bare.strip("|").split("|"):
                    yield from _sentences(number, cell)
                continue
        start = start if paragraph else number
        paragraph.append(bare.lstrip("-* "))


def sentences_of_module(source: str) -> Iterator[Sentence]:
    """Yield the sentences of a module's docstrings and comments."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if docstring := ast.get_docstring(node):
            for paragraph in docstring.split("\n\n"):
                yield from _sentences(node.body[0].lineno, " ".join(paragraph.split()))
    comment: list[str] = []
    start = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if comment and start + len(comment) != token.start[0]:
                yield from _sentences(start, " ".join(comment))
                comment = []
            start = start if comment else token.start[0]
            comment.append(token.string.lstrip("# "))
    yield from _sentences(start, " ".join(comment))


def odd_turns_per_thousand_words(sentences: list[Sentence]) -> float:
    """Return how often a reader stops in a thousand words."""
    words = sum(len(sentence.text.split()) for sentence in sentences)
    return 1000 * sum(sentence.odd_turns for sentence in sentences) / max(words, 1)


def bound_names(source: str) -> list[str]:
    """Return the names that a module binds: variables, attributes, arguments, and classes in lower case."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.append(node.attr)
        elif isinstance(node, ast.arg):
            names.append(node.arg)
        elif isinstance(node, ast.ClassDef):
            names.append(re.sub(r"(?<!^)(?=[A-Z])", "_", node.name).lower())
    return names


def is_bare_participle(name: str) -> bool:
    """Return whether a name is one past participle, such as `found` or `wanted`."""
    return name not in _NOUNS and _PARTICIPLE.fullmatch(name) is not None


def _sentences(line: int, text: str) -> Iterator[Sentence]:
    for sentence in _SENTENCE_END.split(text):
        if len(sentence.split()) > 2:
            yield Sentence(line, sentence.strip())
