"""Who asks, and what they may do."""

from __future__ import annotations

import pytest

from ledger_engine.core.errors import PermissionDenied
from ledger_engine.core.tenant import ROLES, SCOPES, Tenant


def test_every_statement_is_bound_to_the_project_and_the_mode() -> None:
    assert Tenant("prj_1", livemode=True).bind(id="acc_1", note=None) == {
        "id": "acc_1",
        "note": None,
        "project": "prj_1",
        "livemode": True,
    }


def test_no_value_can_stand_in_for_the_callers_own_project() -> None:
    bound = Tenant("prj_mine", livemode=False).bind(project="prj_theirs", livemode=True)
    assert bound == {"project": "prj_mine", "livemode": False}


@pytest.mark.parametrize("has", ROLES)
@pytest.mark.parametrize("needs", ROLES)
def test_a_role_may_do_what_the_lower_ones_may(has: str, needs: str) -> None:
    tenant = Tenant("prj_1", livemode=False, role=has)
    if ROLES.index(has) >= ROLES.index(needs):
        tenant.require_role(needs)
    else:
        with pytest.raises(PermissionDenied) as refused:
            tenant.require_role(needs)
        assert refused.value.code == "missing_role"


@pytest.mark.parametrize("needs", SCOPES)
def test_a_restricted_credential_does_what_its_scopes_grant_and_no_more(needs: str) -> None:
    Tenant("prj_1", livemode=False, scopes=None).require_scope(needs)
    Tenant("prj_1", livemode=False, scopes=frozenset({needs})).require_scope(needs)
    for scopes in (frozenset[str](), frozenset(SCOPES) - {needs}):
        with pytest.raises(PermissionDenied) as refused:
            Tenant("prj_1", livemode=False, scopes=scopes).require_scope(needs)
        assert refused.value.code == "missing_scope"


def test_the_scopes_are_those_of_the_contract() -> None:
    """docs/interface.md#scopes."""
    assert set(SCOPES) == {"read:projects", "write:projects", "read:users", "admin:billing"}
