"""The tenant of a request: its project, its mode, and the rights of its credential."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_engine.core.errors import PermissionDenied

ROLES = ("member", "admin", "owner")  # from the lowest to the highest
_READS = ("read:projects", "read:users", "admin:billing")
SCOPES = ("read:projects", "write:projects", "read:users", "admin:billing")  # see docs/interface.md#scopes


def mode_name(livemode: bool) -> str:
    """Return `live` or `test`."""
    return "live" if livemode else "test"


@dataclass(slots=True)
class Tenant:
    """The project and the mode to which a caller's statements are limited, and the caller's rights.

    The caller sees no other project and no other mode (docs/decisions.md#projects-modes).

    - `scopes` is None for a credential that is not restricted.
    - `quota` is the highest number of stored objects in the project and mode; None for no limit.
    - `may_overdraw` is true if the project allows transactions that make a balance negative.
    - `credential` is the id of the API key or app behind the request. It is None for the local administrator,
      who runs commands on the database.
    - `request` is the id of the request. `traceparent` is the value of its header `traceparent`, if valid.
    - `fingerprint` is the hash that is stored with the idempotency key; None for a request without a key.
    """

    project: str
    livemode: bool
    role: str = "owner"
    scopes: frozenset[str] | None = None
    quota: int | None = None
    may_overdraw: bool = True
    credential: str | None = None
    request: str | None = None
    traceparent: str | None = None
    fingerprint: int | None = None

    @property
    def book(self) -> tuple[str, bool]:
        """Return the project's id, and whether the mode is live. Together they identify the tenant's book."""
        return self.project, self.livemode

    def bind(self, **values: str | int | None) -> dict[str, str | int | None]:
        """Return parameters for an SQL statement: `values`, `:project` and `:livemode`."""
        values["project"] = self.project
        values["livemode"] = self.livemode
        return values

    def may_see_users(self) -> bool:
        """Return whether the credential may read the names and e-mail addresses of users, in any object."""
        return self.scopes is None or "read:users" in self.scopes

    def may_see_bodies(self) -> bool:
        """Return whether the credential may read the bodies of other requests and answers.

        A body can contain any data of the project. So to read a body, the credential needs every scope that
        permits reading.
        """
        return self.scopes is None or self.scopes.issuperset(_READS)

    def require_role(self, role: str) -> None:
        """Raise PermissionDenied unless the credential has this role or a higher role."""
        if ROLES.index(self.role) < ROLES.index(role):
            raise PermissionDenied(
                "missing_role", f"This needs the role {role}; this credential has the role {self.role}."
            )

    def require_scope(self, scope: str) -> None:
        """Raise PermissionDenied if the credential is restricted and lacks the scope."""
        if self.scopes is not None and scope not in self.scopes:
            raise PermissionDenied(
                "missing_scope", f"This needs the scope {scope}; this credential lacks it."
            )
