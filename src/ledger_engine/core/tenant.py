"""Who asks: the project and mode every tenant statement binds, and what the credential may do."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_engine.core.errors import PermissionDenied
from ledger_engine.database import Value

ROLES = ("member", "admin", "owner")  # in rising order
_READS = ("read:projects", "read:users", "admin:billing")
SCOPES = ("read:projects", "write:projects", "read:users", "admin:billing")  # interface.md, Authentication 8


def mode_name(livemode: bool) -> str:
    """`live` or `test`."""
    return "live" if livemode else "test"


@dataclass(slots=True)
class Scope:
    """One caller's view of the ledger. It sees no other project and no other mode (decisions.md 3).

    `scopes` is None for a credential that is not restricted. `quota` is the most stored objects of the
    project and mode, None for no limit. `credential` is the id of the API key or app behind the request,
    None for the local administrator; `request` the id of the request.
    """

    project: str
    livemode: bool
    role: str = "owner"
    scopes: frozenset[str] | None = None
    quota: int | None = None
    may_overdraw: bool = True
    credential: str | None = None
    request: str | None = None

    def bind(self, **values: Value) -> dict[str, Value]:
        """The statement's parameters together with `:project` and `:livemode`."""
        values["project"] = self.project
        values["livemode"] = self.livemode
        return values

    def may_see_users(self) -> bool:
        """Whether names and addresses may be read, wherever they stand."""
        return self.scopes is None or "read:users" in self.scopes

    def may_see_bodies(self) -> bool:
        """Whether what other requests brought and were answered may be read: it can be anything."""
        return self.scopes is None or self.scopes.issuperset(_READS)

    def require_role(self, role: str) -> None:
        """Raise PermissionDenied unless the credential has this role or a higher one."""
        if ROLES.index(self.role) < ROLES.index(role):
            raise PermissionDenied(
                "missing_role", f"This needs the role {role}; this credential has {self.role}."
            )

    def require_scope(self, scope: str) -> None:
        """Raise PermissionDenied when the credential is restricted and lacks the scope."""
        if self.scopes is not None and scope not in self.scopes:
            raise PermissionDenied(
                "missing_scope", f"This needs the scope {scope}, which this credential lacks."
            )
