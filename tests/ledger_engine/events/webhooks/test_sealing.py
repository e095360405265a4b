import pytest

from ledger_engine.events.webhooks.sealing import PREVIOUS, VARIABLE, Seal, WrongKey

SECRET = "whsec_0123456789abcdef"


def test_without_a_key_a_secret_is_stored_as_it_is() -> None:
    stored = Seal(None).close(SECRET)
    assert stored == SECRET
    assert Seal(None).open(stored) == SECRET


def test_with_a_key_nothing_of_it_can_be_read() -> None:
    seal = Seal("correct horse")
    stored = seal.close(SECRET)
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


def test_the_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "correct horse")
    stored = Seal.from_environment().close(SECRET)
    assert Seal("correct horse").open(stored) == SECRET
    monkeypatch.setenv(VARIABLE, "battery staple")
    monkeypatch.setenv(PREVIOUS, "correct horse")
    assert Seal.from_environment().open(stored) == SECRET
    monkeypatch.delenv(VARIABLE)
    assert Seal.from_environment().close(SECRET) == SECRET


def test_what_another_key_or_none_has_sealed_is_sealed_again_with_the_key() -> None:
    before, now = Seal("correct horse"), Seal("battery staple", previous="correct horse")
    for old in (SECRET, before.close(SECRET)):
        again = now.closed_again(old)
        assert again is not None
        assert Seal("battery staple").open(again) == SECRET
        assert now.closed_again(again) is None
    assert now.closed_again(Seal("a third").close(SECRET)) is None
    assert Seal(None).closed_again(SECRET) is None
