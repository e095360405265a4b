"""Routes of billing; both go beyond the contract."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ledger_engine.access import projects
from ledger_engine.access.projects import Billing
from ledger_engine.http.bodies import Body
from ledger_engine.http.operations import Call, Routes

routes = Routes("billing", "/v1")


class ChangeBilling(Body):
    # Called only for fields that were sent: the field may be left out, but not be null.
    plan: Literal["free", "pro", "enterprise"] = Field(default_factory=lambda: "free")


@routes.add("GET", "/billing", needs="admin:billing", role="owner")
async def get_billing(call: Call) -> Billing:
    """Get the project's plan, its limits and how much of them is used."""
    return await call.read(projects.billing)


@routes.add("PATCH", "/billing", needs="admin:billing", role="owner")
async def change_billing(call: Call, body: ChangeBilling) -> Billing:
    """Move the project to another plan, at once."""
    if "plan" not in body.model_fields_set:
        return await call.read(projects.billing)
    return await call.write(projects.change_plan, body.plan)
