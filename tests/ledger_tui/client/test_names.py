from ledger_tui.client.names import AccountNames


def test_an_account_is_found_by_part_of_its_name_or_id() -> None:
    names = AccountNames()
    names.learn(
        [
            {"id": "acc_1", "name": "Old till", "currency": "EUR"},
            {"id": "acc_2", "name": "Till", "currency": "JPY"},
        ]
    )
    assert [found.id for found in names.search("till")] == ["acc_2", "acc_1"]
    assert [found.id for found in names.search("C_1")] == ["acc_1"]


def test_only_ids_that_are_not_known_are_worth_asking_for_and_each_once() -> None:
    names = AccountNames()
    names.learn([{"id": "acc_1", "name": "Till", "currency": "EUR"}])
    names.mark_absent("acc_2")
    assert names.unknown(["acc_1", "acc_2", "acc_3", None, "acc_3"]) == ["acc_3"]


def test_a_record_without_a_currency_teaches_nothing() -> None:
    names = AccountNames()
    assert not names.learn([{"id": "acc_1", "name": "Till"}])
    assert names.currency("acc_1") is None


def test_accounts_are_found_by_their_whole_name_alone() -> None:
    names = AccountNames()
    names.learn(
        {"id": f"acc_{n}", "name": name, "currency": "EUR"} for n, name in enumerate(["Till", "Till 2"])
    )
    assert [known.id for known in names.with_name("till")] == ["acc_0"]
    assert names.with_name("Til") == []


def test_an_account_lacks_a_partner_only_if_all_accounts_are_known() -> None:
    names = AccountNames()
    names.learn([{"id": "acc_1", "name": "Till", "currency": "EUR"}])
    names.learn([{"id": "acc_2", "name": "Yen box", "currency": "JPY"}])
    assert not names.lacks_partner("acc_1")
    names.all_known = True
    assert names.lacks_partner("acc_1")
    assert not names.lacks_partner("acc_3")
    names.learn([{"id": "acc_3", "name": "Safe", "currency": "EUR"}])
    assert not names.lacks_partner("acc_1")
    names.clear()
    assert not names.all_known
