"""The view class of each screen. The rarer ones are imported when first shown."""

from __future__ import annotations

from importlib import import_module

from ledger_tui.resources.base import Place, Resource
from ledger_tui.widgets.resource_view import ResourceView
from ledger_tui.widgets.view import Context, View

_RARER = ("overview", "token_view", "events_view", "requests_view", "trace_view", "test_helpers_view")


def load_rarer_views() -> None:
    """Import the rarer views in advance, off the event loop, once the first screen is drawn."""
    for name in _RARER:
        import_module(f"ledger_tui.widgets.{name}")


def make_view(place: Place, context: Context) -> View:
    """Return a new view of a screen."""
    if place.kind == "overview":
        from ledger_tui.widgets.overview import Overview

        return Overview(place, context)
    if place.kind == "token":
        from ledger_tui.widgets.token_view import TokenView

        return TokenView(place, context)
    if place.kind == "trace":
        from ledger_tui.widgets.trace_view import TraceView

        return TraceView(place, context)
    if place.kind == "test_helpers":
        from ledger_tui.widgets.test_helpers_view import HelpersView

        return HelpersView(place, context)
    assert isinstance(place, Resource)
    if place.kind == "events":
        from ledger_tui.widgets.events_view import EventsView

        return EventsView(context)
    if place.kind == "requests":
        from ledger_tui.widgets.requests_view import RequestsView

        return RequestsView(context)
    return ResourceView(place, context)
