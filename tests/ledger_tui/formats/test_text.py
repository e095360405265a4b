import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ledger_tui.formats.text import breakable, fit, literal, plain, with_article


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("\x9b31m", "\ufffd31m"),
        ("abc\u202edef", "abc\ufffddef"),
        ("\u2066x\u2069", "\ufffdx\ufffd"),
        ("a\r\nb\tc", "a␍␊b␉c"),
        ("\x7f", "␡"),
        ("👨\u200d👩\u200d👧 at home", "👨 at home"),
        ("👩🏽\u200d💻, ❤\ufe0f\u200d🔥", "👩, ❤"),
        ("a\u200db 👩\u200d", "a\ufffdb 👩\ufffd"),
        ("👍🏽 ☀\ufe0f ❤\ufe0e, 1\ufe0f\u20e3, ☝\ufe0f🏿", "👍 ☀ ❤, 1\u20e3, ☝"),
        ("🏽 a🏽", "\ufffd a\ufffd"),
        ("🇩🇪 Berlin, 🇫", "DE Berlin, F"),
        ("\ud800", "\ufffd"),
        ("[@click=app.quit]x[/]", "[@click=app.quit]x[/]"),
        ("Ärger & Söhne 倉庫", "Ärger & Söhne 倉庫"),
    ],
)
def test_a_character_that_a_terminal_would_obey_is_replaced(hostile: str, shown: str) -> None:
    assert literal(hostile) == shown


@given(st.text(alphabet=st.characters()))
def test_no_control_or_format_character_survives(text: str) -> None:
    assert not {unicodedata.category(c) for c in literal(text)} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


_WIDTHS_IN_TMUX = {"W": 2, "F": 2}


@given(st.text(alphabet="a☀❤👍👩🔧🇩🇪🏽🏿\ufe0f\ufe0e\u200d"))
def test_an_emoji_is_as_wide_as_a_terminal_draws_it_that_looks_at_one_character_at_a_time(text: str) -> None:
    drawn = literal(text)
    assert cell_len(drawn) == sum(_WIDTHS_IN_TMUX.get(unicodedata.east_asian_width(c), 1) for c in drawn)


@given(st.text(), st.integers(0, 40), st.sampled_from(["left", "right"]))
def test_fitted_text_has_exactly_its_width(text: str, width: int, align: str) -> None:
    assert cell_len(fit(literal(text), width, align)) == width


def test_a_text_that_is_too_long_ends_in_an_ellipsis() -> None:
    assert fit("Main operating account", 10) == "Main oper…"


def test_a_url_is_broken_after_a_slash_a_question_mark_or_an_ampersand() -> None:
    url = "https://shop.example.com/hooks/ledger?team=north&region=eu"
    assert breakable(f"Delete {url}?\n\nIt ends.", 30).split("\n") == [
        "Delete https://shop.example.com/",
        "hooks/ledger?team=north&",
        "region=eu?",
        "",
        "It ends.",
    ]
    assert breakable(url, 80) == url
    assert breakable("x" * 40, 30) == "x" * 40


@pytest.mark.parametrize(
    ("pasted", "text"),
    [
        ("\x1b[1;31mred\x1b[0m and \x9b32mgreen", "red and green"),
        ("\x1b]8;;https://example.com\x1b\\a link\x1b]8;;\x07", "a link"),
        ("a\x1bb\x00c\x7f\x1f", "abc"),
        ("\x1b(Bplain", "plain"),
        ("abc\u202edef\u200e \u2066x\u2069\ufeff\u200b", "abcdef x"),
        ("12,50\tEUR\r\nnext", "12,50 EUR\r\nnext"),
        ("👨\u200d👩 نمی\u200cخواهم", "👨\u200d👩 نمی\u200cخواهم"),
        ("Café 東京 [31m ^[31m", "Café 東京 [31m ^[31m"),
    ],
)
def test_a_pasted_text_loses_only_what_a_terminal_would_obey(pasted: str, text: str) -> None:
    assert plain(pasted) == text


@pytest.mark.parametrize(
    "words", ["an invoice", "an open order", "a user", "a draft", "an API key", "a webhook"]
)
def test_a_vowel_and_the_letters_api_follow_an(words: str) -> None:
    assert with_article(words.partition(" ")[2]) == words
