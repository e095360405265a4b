"""Opens the trace of the selected object, or returns why it has none."""

from __future__ import annotations

from functools import partial

from ledger_tui.app.navigation import Navigation
from ledger_tui.formats.text import sentence, with_article
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.registry import TRACE, TRACED, resource_of_id
from ledger_tui.ui.view import View

_CHOOSE = "Choose an object, an event or a request first: T traces it."
_ALREADY_SHOWN = "You are already looking at the trace of this object."
_WHAT_IS_TRACED = "T traces accounts, transactions, invoices, users, orders, events, deliveries and requests."


async def trace(navigation: Navigation) -> None:
    """Trace the selected object, event, delivery or request.

    If the list is still loading, trace the first row of the list as soon as this row is loaded.
    """
    view = navigation.view
    record, kind = view.record_being_read(), _kind_of_selected(view)
    if record is not None and kind:
        await navigation.open_trace(kind, record)
    elif isinstance(view, ResourceView) and _is_loading(view):
        view.when_loaded(partial(_trace_first, navigation, view))
    else:
        navigation.notify(_CHOOSE)


async def _trace_first(navigation: Navigation, view: ResourceView) -> None:
    """Trace the first row of a list that was still loading when the key was pressed."""
    if view is navigation.view:
        await trace(navigation)


def is_possible(view: View) -> bool:
    """Return whether the view has an object to trace, or a list that is still loading such an object."""
    return bool(_kind_of_selected(view) and not _is_own_trace(view)) or _is_loading(view)


def why_not(view: View) -> str:
    """Return why the key of the trace does nothing now."""
    if _is_own_trace(view):
        return _ALREADY_SHOWN
    if isinstance(view, ResourceView) and view.selected is not None:
        return f"{sentence(with_article(view.resource.singular))} has no trace. {_WHAT_IS_TRACED}"
    return _CHOOSE


def _is_loading(view: View) -> bool:
    """Return whether the view is a list of objects that can be traced, and its rows are not loaded yet."""
    return isinstance(view, ResourceView) and view.place.kind in TRACED and view.model.is_loading


def _is_own_trace(view: View) -> bool:
    """Return whether the view is the trace of the selected object."""
    return view.place is TRACE and view.location.record_id == view.selected_id


def _kind_of_selected(view: View) -> str:
    """Return the kind of the selected record if the record can be traced; otherwise ""."""
    resource = resource_of_id(view.selected_id)
    kind = view.place.kind if (view.selected or {}).get("method") else resource.kind if resource else ""
    return kind if kind in TRACED else ""
