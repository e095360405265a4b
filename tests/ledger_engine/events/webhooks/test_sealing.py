import pytest

from ledger_engine.events.webhooks.sealing import VARIABLE, Seal, WrongKey, is_sealed

SECRET = "whsec_0123456789abcdef"


def test_without_a_key_a_secret_is_stored_as_it_is() -> None:
    stored = Seal(None).close(SECRET)
    assert stored == SECRET
    assert not is_sealed(stored)
    assert Seal(None).open(stored) == SECRET


def test_with_a_key_nothing_of_it_can_be_read() -> None:
    seal = Seal("correct horse")
    stored = seal.close(SECRET)
    assert is_sealed(stored)
    assert SECRET not in stored
    assert stored != seal.close(SECRET), "equal secrets do not look equal"
    assert Seal("correct horse").open(stored) == SECRET


def test_a_secret_from_before_there_was_a_key_is_still_read() -> None:
    assert Seal("correct horse").open(SECRET) == SECRET


@pytest.mark.parametrize("key", [None, "", "battery staple"])
def test_another_key_or_none_does_not_open_it(key: str | None) -> None:
    stored = Seal("correct horse").close(SECRET)
    with pytest.raises(WrongKey, match=VARIABLE):
        Seal(key).open(stored)


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "correct horse")
    assert Seal.from_environment().has_key
    assert Seal.from_environment().open(Seal("correct horse").close(SECRET)) == SECRET
    monkeypatch.delenv(VARIABLE)
    assert not Seal.from_environment().has_key
