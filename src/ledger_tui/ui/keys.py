"""All keys of the dashboard. The help, the key bar and the key map are built from these bindings.

Each binding has an id, by which the config file can assign another key to it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.dom import DOMNode
from textual.widget import Widget

from ledger_tui.resources.registry import PLACES, RESOURCES, TEST_HELPERS


def _key(keys: str, action: str, text: str, *, show: bool = False, priority: bool = False) -> Binding:
    name = action.removeprefix("app.").removeprefix("screen.").replace("(", ".").rstrip(")").replace("'", "")
    return Binding(keys, action, text, show=show, priority=priority, id=name)


# The application's own keys, which also work while a dialog is open.
APP_KEYS: list[BindingType] = [_key("ctrl+z", "suspend_process", "suspend (fg resumes)", priority=True)]

SCREEN_KEYS: list[BindingType] = [
    _key(place.key, f"show('{place.kind}')", place.title) for place in (*PLACES, TEST_HELPERS)
]

# One key may mean different actions on different screens: only those of the shown resource are active.
ACTION_KEYS: list[BindingType] = [
    _key(action.key, f"act('{action.name}')", action.label, show=True)
    for action in dict.fromkeys(action for resource in RESOURCES for action in resource.actions)
]
RELATED_KEYS: list[BindingType] = [
    _key(related_view.key, f"go('{related_view.name}')", related_view.label, show=True)
    for related_view in dict.fromkeys(
        related_view for resource in RESOURCES for related_view in resource.related
    )
]

GLOBAL_KEYS: list[BindingType] = [
    *SCREEN_KEYS,
    _key("question_mark", "help", "keys", show=True),
    _key("q", "app.quit", "quit", show=True),
    _key("colon", "command_line", "command line"),
    _key("left_square_bracket", "travel(-1)", "go back"),
    _key("right_square_bracket", "travel(1)", "go forward"),
    _key("J", "raw", "raw JSON"),
    _key("i", "ids", "jump to an id in the record"),
    _key("comma", "step(-1)", "an event back in time"),
    _key("full_stop", "step(1)", "an event forth in time"),
    _key("T", "trace", "trace", show=True),
    _key("ctrl+e", "export", "export the list"),
    _key("ctrl+t", "themes", "themes"),
    _key("S", "app.sign_in", "sign in", show=True),
    _key("R", "app.repair", "repair a demo's receiver, or restart the server", show=True),
]

# Of the time machine, while the past is shown: nothing is written, and these come before a screen's keys.
PAST_KEYS: list[BindingType] = [
    _key("space", "past('play')", "play what happened", show=True, priority=True),
    _key("a", "past('a')", "the first moment to compare", priority=True),
    _key("b", "past('b')", "the second moment", priority=True),
    _key("d", "past('compare')", "what changed between them", show=True, priority=True),
    _key("escape", "past('now')", "back to now", show=True),
]

_BACK = _key("escape", "back", "back", show=True)
_REFRESH = _key("r", "refresh", "refresh")
_COPY: list[BindingType] = [
    _key("y", "screen.copy_id", "copy the id"),
    _key("c", "screen.copy_curl", "copy as curl, compare accounts"),
]

# The keys of every view, then those of a list, in the order of the key bar.
VIEW_KEYS: list[BindingType] = [_BACK, _REFRESH, *_COPY]
RESOURCE_KEYS: list[BindingType] = [
    _key("enter", "open", "open", show=True),
    _BACK,
    _key("slash", "filter", "filter", show=True),
    _key("n", "create", "new", show=True),
    _key("x", "transfer", "transfer", show=True),
    _key("e", "edit", "edit", show=True),
    _REFRESH,
    _key("f", "follow", "follow"),
    _key("l", "locate", "show it in the list", show=True),
    *ACTION_KEYS,
    *RELATED_KEYS,
    *_COPY,
    _key("o", "arrange", "sort, choose columns"),
    _key("m", "look", "search older rows", show=True),
    _key("z", "panes", "list, both or detail"),
    _key("less_than_sign", "widen(-1)", "narrow the list"),
    _key("greater_than_sign", "widen(1)", "widen the list"),
    _key("t", "times", "times as UTC, local, relative"),
    _key("b", "batch", "post a file of transactions"),
    _key("P", "program('PAGER')", "show in $PAGER"),
    _key("E", "program('EDITOR')", "open in $EDITOR"),
]

REQUESTS_KEYS: list[BindingType] = [
    _key("e", "edit_request", "edit and send again", show=True),
]

EVENTS_KEYS: list[BindingType] = [
    _key("p", "pause", "pause or resume", show=True),
]

# The first two instead of Textual's own, which move the focus.
TILE_KEYS: list[BindingType] = [
    _key("tab", "tile(1)", "next tile", show=True),
    _key("shift+tab", "tile(-1)", "previous tile", show=True),
    _key("down,j", "choose(1)", "next row of the tile"),
    _key("up,k", "choose(-1)", "row before it"),
    _key("enter", "open", "open", show=True),
]

COMPARE_KEYS: list[BindingType] = [
    _key("plus", "window(1)", "longer", show=True),
    _key("minus", "window(-1)", "shorter", show=True),
    _key("g", "unit", "by day, week or month", show=True),
]

FLOW_KEYS: list[BindingType] = [
    _key("plus", "window(1)", "longer", show=True),
    _key("minus", "window(-1)", "shorter", show=True),
    _key("p", "unusual", "only what is unusual", show=True),
]

HELPER_KEYS: list[BindingType] = [
    _key("enter", "open", "go back to the snapshot", show=True),
    _key("a", "helper('advance')", "advance the clock", show=True),
    _key("p", "helper('stop')", "stop the clock or let it run", show=True),
    _key("n", "helper('snapshot')", "take a snapshot", show=True),
    _key("b", "helper('fault')", "let requests or webhooks fail", show=True),
    _key("e", "helper('trigger')", "make an event happen", show=True),
    _key("v", "delete_helper", "delete the snapshot, end the fault", show=True),
    _key("x", "helper('reset')", "empty this project", show=True),
]

TRACE_KEYS: list[BindingType] = [
    _key("enter", "open", "open", show=True),
    _key("s", "send_again", "send again", show=True),
]

TOKEN_KEYS: list[BindingType] = [
    _key("x", "exchange", "exchange for tokens", show=True),
    _key("t", "rotate", "rotate now", show=True),
    _key("u", "use_key", "use the key again", show=True),
]

TABLE_KEYS: list[BindingType] = [
    _key("up,k", "move(-1)", "up"),
    _key("down,j", "move(1)", "down"),
    _key("pageup,ctrl+b", "move_pages(-1)", "page up"),
    _key("pagedown,ctrl+f", "move_pages(1)", "page down"),
    _key("home", "newest", "the newest"),
    # By the name that the key has in lists: who changes it there changes it everywhere.
    Binding("g", "newest", "the newest", show=False, id="group"),
    _key("end,G", "oldest", "the oldest loaded, then the oldest"),
]

LIST_TABLE_KEYS: list[BindingType] = [
    *TABLE_KEYS[:5],
    _key("g", "screen.group", "sums of postings, or the newest"),
    *TABLE_KEYS[6:],
    _key("space", "mark", "mark", show=True),
    _key("ctrl+a", "mark_all", "mark all loaded rows"),
]

MOST_KEYS_IN_BAR = 12

# The keys of the bar in its order, the most useful first; those of a dialog, not listed, come before.
# Where it is too narrow for all, the last are left out, but never the key of the help.
_BY_USE = (
    "open",
    "past(",
    "back",
    "app.repair",
    "app.sign_in",
    "pause",
    "send_again",
    "exchange",
    "rotate",
    "filter",
    "create",
    "edit",
    "go(",
    "act(",
    "locate",
    "trace",
    "transfer",
    "use_key",
    "delete_helper",
    "helper",
    "look",
    "mark",
    "window",
    "unusual",
    "unit",
    "tile(",
    "help",
    "app.quit",
)


def usefulness(action: str) -> int:
    """Return the place of an action in the key bar."""
    return next((n for n, name in enumerate(_BY_USE, 1) if action.startswith(name)), 0)


_GAP = "   "


@runtime_checkable
class NamesItsKeys(Protocol):
    """A widget whose keys have descriptions that change."""

    def key_text(self, binding: Binding) -> str:
        """Return the description of a key as it is now."""


class _Shown(NamedTuple):
    """One key of the bar: the text, its rank, and what a click on it runs."""

    text: Content
    rank: tuple[bool, bool, int]  # the highest is left out first
    action: str
    node: DOMNode
    enabled: bool


class KeyBar(Widget):
    """One line made from the bindings that are active at the focused widget. A click presses the key."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: list[_Shown] = []

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.refresh())

    def render(self) -> Content:
        shown: dict[str, _Shown] = {}
        by_use = sorted(
            self.screen.active_bindings.values(), key=lambda each: usefulness(each.binding.action)
        )
        for node, binding, enabled, _tip in by_use:
            if not binding.show or binding.action in shown:
                continue
            key = self.app.get_key_display(binding)
            caption = node.key_text(binding) if isinstance(node, NamesItsKeys) else binding.description
            style = "bold $accent" if enabled else "$faint"
            text = "$muted" if enabled else "$faint"
            drawn = Content.assemble((key, style), (f" {caption}", text))
            # Disabled keys are left out first, then the least useful.
            rank = (not enabled, binding.action != "help", usefulness(binding.action))
            shown[binding.action] = _Shown(drawn, rank, binding.action, node, enabled)
        while len(shown) > MOST_KEYS_IN_BAR or (len(shown) > 1 and self._width(shown) > self.size.width):
            del shown[max(reversed(shown), key=lambda action: shown[action].rank)]
        self._shown = [*shown.values()]
        return Content(_GAP).join([each.text for each in self._shown])

    def on_click(self, event: events.Click) -> None:
        left = self.styles.padding.left
        for each in self._shown:
            right = left + each.text.cell_length
            if left <= event.x < right:
                if each.enabled:
                    self.screen.call_later(self.app.run_action, each.action, each.node)
                return
            left = right + len(_GAP)

    @staticmethod
    def _width(shown: dict[str, _Shown]) -> int:
        return sum(each.text.cell_length for each in shown.values()) + len(_GAP) * (len(shown) - 1)
