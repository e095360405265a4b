"""Routes of users, on the directory surface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from ledger_engine.http.bodies import Body
from ledger_engine.http.lists import DIGITS, LookingBack
from ledger_engine.http.operations import Call, Routes
from ledger_engine.ledger import past, users
from ledger_engine.ledger.users import User

routes = Routes("users", "/api")

Role = Literal["member", "admin", "owner"]


class CreateUser(Body):
    name: Annotated[str, Field(min_length=1, max_length=users.NAME_MAX)]
    email: Annotated[str, Field(max_length=users.EMAIL_MAX)]
    role: Role | None = "member"


class ListUsers(LookingBack):
    page: Annotated[int, Field(ge=1, le=users.PAGE_MAX), DIGITS] = 1
    per_page: Annotated[int, Field(ge=1, le=users.PER_PAGE_MAX), DIGITS] = users.PER_PAGE_DEFAULT
    role: Role | None = None


@dataclass(slots=True)
class UserPage:
    """One numbered page; `total` and `total_pages` count all users that match the filter."""

    data: list[User]
    page: int
    per_page: int
    total: int
    total_pages: int


@routes.add("GET", "/users", needs="read:users", answer=UserPage, in_contract=True)
async def list_users(call: Call, query: ListUsers) -> dict[str, Any]:
    """List the users, newest first."""
    at = query.moment(call.engine.clock)
    if at is None:
        page = await call.read(users.page, query.page, query.per_page, role=query.role)
        data: list[Any] = page.items
    else:
        page, data = await call.read(past.user_page, query.page, query.per_page, at, role=query.role)
    return {
        "data": data,
        "page": page.page,
        "per_page": page.per_page,
        "total": page.total,
        "total_pages": page.total_pages,
    }


@routes.add("POST", "/users", needs="write:projects", status=201, in_contract=True)
async def create_user(call: Call, body: CreateUser) -> User:
    """Create a user."""
    return await call.write(
        users.create, users.NewUser(body.name, body.email, body.role or "member"), call.idempotency_key
    )


@routes.add("GET", "/users/<id>", needs="read:users", in_contract=True)
async def get_user(call: Call, id: str, query: LookingBack) -> User | dict[str, Any]:
    """Get one user."""
    at = query.moment(call.engine.clock)
    if at is not None:
        return await call.read(past.user, id, at)
    return await call.read_short(users.get, id)


@routes.add("DELETE", "/users/<id>", needs="write:projects", role="admin", in_contract=True)
async def deactivate_user(call: Call, id: str) -> User:
    """Deactivate a user."""
    return await call.write(users.deactivate, id)


@routes.add("POST", "/users/<id>/restore", needs="write:projects", role="admin")
async def restore_user(call: Call, id: str) -> User:
    """Restore a user within 30 days of the deactivation."""
    return await call.write(users.restore, id, call.idempotency_key)
