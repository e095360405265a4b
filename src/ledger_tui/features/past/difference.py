"""The screen of what changed between two moments: its caption counts all of it."""

from __future__ import annotations

from textual.content import Content

from ledger_tui.client.past import PART
from ledger_tui.lists.resource_view import ResourceView

_COUNTED = (
    ("accounts", "account"),
    ("invoices", "invoice"),
    ("users", "user"),
    ("orders", "order"),
    ("keys", "key"),
    ("postings", "posting"),
)


class DifferenceView(ResourceView):
    """A list of changes, each with what explains it in its detail."""

    def news(self) -> Content:
        summary = self.record_list.summary
        counts = ((summary.get(name), one) for name, one in _COUNTED)
        said = [
            f"{count:,} {one}{'' if count == 1 else 's'}"
            for count, one in counts
            if isinstance(count, int) and count
        ]
        if PART in self.context.session.missing_parts:
            said.append("this server shows no more of the past")
        return Content.styled(" · ".join(said) + "   " if said else "", "$muted")
