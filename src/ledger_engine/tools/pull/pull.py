"""One pull: the lists of the source are read page by page and kept, then applied in turns.

An interrupted pull goes on where it was, whether it was reading or applying. Lists are read from their newest
record, so what is made meanwhile is above where the reading began: after a pull that was interrupted another
pass brings it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ledger_client.calls import Page
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger.accounts import TRANSACTIONS
from ledger_engine.store import Unit, books
from ledger_engine.store.engine import Engine
from ledger_engine.tools.pull import applying, staging
from ledger_engine.tools.pull.applying import Applied, Unusable, id_of
from ledger_engine.tools.pull.remote import LISTS, CursorLost, ListOf, PullFailed, Remote
from ledger_engine.tools.pull.staging import Book, Origin

_READ_AGAIN_MAX = 5  # times, for a list of invoices that changes under the reading

ReportProgress = Callable[[str, int], None]  # with what is done, and for how many further records


@dataclass(slots=True)
class Pulled:
    """What a pull has brought, and what the source does not show."""

    project: str
    livemode: bool
    applied: Applied
    not_shown: list[str] = field(default_factory=list)


async def identify(remote: Remote, key: str) -> Origin:
    """Return what the key of the remote shows. Raises PullFailed when it shows nothing."""
    await remote.page(LISTS[-1], None)
    whoami = await remote.get("/v1/whoami")
    project = None if whoami is None else whoami.get("project")
    livemode = key.startswith("sk_live_")
    if not key.startswith(("sk_live_", "sk_test_")):
        if whoami is None or not isinstance(whoami.get("livemode"), bool):
            raise PullFailed(
                "The mode of this key is unknown. Give a key that begins with sk_test_ or sk_live_."
            )
        livemode = whoami["livemode"]
    return Origin(remote.url, livemode, project if isinstance(project, str) else None)


async def pull(remote: Remote, engine: Engine, origin: Origin, report: ReportProgress) -> Pulled:
    """Bring everything that is new at the source into the copy. Raises PullFailed, Conflict and others."""
    book = await engine.write(partial(staging.ensure, origin=origin))
    pulled = Pulled(book.tenant.project, book.tenant.livemode, Applied())
    await _require_same(remote, engine, book)
    interrupted = bool(await engine.read(partial(staging.readings, book=book)))
    await _pass(remote, engine, book, pulled, report)
    if interrupted:
        await _pass(remote, engine, book, pulled, report)
    return pulled


async def _pass(remote: Remote, engine: Engine, book: Book, pulled: Pulled, report: ReportProgress) -> None:
    """Go on with the pass that was begun, or begin one; read all lists, and apply what was read."""
    applied, pulled.not_shown = Applied(), []
    lists = await engine.read(partial(staging.readings, book=book))
    if not lists:
        await engine.write(partial(staging.begin, book=book))
        lists = await engine.read(partial(staging.readings, book=book))
    for listed in LISTS:
        await _read(remote, engine, book, listed, pulled, report)
    for kind in applying.KINDS:
        while (turn := await engine.write(partial(applying.apply_turn, book=book, kind=kind))) is not None:
            applied.add(turn)
            report(f"Storing {kind}", turn.new[kind])
    doubtful = await engine.read(partial(_unlike, tenant=book.tenant, shown=applied.shown))
    for account in sorted(doubtful | applied.unproven - applied.shown.keys()):
        await _require_balance(remote, engine, book.tenant, account)
    await engine.write(partial(staging.finish, book=book))
    pulled.applied.add(applied)


async def _read(
    remote: Remote, engine: Engine, book: Book, listed: ListOf, pulled: Pulled, report: ReportProgress
) -> None:
    """Read the list down to the newest record that the copy has, and keep each page.

    When the server does not know a cursor, begin once more.
    """
    lost = False
    for _ in range(_READ_AGAIN_MAX):
        before: list[str] = []
        while not (reading := (await engine.read(partial(staging.readings, book=book)))[listed.kind]).done:
            try:
                page = await remote.page(listed, reading.cursor or None)
            except CursorLost:
                if lost:
                    raise
                lost, before = True, []
                await engine.write(partial(staging.again, book=book, kind=listed.kind))
                continue
            if page is None:
                pulled.not_shown.append(listed.kind)
                await engine.write(partial(staging.keep, book=book, reading=reading, records=[], after=None))
                return
            ids = _ids(listed, page, before, engine.clock.machine())
            before = ids
            records = [
                (id, record)
                for id, record in zip(ids, page.rows, strict=True)
                if not listed.grows or id > reading.until
            ]
            ends = page.after is None or len(records) < len(page.rows)
            after = None if ends else page.after
            await engine.write(
                partial(staging.keep, book=book, reading=reading, records=records, after=after)
            )
            report(f"Reading {listed.kind}", len(records))
        if listed.kind != "invoices":
            return
        if not await engine.read(partial(applying.numbers_have_a_gap, book=book)):
            return
        await engine.write(partial(staging.again, book=book, kind=listed.kind))
    raise PullFailed("The numbers of the source's invoices have a gap, so a copy would not verify.")


def _ids(listed: ListOf, page: Page, before: list[str], now: int) -> list[str]:
    """Return the ids of the page's records, which must be in the list's order; `before` is the page before.

    Raises PullFailed, also for a page that leads on and has nothing new: the list would never end.
    """
    ids: list[str] = []
    last = before[-1] if before else None
    for record in page.rows:
        try:
            id = id_of(record, listed.prefix, now)
        except Unusable as error:
            raise PullFailed(f"The source cannot be copied: in {listed.path} {error}.") from error
        if listed.grows and last is not None and id >= last:
            raise PullFailed(
                f"The source cannot be copied: {listed.path} has {id} after {last}, so the order of its ids"
                " is not that of time."
            )
        last = id
        ids.append(id)
    if page.after is not None and set(ids) <= set(before):
        raise PullFailed(f"{listed.path} has more, but the next page brings nothing new. Is it a ledger?")
    return ids


async def _require_same(remote: Remote, engine: Engine, book: Book) -> None:
    """Raise PullFailed when the source does not show what the copy has of it: it is another project's."""
    newest = await engine.read(partial(staging.newest, book=book, table="accounts"))
    if newest and await remote.get(f"/v1/accounts/{newest}") is None:
        raise PullFailed(
            f"The source no longer has the account {newest}, which the copy has. Is the key"
            " of another project?"
        )


async def _require_balance(remote: Remote, engine: Engine, tenant: Tenant, account: str) -> None:
    """Raise PullFailed when the source shows another balance than the account's transactions add up to.

    Nothing is said while the account is posted to: the next pull looks again.
    """
    ours = await engine.read(partial(_balance, tenant=tenant, account=account))
    shown = await remote.get(f"/v1/accounts/{account}")
    if shown is None or shown.get("balance") == ours[0]:
        return
    listed = next(each for each in LISTS if each.kind == "transactions")
    page = await remote.page(listed, None, account=account, limit="1")
    newest = None if page is None or not page.rows else page.rows[0].get("id")
    if newest == ours[1]:
        raise PullFailed(
            f"The source shows the balance {shown.get('balance')} for {account}, but its transactions"
            f" add up to {ours[0]}."
        )


def _unlike(unit: Unit, tenant: Tenant, shown: dict[str, int]) -> set[str]:
    """Return the accounts that the copy has at another balance than they were shown at."""
    return {account for account, balance in shown.items() if _balance(unit, tenant, account)[0] != balance}


def _balance(unit: Unit, tenant: Tenant, account: str) -> tuple[int, str | None]:
    row = unit.first(
        "SELECT balance,"
        f" (SELECT id FROM {TRANSACTIONS} WHERE account = :account ORDER BY id DESC LIMIT 1) AS newest"
        f" FROM accounts WHERE id = :account AND {books.OF_TENANT}",
        tenant.bind(account=account),
    )
    return (0, None) if row is None else (row["balance"], row["newest"])


async def release(engine: Engine, origin: Origin) -> None:
    """Make the copy a ledger of its own."""

    def work(unit: Unit) -> None:
        staging.release(unit, staging.ensure(unit, origin))

    await engine.write(work)
