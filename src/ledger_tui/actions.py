"""Every key of the dashboard, in one place. The help, the key bar and the key map are made from these.

Each binding has an id, by which a config file can give it another key.
"""

from __future__ import annotations

from textual.binding import Binding, BindingType

from ledger_tui.resources.registry import RESOURCES


def _key(keys: str, action: str, text: str, *, show: bool = False, label: str | None = None) -> Binding:
    name = action.removeprefix("app.").removeprefix("screen.").replace("(", ".").rstrip(")").replace("'", "")
    return Binding(keys, action, text, show=show, key_display=label, id=name)


SCREEN_KEYS: list[BindingType] = [
    _key(resource.key, f"show('{resource.kind}')", resource.title) for resource in RESOURCES
]

# One key may stand for different actions on different screens: only the shown resource's are active.
ACTION_KEYS: list[BindingType] = [
    _key(action.key, f"act('{action.name}')", action.label, show=True)
    for action in dict.fromkeys(action for resource in RESOURCES for action in resource.actions)
]

GLOBAL_KEYS: list[BindingType] = [
    *SCREEN_KEYS,
    _key("question_mark", "help", "keys", show=True, label="?"),
    _key("q", "app.quit", "quit", show=True),
]

VIEW_KEYS: list[BindingType] = [
    _key("enter", "open", "open", show=True),
    _key("escape", "back", "back", show=True, label="esc"),
    _key("slash", "filter", "filter", show=True, label="/"),
    _key("n", "create", "new", show=True),
    _key("r", "refresh", "refresh"),
    _key("f", "follow", "follow"),
    *ACTION_KEYS,
    _key("y", "screen.copy_id", "copy the id"),
    _key("c", "screen.copy_curl", "copy as curl"),
]

TABLE_KEYS: list[BindingType] = [
    _key("up,k", "move(-1)", "up", label="↑"),
    _key("down,j", "move(1)", "down", label="↓"),
    _key("pageup,ctrl+b", "move_pages(-1)", "page up", label="PgUp"),
    _key("pagedown,ctrl+f,space", "move_pages(1)", "page down", label="PgDn"),
    _key("home,g", "newest", "the newest", label="Home"),
    _key("end,G", "oldest", "the oldest loaded", label="End"),
]

MOST_KEYS_IN_BAR = 7
