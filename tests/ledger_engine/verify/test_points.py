"""After a proven point only what came later is read, and the point must be the ledger's own."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future
from pathlib import Path

import pytest

from ledger_engine.access import projects
from ledger_engine.core.errors import Conflict
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, transactions
from ledger_engine.ledger.transactions import NewTransaction, Transaction
from ledger_engine.store import T, Unit, Work
from ledger_engine.store.engine import open_engine, open_snapshot
from ledger_engine.verify import audit, points, scan
from ledger_engine.verify.audit import Report
from ledger_engine.verify.points import Point
from tests.locations import execute, place_of_its_own


def post(ledger: Location, livemode: bool = False) -> list[Transaction]:
    """Post some transactions on new accounts, among them a transfer and a reversal."""

    def work(unit: Unit) -> list[Transaction]:
        tenant = Tenant(projects.first_or_new(unit)[0].id, livemode=livemode)
        listed = accounts.page(unit, tenant, accounts.PageRequest()).items
        held = [each.id for each in listed] + [
            accounts.create(unit, tenant, accounts.NewAccount(name, "EUR", {})).id for name in ("A", "B")
        ]
        posted = [transactions.post(unit, tenant, NewTransaction(account, 7, "credit")) for account in held]
        posted.append(transactions.post(unit, tenant, NewTransaction(held[0], 5, "debit", None, held[1])))
        posted.append(transactions.reverse(unit, tenant, posted[0].id))
        return posted

    async def run() -> list[Transaction]:
        engine = open_engine(ledger)
        try:
            return await engine.write(work)
        finally:
            await engine.close()

    return asyncio.run(run())


def prove(ledger: Location, since: Point | None = None) -> tuple[Report, Point | None]:
    def work(unit: Unit) -> tuple[Report, Point | None]:
        def start(work: Work[T], /) -> Future[T]:
            done: Future[T] = Future()
            done.set_result(work(unit))
            return done

        return audit.verify_all(start) if since is None else audit.verify_since(start, since)

    with open_snapshot(ledger, 1) as snapshot:
        return snapshot.start(work).result()


def proven(ledger: Location) -> Point:
    point = prove(ledger)[1]
    assert point is not None
    return point


def test_what_came_after_a_point_is_proven_and_gives_the_point_of_all(location: Location) -> None:
    post(location)
    point = proven(location)
    post(location)
    post(location, livemode=True)
    report, later = prove(location, point)
    assert report == prove(location)[0]
    assert report.fault is None
    assert later is not None
    assert later.books == proven(location).books


def test_a_point_of_nothing_and_of_everything(location: Location) -> None:
    nothing = proven(location)
    post(location)
    everything = prove(location, nothing)[1]
    assert everything is not None
    report, point = prove(location, everything)
    assert report.fault is None
    assert point is not None
    assert point.books == everything.books


NEW = "(SELECT id FROM transactions ORDER BY id DESC LIMIT 1 OFFSET {})"
SPOILED = {
    "a balance": f"UPDATE transactions SET balance_after = balance_after + 1 WHERE id = {NEW.format(3)}",
    "a side of a transfer": f"UPDATE transactions SET created = created + 1 WHERE id = {NEW.format(1)}",
    "a reversal": f"UPDATE transactions SET reverses = {NEW.format(3)} WHERE id = {NEW.format(0)}",
    "an account's balance": "UPDATE accounts SET balance = balance + 1"
    " WHERE id = (SELECT max(id) FROM accounts)",
    "a settlement": "UPDATE settlements SET balance = balance + 1",
    "a counter": "UPDATE counters SET stored_objects = stored_objects + 1 WHERE stored_objects > 0",
    "an event": "UPDATE events SET created = created + 1 WHERE id = (SELECT max(id) FROM events)",
    "a first balance": f"UPDATE transactions SET balance_after = 1 WHERE id = {NEW.format(4)}",
}


@pytest.mark.parametrize("sql", SPOILED.values(), ids=SPOILED)
def test_a_wrong_row_after_the_point_is_the_one_that_all_checks_find(location: Location, sql: str) -> None:
    post(location)
    point = proven(location)
    post(location)
    execute(location, sql)
    fault = prove(location)[0].fault
    assert fault is not None
    assert prove(location, point) == (prove(location)[0], None)


def test_an_event_is_found_also_when_it_is_read_among_others_than_those_of_postings(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "ROWS_AT_ONCE", 1)
    post(location)
    point = proven(location)
    post(location)
    execute(location, SPOILED["an event"])
    fault = prove(location, point)[0].fault
    assert fault is not None
    assert fault.check == scan.POSTED
    assert fault == prove(location)[0].fault


def test_a_posting_after_the_point_on_an_account_that_is_not_there_is_damage(location: Location) -> None:
    post(location)
    point = proven(location)
    last = post(location)[-1].id
    execute(location, f"UPDATE transactions SET account = 'acc_x' WHERE id = '{last}'")
    report, later = prove(location, point)
    assert report.fault is not None
    assert report.fault.message == (
        f"The database is damaged: transaction {last} refers to a missing row of accounts."
    )
    assert later is None


def test_a_point_whose_last_balance_the_ledger_does_not_have_is_refused(location: Location) -> None:
    last = post(location)[-1].id
    point = proven(location)
    execute(location, f"UPDATE transactions SET balance_after = 99 WHERE id = '{last}'")
    with pytest.raises(Conflict, match=f"lacks {last} with a balance of"):
        prove(location, point)


def test_what_was_proven_is_not_read_again(location: Location) -> None:
    posted = post(location)
    point = proven(location)
    post(location)
    execute(location, f"UPDATE transactions SET description = 'x', amount = 8 WHERE id = '{posted[1].id}'")
    assert prove(location)[0].fault is not None
    assert prove(location, point)[0].fault is None


def test_a_point_of_another_ledger_or_of_a_later_state_is_refused(
    location: Location, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = place_of_its_own(kind, tmp_path_factory.mktemp("other"), "other")
    post(location)
    earlier = proven(location)
    post(other)
    with pytest.raises(Conflict, match="another ledger"):
        prove(other, earlier)
    last = post(location)[-1].id
    later = proven(location)
    execute(location, f"DELETE FROM transactions WHERE id = '{last}'")
    with pytest.raises(Conflict, match=f"lacks {last}"):
        prove(location, later)


def test_a_point_is_read_as_it_was_saved_and_private(location: Location, tmp_path: Path) -> None:
    post(location)
    point = proven(location)
    file = tmp_path / "proven.json"
    points.save(point, file)
    assert points.read(file) == point
    assert file.stat().st_mode & 0o777 == 0o600
    points.require_replaceable(file)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"form": 2}', '{"form": 1, "at": "x", "books": [{}]}', "[" * 100_000, "\xff"]
)
def test_a_file_that_is_no_point_is_refused_and_never_replaced(tmp_path: Path, text: str) -> None:
    file = tmp_path / "notes.json"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(Conflict, match="was not written by `ledger-engine verify --save`"):
        points.read(file)
    with pytest.raises(Conflict, match="name another file"):
        points.require_replaceable(file)


def test_a_point_with_a_book_that_is_not_there_is_refused(location: Location, tmp_path: Path) -> None:
    post(location)
    file = tmp_path / "proven.json"
    points.save(proven(location), file)
    saved = json.loads(file.read_text())
    saved["books"][0]["project"] = "prj_x"
    file.write_text(json.dumps(saved))
    with pytest.raises(Conflict, match="the project prj_x"):
        prove(location, points.read(file))
