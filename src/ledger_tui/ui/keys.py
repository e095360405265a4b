"""Defines all keys of the dashboard.

The help, the key bar and the key map use these bindings. The config file assigns another key to a binding by
the binding's id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from textual.binding import Binding, BindingType

from ledger_tui.resources.base import Resource
from ledger_tui.resources.registry import PLACE_OF_KIND, PLACES, RESOURCES, TEST_HELPERS


class Letter(NamedTuple):
    """A letter's verb, and the actions with this verb. The screen and its object decide which action runs."""

    verb: str
    actions: tuple[str, ...]


# All letters of the dashboard's screens. A letter stands for the same verb on every screen; a dialog defines
# letters of its own. docs/dashboard-keys.md gives the reasons.
LETTERS: Mapping[str, Letter] = {
    "a": Letter("compare from", ("past('a')",)),
    "b": Letter("compare to", ("past('b')",)),
    "c": Letter("copy as curl", ("screen.copy_curl",)),
    "d": Letter("compare", ("past('compare')", "screen.compare")),
    "D": Letter("delete", ("act('delete_endpoint')",)),
    "e": Letter("edit", ("edit", "edit_request")),
    "E": Letter("editor", ("program('EDITOR')",)),
    "f": Letter("follow", ("follow",)),
    "F": Letter("finalize", ("act('finalize')",)),
    "g": Letter("group", ("screen.group", "unit")),
    "G": Letter("oldest", ("oldest",)),
    "h": Letter("history", ("go('statement')", "go('deliveries')")),
    "H": Letter("test helpers", ("show('test_helpers')",)),
    "i": Letter("ids", ("ids",)),
    "j": Letter("down", ("move(1)", "choose(1)")),
    "J": Letter("JSON", ("raw",)),
    "k": Letter("up", ("move(-1)", "choose(-1)")),
    "l": Letter("locate", ("locate",)),
    "L": Letter("roll", ("act('roll')", "act('roll_secret')", "rotate")),
    "m": Letter("more", ("look",)),
    "n": Letter("new", ("create", "exchange", "snapshot")),
    "o": Letter("order", ("arrange",)),
    "p": Letter("pay", ("act('pay')", "act('pay_order')")),
    "P": Letter("pager", ("program('PAGER')",)),
    "q": Letter("quit", ("app.quit",)),
    "r": Letter("refresh", ("refresh",)),
    "R": Letter("repair", ("app.repair",)),
    "s": Letter("send", ("act('ship')", "act('resend')", "act('resend_delivery')", "send_again")),
    "S": Letter("sign in", ("app.sign_in",)),
    "t": Letter("times", ("times",)),
    "T": Letter("trace", ("trace",)),
    "u": Letter("undo", ("take_back",)),
    "U": Letter("reverse", ("act('reverse')", "act('restore')", "act('enable')", "use_key")),
    "v": Letter("void", ("act('void')",)),
    "V": Letter("verify", ("prove",)),
    "w": Letter("webhook endpoints", ("go('endpoints')",)),
    "x": Letter("transfer", ("transfer",)),
    "X": Letter("disable", ("act('deactivate')", "act('disable')", "act('revoke')")),
    "y": Letter("copy the id", ("screen.copy_id",)),
    "z": Letter("panes", ("panes",)),
}
_LETTER_OF = {action: letter for letter, each in LETTERS.items() for action in each.actions}

# The order of the actions in the key bar and in the offers of an empty command line. Other actions, such as
# moves of the cursor, are not in the bar. Only an open dialog adds actions of its own, which come first.
_BY_USE = (
    "past('now')",
    "past('play')",
    "past('a')",
    "past('b')",
    "past('compare')",
    "open",
    "back",
    "take_back",
    "locate",
    "app.repair",
    "app.sign_in",
    "send_again",
    "exchange",
    "rotate",
    "use_key",
    "filter",
    "create",
    "transfer",
    "snapshot",
    "go",
    "act",
    "edit",
    "edit_request",
    "look",
    "step(-1)",
    "step(1)",
    "command_line",
    "trace",
    "screen.compare",
    "window",
    "unit",
    "screen.group",
    "follow",
    "tile",
    "mark",
    "ids",
    "screen.copy_id",
    "arrange",
    "export",
    "prove",
    "mark_all",
    "raw",
    "screen.copy_curl",
    "panes",
    "times",
    "travel",
    "refresh",
    "program",
    "widen",
    "themes",
    "help",
    "app.quit",
)
# The actions that come first in the key bar: `FIRST_IN_PAST` while the past is shown, `FIRST_COMPARING` while
# a moment is marked, `FIRST_ON_MARKED` while rows are marked, and `FIRST_ON` on the screens that it names.
FIRST_IN_PAST = (
    "past('now')",
    "back",
    "open",
    "step(-1)",
    "step(1)",
    "past('a')",
    "past('b')",
    "past('play')",
    "past('compare')",
)
FIRST_COMPARING = (*FIRST_IN_PAST[:-2], "past('compare')", "past('play')")
# Only the actions on the marked objects, such as `pay`, come even before `FIRST_ON_MARKED`.
FIRST_ON_MARKED = ("screen.compare", "export", "back", "mark")
# While a detail is open, the actions on its object, such as `pay`, come after `FIRST_IN_DETAIL`.
FIRST_IN_DETAIL = ("back", "move(-1)", "move(1)", "select", "take_back")
FIRST_ON = {"events": ("open", "select", "trace"), "deliveries": ("open", "select", "trace")}


def usefulness(action: str) -> int:
    """Return the place of an action in `_BY_USE`; 1 is the first, and 0 means that the list lacks it."""
    name = action.partition("(")[0]
    return next((n for n, each in enumerate(_BY_USE, 1) if each in (action, name)), 0)


def first_in_view(kind: str, acts: Sequence[str], *, is_open: bool, has_marks: bool) -> Sequence[str]:
    """Return the actions that come first in the key bar of a screen. `acts` are the actions on its objects.

    `is_open` is whether a detail is open, and `has_marks` whether rows are marked.
    """
    names = [f"act('{name}')" for name in acts]
    if is_open:
        return [*FIRST_IN_DETAIL, *FIRST_ON.get(kind, ()), *names]
    return [*names, *FIRST_ON_MARKED] if has_marks else FIRST_ON.get(kind, ())


def _key(action: str, text: str, *keys: str, priority: bool = False) -> Binding:
    """Return a binding of these keys, and of the letter of the action if it has one."""
    name = action.removeprefix("app.").removeprefix("screen.").replace("(", ".").rstrip(")").replace("'", "")
    names = ",".join([*keys, *([_LETTER_OF[action]] if action in _LETTER_OF else [])])
    return Binding(names, action, text, show=usefulness(action) > 0, priority=priority, id=name)


# The application's own keys, which also work while a dialog is open.
APP_KEYS: list[BindingType] = [_key("suspend_process", "suspend (fg resumes)", "ctrl+z", priority=True)]

SCREEN_KEYS: list[BindingType] = [
    *(_key(f"show('{place.kind}')", place.title, place.key) for place in PLACES),
    _key(f"show('{TEST_HELPERS.kind}')", TEST_HELPERS.title),
]

ACTION_KEYS: list[BindingType] = [
    _key(f"act('{action.name}')", action.label)
    for action in dict.fromkeys(action for resource in RESOURCES for action in resource.actions)
]
RELATED_KEYS: list[BindingType] = [
    _key(f"go('{related_view.name}')", related_view.label)
    for related_view in dict.fromkeys(
        related_view for resource in RESOURCES for related_view in resource.related
    )
]

GLOBAL_KEYS: list[BindingType] = [
    *SCREEN_KEYS,
    _key("help", "keys", "question_mark"),
    _key("app.quit", "quit"),
    _key("command_line", "command line", "colon"),
    _key("travel(-1)", "previous view", "left_square_bracket"),
    _key("travel(1)", "next view", "right_square_bracket"),
    _key("take_back", "undo the last change"),
    _key("raw", "raw JSON"),
    _key("ids", "jump to an id"),
    _key("step(-1)", "event back", "comma"),
    _key("step(1)", "event forward", "full_stop"),
    _key("trace", "trace"),
    _key("prove", "proof in the log"),
    _key("export", "export", "ctrl+e"),
    _key("themes", "themes", "ctrl+t"),
    _key("app.sign_in", "sign in"),
    _key("app.repair", "repair"),
]

# The keys of the time machine while the past is shown. They have priority over the keys of a screen, because
# a key of a screen could change data.
PAST_KEYS: list[BindingType] = [
    _key("past('play')", "play", "space", priority=True),
    _key("past('a')", "compare from here", priority=True),
    _key("past('b')", "compare to here", priority=True),
    _key("past('compare')", "compare", priority=True),
    _key("past('now')", "back to now", "escape"),
]

_BACK = _key("back", "back", "escape")
_REFRESH = _key("refresh", "refresh")
_COPY: list[BindingType] = [
    _key("screen.copy_id", "copy the id"),
    _key("screen.copy_curl", "copy as curl"),
]

# `VIEW_KEYS` are the keys of every view, `RESOURCE_KEYS` the keys of a list and its objects.
VIEW_KEYS: list[BindingType] = [_BACK, _REFRESH, *_COPY]
RESOURCE_KEYS: list[BindingType] = [
    _key("open", "open", "enter"),
    _BACK,
    _key("filter", "filter", "slash"),
    _key("create", "new"),
    _key("transfer", "transfer"),
    _key("edit", "edit"),
    _REFRESH,
    _key("follow", "follow"),
    _key("locate", "locate in the list"),
    *ACTION_KEYS,
    *RELATED_KEYS,
    *_COPY,
    _key("arrange", "sort, columns"),
    _key("look", "more rows"),
    _key("screen.group", "sums"),
    _key("screen.compare", "compare accounts"),
    _key("panes", "panes"),
    _key("switch", "list or detail", "tab"),
    _key("widen(-1)", "narrow", "less_than_sign"),
    _key("widen(1)", "widen", "greater_than_sign"),
    _key("times", "UTC, local, age"),
    _key("program('PAGER')", "in $PAGER"),
    _key("program('EDITOR')", "in $EDITOR"),
]

REQUESTS_KEYS: list[BindingType] = [_key("edit_request", "edit in $EDITOR, send")]

# The bindings of tab and shift+tab replace Textual's own bindings, which move the focus.
TILE_KEYS: list[BindingType] = [
    _key("tile(1)", "next tile", "tab"),
    _key("tile(-1)", "previous tile", "shift+tab"),
    _key("choose(1)", "next row", "down"),
    _key("choose(-1)", "previous row", "up"),
    _key("open", "open", "enter"),
]

FLOW_KEYS: list[BindingType] = [_key("window(1)", "longer", "plus"), _key("window(-1)", "shorter", "minus")]
COMPARE_KEYS: list[BindingType] = [*FLOW_KEYS, _key("unit", "day, week, month")]

# A test helper that destroys data has no key: one key must not destroy data, so the user types a command.
HELPER_KEYS: list[BindingType] = [
    _key("open", "restore it, end it", "enter"),
    _key("snapshot", "new snapshot"),
]

TRACE_KEYS: list[BindingType] = [_key("open", "open", "enter"), _key("send_again", "send again")]

TOKEN_KEYS: list[BindingType] = [
    _key("exchange", "new tokens"),
    _key("rotate", "roll the tokens"),
    _key("use_key", "use the key again"),
]

TABLE_KEYS: list[BindingType] = [
    _key("move(-1)", "up", "up"),
    _key("move(1)", "down", "down"),
    _key("move_pages(-1)", "page up", "pageup", "ctrl+b"),
    _key("move_pages(1)", "page down", "pagedown", "ctrl+f"),
    _key("newest", "newest", "home"),
    _key("oldest", "oldest", "end"),
]
LIST_TABLE_KEYS: list[BindingType] = [
    *TABLE_KEYS,
    _key("mark", "mark", "space"),
    _key("mark_all", "mark all", "ctrl+a"),
]


SUMMED = ("transactions", "statement")  # the lists of postings, which can be summed

_EVERYWHERE = [*APP_KEYS, *GLOBAL_KEYS]


def _resource_bindings(resource: Resource) -> list[Binding]:
    verbs = {f"act('{action.name}')" for action in resource.actions}
    verbs |= {f"go('{related_view.name}')" for related_view in resource.related}
    has = {
        "edit": bool(resource.edits),
        "create": resource.form is not None,
        "transfer": resource.transfer is not None,
        "follow": not resource.still,
        "screen.compare": resource.kind == "accounts",
        "screen.group": resource.kind in SUMMED,
    }
    own = [
        each
        for each in _bindings_in([*RESOURCE_KEYS, *LIST_TABLE_KEYS])
        if (each.action in verbs if each.action.startswith(("act(", "go(")) else has.get(each.action, True))
    ]
    return [*_bindings_in(_EVERYWHERE), *own]


def _name_of(kind: str) -> str:
    """Return a screen's key and title: `3 Invoices`."""
    place = PLACE_OF_KIND[kind]
    return f"{place.key} {place.title}".lstrip()


def _bindings_in(bindings: list[BindingType]) -> list[Binding]:
    return [binding for binding in bindings if isinstance(binding, Binding)]


# The bindings that are active together on each screen. On one screen, a key must have only one meaning.
SCREENS: list[tuple[str, list[Binding]]] = [
    (_name_of("token"), _bindings_in([*_EVERYWHERE, *VIEW_KEYS, *TOKEN_KEYS])),
    (_name_of("requests"), _bindings_in([*_EVERYWHERE, *VIEW_KEYS, *REQUESTS_KEYS, *LIST_TABLE_KEYS])),
    (_name_of("trace"), _bindings_in([*_EVERYWHERE, *VIEW_KEYS, *TRACE_KEYS, *TABLE_KEYS])),
    *((_name_of(resource.kind), _resource_bindings(resource)) for resource in RESOURCES),
    ("the past", _bindings_in([*_EVERYWHERE, *PAST_KEYS, *TABLE_KEYS])),
    (_name_of("flows"), _bindings_in([*_EVERYWHERE, *VIEW_KEYS, *TILE_KEYS, *FLOW_KEYS])),
    (_name_of("comparison"), _bindings_in([*_EVERYWHERE, *VIEW_KEYS, *TILE_KEYS, *COMPARE_KEYS])),
    (_name_of("test_helpers"), _bindings_in([*_EVERYWHERE, *VIEW_KEYS, *TILE_KEYS[:4], *HELPER_KEYS])),
]
TOGETHER: list[list[Binding]] = [bindings for _screen, bindings in SCREENS]
BY_ID: dict[str, Binding] = {binding.id or "": binding for group in TOGETHER for binding in group}


def descriptions() -> dict[str, str]:
    """Return the ids of all bindings, each with the meanings that its key has on the screens."""
    all_of: dict[str, list[str]] = {}
    for binding in (binding for group in TOGETHER for binding in group):
        texts = all_of.setdefault(binding.id or "", [])
        if not any(binding.description in text for text in texts):
            texts.append(binding.description)
    return {name: "; ".join(texts) for name, texts in all_of.items()}
