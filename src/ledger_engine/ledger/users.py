"""Users: the people in a project's directory (docs/decisions.md#directory)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar

from ledger_engine.access import idempotency, quotas
from ledger_engine.access.oauth import grants
from ledger_engine.core import emails
from ledger_engine.core.errors import Conflict, InvalidRequest
from ledger_engine.core.ids import UserId
from ledger_engine.core.records import Moment, OneOf, Pattern
from ledger_engine.core.tenant import ROLES, Tenant
from ledger_engine.events import outbox
from ledger_engine.store import Unit
from ledger_engine.store.pages import Listing
from ledger_engine.store.rows import reader, update_row

NAME_MAX = 255
EMAIL_MAX = 254  # characters: the limit of a mail server (RFC 5321)
PER_PAGE_MAX = 100
PER_PAGE_DEFAULT = 20
PAGE_MAX = 10**12  # no list has this many pages, and the offset of the last row still fits 64 bits
RECOVERABLE_FOR = quotas.RECOVERABLE_FOR

# The pattern checks only the form of an address, because the server cannot know whether mail arrives. \x22 is
# a quotation mark. In a generated client program, the character itself would end the string that contains the
# pattern.
_BARRED = r"\s\x00-\x1f\x7f-\x9f@\x22(),:;<>\[\\\]"
EMAIL_PATTERN = rf"^[^{_BARRED}]+@[^{_BARRED}.]+(\.[^{_BARRED}.]+)*$"
_EMAIL = re.compile(EMAIL_PATTERN)


@dataclass(slots=True)
class User:
    """A user; `name` and `email` are None once they are erased, 30 days after the user was deactivated."""

    OBJECT: ClassVar[str] = "user"

    id: UserId
    name: str | None
    email: Annotated[str, Pattern(EMAIL_PATTERN)] | None
    role: Annotated[str, OneOf(*ROLES)]
    status: Annotated[str, OneOf("active", "deactivated")]
    deactivated_at: Moment | None
    created: Moment
    livemode: bool


@dataclass(slots=True)
class NewUser:
    name: str
    email: str
    role: str = "member"


@dataclass(slots=True)
class NumberedPage:
    """A page of users with its number; `total` counts the users of all pages."""

    items: list[User]
    page: int
    per_page: int
    total: int

    @property
    def total_pages(self) -> int:
        """Return the number of pages."""
        return -(-self.total // self.per_page)


def create(unit: Unit, tenant: Tenant, new: NewUser, key: str | None = None) -> User:
    """Create an active user, and return it.

    Raises PermissionDenied for a role above the credential's role. Raises Conflict `email_taken` if an active
    user of the project and mode has the same email address, ignoring upper and lower case.
    """
    _check(new)
    tenant.require_role(new.role)
    user = User(
        id=unit.new_id("usr"),
        name=new.name,
        email=new.email,
        role=new.role,
        status="active",
        deactivated_at=None,
        created=Moment(unit.now),
        livemode=tenant.livemode,
    )
    idempotency.take(unit, tenant, key, user.id)
    quotas.count_stored(unit, tenant)
    row = unit.first(
        "INSERT INTO users (id, project, livemode, name, email, email_folded, role, created)"
        " VALUES (:id, :project, :livemode, :name, :email, :email_folded, :role, :created)"
        " ON CONFLICT (project, livemode, email_folded) WHERE status = 'active' DO NOTHING RETURNING id",
        tenant.bind(
            id=user.id,
            name=new.name,
            email=new.email,
            email_folded=emails.fold(new.email),
            role=new.role,
            created=user.created,
        ),
    )
    if row is None:
        raise _email_taken(new.email)
    outbox.record(unit, tenant, "user.created", user)
    return user


def get(unit: Unit, tenant: Tenant, id: str, param: str | None = None) -> User:
    """Return the user, active or not.

    Raises NotFound; the error names `param`, the request's field that contains the id.
    """
    return _LISTING.get(unit, tenant, id, param)


def page(
    unit: Unit,
    tenant: Tenant,
    page: int = 1,
    per_page: int = PER_PAGE_DEFAULT,
    *,
    role: str | None = None,
    until: str | None = None,
) -> NumberedPage:
    """Return a page of the users, newest first, including deactivated users.

    A page after the last page is empty. With `until`, return only users whose ids are less than `until`.
    """
    for name, value, most in (("page", page, PAGE_MAX), ("per_page", per_page, PER_PAGE_MAX)):
        if not 1 <= value <= most:
            raise InvalidRequest("invalid_value", f"{name} must be 1 to {most}.", name)
    where = "project = :project AND livemode = :livemode"
    if role is not None:
        _check_role(role)
        where += " AND role = :role"
    if until is not None:
        where += " AND id < :until"
    parameters = tenant.bind(role=role, until=until, rows=per_page, offset=(page - 1) * per_page)
    count_row = unit.first(f"SELECT count(*) AS users FROM users WHERE {where}", parameters)
    assert count_row is not None
    rows = unit.execute(
        f"SELECT * FROM users WHERE {where} ORDER BY id DESC LIMIT :rows OFFSET :offset", parameters
    )
    return NumberedPage([read(row) for row in rows], page, per_page, count_row["users"])


def deactivate(unit: Unit, tenant: Tenant, id: str) -> User:
    """Deactivate the user, and return it; a user who is already deactivated is not changed.

    This revokes the user's grants to apps. The grants stay revoked if the user is restored. Raises
    PermissionDenied if the credential's role is lower than admin.
    """
    tenant.require_role("admin")
    row = update_row(
        unit, tenant, "users", id, "status = 'active'", status="deactivated", deactivated_at=unit.now
    )
    if row is None:
        return get(unit, tenant, id)
    user = read(row)
    grants.revoke_all_of(unit, user.id)
    outbox.record(unit, tenant, "user.deactivated", user)
    return user


def restore(unit: Unit, tenant: Tenant, id: str, key: str | None = None) -> User:
    """Make a deactivated user active again, and return it; an active user is not changed.

    Raises PermissionDenied if the credential's role is lower than admin, or lower than the user's role.
    Raises Conflict `not_recoverable` more than 30 days after the deactivation, even if the user's name and
    address are not erased yet. Raises Conflict `email_taken` if another active user has the address now.
    """
    tenant.require_role("admin")
    idempotency.take(unit, tenant, key, id)
    user_row = _LISTING.row(unit, tenant, id)
    if user_row["status"] == "active":
        return read(user_row)
    tenant.require_role(user_row["role"])
    row = unit.first(
        "UPDATE users SET status = 'active', deactivated_at = NULL"
        " WHERE id = :id AND project = :project AND livemode = :livemode AND status = 'deactivated'"
        " AND erased_at IS NULL AND deactivated_at >= :oldest"
        " AND NOT EXISTS (SELECT 1 FROM users AS other WHERE other.project = :project"
        " AND other.livemode = :livemode AND other.status = 'active'"
        " AND other.email_folded = users.email_folded) RETURNING *",
        tenant.bind(id=id, oldest=unit.now - RECOVERABLE_FOR),
    )
    if row is not None:
        user = read(row)
        outbox.record(unit, tenant, "user.restored", user)
        return user
    if user_row["erased_at"] is None and user_row["deactivated_at"] >= unit.now - RECOVERABLE_FOR:
        raise _email_taken(user_row["email"])
    raise Conflict("not_recoverable", f"{id} was deactivated more than 30 days ago.")


def require_active(unit: Unit, tenant: Tenant, id: str, param: str) -> None:
    """Raise NotFound for an unknown user, and Conflict `user_deactivated` for a deactivated user.

    Both errors name the field `param`.
    """
    if get(unit, tenant, id, param).status != "active":
        raise Conflict("user_deactivated", f"{id} is deactivated.", param)


def expired(unit: Unit, before: int) -> list[str]:
    """Return the ids of the users of all projects who are not erased, and were deactivated before `before`.

    `before` is in milliseconds. The caller, `upkeep.retention`, uses the moment 30 days ago.
    """
    rows = unit.execute(f"SELECT id FROM users WHERE {_EXPIRED} ORDER BY deactivated_at", {"before": before})
    return [row["id"] for row in rows]


def is_expired(unit: Unit, id: str, before: int) -> bool:
    """Return whether `expired` would return the id of this user."""
    row = unit.first(f"SELECT 1 FROM users WHERE id = :id AND {_EXPIRED}", {"id": id, "before": before})
    return row is not None


def erase(unit: Unit, id: str) -> None:
    """Erase the user's name, address and password."""
    unit.execute(
        "UPDATE users SET name = NULL, email = NULL, email_folded = NULL, password_hash = NULL,"
        " erased_at = :now WHERE id = :id",
        {"id": id, "now": unit.now},
    )


_EXPIRED = "deactivated_at < :before AND erased_at IS NULL"


def _check(new: NewUser) -> None:
    if not 1 <= len(new.name) <= NAME_MAX:
        raise InvalidRequest("invalid_value", f"name must have 1 to {NAME_MAX} characters.", "name")
    if len(new.email) > EMAIL_MAX or not new.email.isprintable() or not _EMAIL.fullmatch(new.email):
        raise InvalidRequest(
            "invalid_value",
            f"email must be an address like ada@example.com, of at most {EMAIL_MAX} characters.",
            "email",
        )
    _check_role(new.role)


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise InvalidRequest("invalid_value", "role must be member, admin or owner.", "role")


def _email_taken(email: str) -> Conflict:
    return Conflict("email_taken", f"Another active user already has the address {email}.", "email")


read = reader(User)
_LISTING: Listing[User] = Listing("users", "user", read)
