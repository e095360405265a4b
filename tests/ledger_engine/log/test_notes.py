"""Notes, keys and cosignatures are C2SP's: its own examples hold, and nothing else is taken for them."""

from __future__ import annotations

import pytest

from ledger_engine.log import notes
from ledger_engine.log.notes import BadNote, Note, Signature, SigningKey, VerifierKey
from tests.ledger_engine.log.logs import KEY, WITNESS, MemoryLog

# The example of c2sp.org/signed-note.
EXAMPLE_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
EXAMPLE = (
    "This is an example message.\n\n— example.com/foo"
    " Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
)


def test_the_example_of_the_standard_holds() -> None:
    key, note = VerifierKey.parse(EXAMPLE_KEY), notes.parse(EXAMPLE)
    assert note.signature_of(key) == note.signatures[0]
    assert (str(key), str(note)) == (EXAMPLE_KEY, EXAMPLE)


def test_a_signature_under_another_text_does_not_hold() -> None:
    key, note = VerifierKey.parse(EXAMPLE_KEY), notes.parse(EXAMPLE.replace("an example", "no example"))
    with pytest.raises(BadNote, match=r"^a signature of example\.com/foo does not match the text$"):
        note.signature_of(key)


def test_a_second_signature_of_a_key_must_hold_too() -> None:
    note = notes.parse(EXAMPLE)
    (first,) = note.signatures
    forged = Note(note.text, (first, Signature(first.name, first.key_id, bytes(64))))
    with pytest.raises(BadNote):
        forged.signature_of(VerifierKey.parse(EXAMPLE_KEY))


def test_the_signature_of_an_unknown_key_is_ignored() -> None:
    note = notes.parse(EXAMPLE)
    assert note.signature_of(KEY.verifier) is None
    same_name = SigningKey("example.com/foo", notes.LOG, bytes(32))
    assert note.signature_of(same_name.verifier) is None


def test_a_text_with_empty_lines_is_signed_whole() -> None:
    text = "one\n\ntwo\n"
    note = notes.parse(str(Note(text, (KEY.sign(text),))))
    assert note.text == text
    assert note.signature_of(KEY.verifier)


def test_a_witness_signs_a_checkpoint_and_the_time() -> None:
    text = MemoryLog([b"one"]).checkpoint(1).note.text
    signature = WITNESS.cosign(text, 1_679_315_147)
    assert (signature.time, len(signature.value)) == (1_679_315_147, 72)
    assert WITNESS.verifier.accepts(text, signature)
    later = (1_679_315_148).to_bytes(8, "big") + signature.value[8:]
    assert not WITNESS.verifier.accepts(text, Signature(signature.name, signature.key_id, later))
    assert not WITNESS.verifier.accepts(
        text, Signature(signature.name, signature.key_id, signature.value[:-1])
    )


def test_one_key_for_two_purposes_has_two_ids() -> None:
    assert (
        SigningKey("a", notes.LOG, bytes(32)).verifier.id
        != SigningKey("a", notes.WITNESS, bytes(32)).verifier.id
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no signature\n",
        "— a AAAAAAA=\n",
        "no signature\n\n",
        "no newline\n\n— a AAAAAAA=",
        "tab\tin it\n\n— a AAAAAAA=\n",
        "return\r\n\n— a AAAAAAA=\n",
        "hyphen\n\n- a AAAAAAA=\n",
        "plus\n\n— a+b AAAAAAA=\n",
        "space\n\n— a\u2003b AAAAAAA=\n",
        "no name\n\n—  AAAAAAA=\n",
        "short\n\n— a AAAAAA==\n",
        "not base64\n\n— a AAAAAAA!\n",
        "other base64\n\n— a AAAAAAB=\n",
        "no second newline\n\n— a AAAAAAA=\n— b AAAAAAA=",
        "x" * notes.NOTE_MAX + "\n\n— a AAAAAAA=\n",
    ],
)
def test_a_malformed_note_is_refused(text: str) -> None:
    with pytest.raises(BadNote):
        notes.parse(text)


def test_a_signature_has_an_id_and_at_least_one_byte() -> None:
    assert notes.parse("a text\n\n— a AAAAAAA=\n").signatures == (Signature("a", bytes(4), bytes(1)),)
    with pytest.raises(BadNote):
        notes.parse_signatures("")


@pytest.mark.parametrize(
    "key", [VerifierKey("a", 2, bytes(32)), *(VerifierKey("a", notes.LOG, bytes(size)) for size in (31, 33))]
)
def test_a_key_of_another_kind_or_size_is_refused(key: VerifierKey) -> None:
    with pytest.raises(BadNote):
        VerifierKey.parse(str(key))


def test_a_note_has_at_most_a_megabyte() -> None:
    signature = KEY.sign("a text\n").line()
    longest = "x" * (notes.NOTE_MAX - len(signature) - 2) + f"\n\n{signature}"
    assert str(notes.parse(longest)) == longest
    with pytest.raises(BadNote):
        notes.parse(f"x{longest}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com/foo",
        EXAMPLE_KEY[:-4],
        EXAMPLE_KEY.replace("530d903a", "530d903b"),
        EXAMPLE_KEY.replace("530d903a", "530D903A"),
        EXAMPLE_KEY.replace("/foo", " foo"),
        EXAMPLE_KEY.replace("+Aeky", "+Zeky"),
        EXAMPLE_KEY + "\n",
    ],
)
def test_a_malformed_key_is_refused(text: str) -> None:
    with pytest.raises(BadNote):
        VerifierKey.parse(text)
