"""Defines all keys of the dashboard, and checks and completes the config file's keys for `App.set_keymap`.

The help, the key bar and the key map are built from these bindings. Each binding has an id, with which the
config file assigns another key to it.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.dom import DOMNode
from textual.keys import KEY_NAME_REPLACEMENTS, Keys
from textual.widget import Widget

from ledger_tui.resources.base import Resource
from ledger_tui.resources.registry import PLACE_OF_KIND, PLACES, RESOURCES, TEST_HELPERS
from ledger_tui.settings.config import BadConfig
from ledger_tui.settings.own_commands import OwnCommand


def _key(keys: str, action: str, text: str, *, show: bool = False, priority: bool = False) -> Binding:
    name = action.removeprefix("app.").removeprefix("screen.").replace("(", ".").rstrip(")").replace("'", "")
    return Binding(keys, action, text, show=show, priority=priority, id=name)


# The application's own keys, which also work while a dialog is open.
APP_KEYS: list[BindingType] = [_key("ctrl+z", "suspend_process", "suspend (fg resumes)", priority=True)]

SCREEN_KEYS: list[BindingType] = [
    _key(place.key, f"show('{place.kind}')", place.title) for place in (*PLACES, TEST_HELPERS)
]

# One key may mean different actions on different screens: only the shown resource's actions are active.
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
    _key("comma", "step(-1)", "one event back in time"),
    _key("full_stop", "step(1)", "one event forward in time"),
    _key("T", "trace", "trace", show=True),
    _key("V", "prove", "proof in the log"),
    _key("ctrl+e", "export", "export the list"),
    _key("ctrl+t", "themes", "themes"),
    _key("S", "app.sign_in", "sign in", show=True),
    _key("R", "app.repair", "repair a demo's receiver, or restart the server", show=True),
]

# Keys of the time machine while the past is shown. They come before a screen's keys, which could change data.
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

# The keys of every view, then the keys of a list, in the order of the key bar.
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
    _key("P", "program('PAGER')", "show in $PAGER"),
    _key("E", "program('EDITOR')", "open in $EDITOR"),
]

REQUESTS_KEYS: list[BindingType] = [
    _key("e", "edit_request", "edit and send again", show=True),
]

EVENTS_KEYS: list[BindingType] = [
    _key("p", "pause", "pause or resume", show=True),
]

# The first two replace Textual's own keys, which move the focus.
TILE_KEYS: list[BindingType] = [
    _key("tab", "tile(1)", "next tile", show=True),
    _key("shift+tab", "tile(-1)", "previous tile", show=True),
    _key("down,j", "choose(1)", "next row of the tile"),
    _key("up,k", "choose(-1)", "previous row of the tile"),
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
    # These keys use the ids of the keys in lists: a change of such an id changes the key everywhere.
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

# The keys of the key bar in their order, the most useful first; a dialog's keys are not listed and come
# before all. If the bar is too narrow, the last keys are left out, but never the key of the help.
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
    """One key of the bar: the text, its rank, and the action of a click on it."""

    text: Content
    rank: tuple[bool, bool, int]  # the key with the highest rank is left out first
    action: str
    node: DOMNode
    enabled: bool


class KeyBar(Widget):
    """One line made from the bindings that are active at the focused widget. A click presses the key."""

    def __init__(self) -> None:
        super().__init__()
        self._keys: list[_Shown] = []

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.refresh())

    def render(self) -> Content:
        keys_shown: dict[str, _Shown] = {}
        by_use = sorted(
            self.screen.active_bindings.values(), key=lambda each: usefulness(each.binding.action)
        )
        for node, binding, is_enabled, _tip in by_use:
            if not binding.show or binding.action in keys_shown:
                continue
            key = self.app.get_key_display(binding)
            caption = node.key_text(binding) if isinstance(node, NamesItsKeys) else binding.description
            style = "bold $accent" if is_enabled else "$faint"
            text = "$muted" if is_enabled else "$faint"
            key_content = Content.assemble((key, style), (f" {caption}", text))
            # Disabled keys are left out first, then the least useful.
            rank = (not is_enabled, binding.action != "help", usefulness(binding.action))
            keys_shown[binding.action] = _Shown(key_content, rank, binding.action, node, is_enabled)
        while len(keys_shown) > MOST_KEYS_IN_BAR or (
            len(keys_shown) > 1 and self._width(keys_shown) > self.size.width
        ):
            del keys_shown[max(reversed(keys_shown), key=lambda action: keys_shown[action].rank)]
        self._keys = [*keys_shown.values()]
        return Content(_GAP).join([each.text for each in self._keys])

    def on_click(self, event: events.Click) -> None:
        left = self.styles.padding.left
        for each in self._keys:
            right = left + each.text.cell_length
            if left <= event.x < right:
                if each.enabled:
                    self.screen.call_later(self.app.run_action, each.action, each.node)
                return
            left = right + len(_GAP)

    @staticmethod
    def _width(keys_shown: dict[str, _Shown]) -> int:
        return sum(each.text.cell_length for each in keys_shown.values()) + len(_GAP) * (len(keys_shown) - 1)


_EVERYWHERE = [*APP_KEYS, *GLOBAL_KEYS]


def _of_a_resource(resource: Resource) -> list[Binding]:
    its = {f"act('{action.name}')" for action in resource.actions}
    its |= {f"go('{related_view.name}')" for related_view in resource.related}
    has = {
        "edit": bool(resource.edits),
        "create": resource.form is not None,
        "transfer": resource.transfer is not None,
        "follow": not resource.still,
    }
    own = [
        each
        for each in _made(RESOURCE_KEYS)
        if (each.action in its if each.action.startswith(("act(", "go(")) else has.get(each.action, True))
    ]
    return [*_made(_EVERYWHERE), *own, *_made(LIST_TABLE_KEYS)]


def _name_of(kind: str) -> str:
    """Return a screen's key and title: `3 Invoices`."""
    place = PLACE_OF_KIND[kind]
    return f"{place.key} {place.title}".lstrip()


def _made(bindings: list[BindingType]) -> list[Binding]:
    return [binding for binding in bindings if isinstance(binding, Binding)]


def spelled(key: str) -> str:
    """Return a key as the user sees it: `^f`, `PgUp`, `?`."""
    modifiers, _, last = key.rpartition("+")
    before = modifiers.replace("ctrl", "^").replace("^+", "^")
    joint = "+" if before and not before.endswith("^") else ""
    return before + joint + _SHORT.get(last, last)


# For each screen the bindings that are active at the same time, so each key must have one meaning among them.
_SCREENS: list[tuple[str, list[Binding]]] = [
    (_name_of("token"), _made([*_EVERYWHERE, *VIEW_KEYS, *TOKEN_KEYS])),
    (_name_of("events"), _made([*_EVERYWHERE, *VIEW_KEYS, *EVENTS_KEYS, *LIST_TABLE_KEYS])),
    (_name_of("requests"), _made([*_EVERYWHERE, *VIEW_KEYS, *REQUESTS_KEYS, *LIST_TABLE_KEYS])),
    (_name_of("trace"), _made([*_EVERYWHERE, *VIEW_KEYS, *TRACE_KEYS, *TABLE_KEYS])),
    *((_name_of(resource.kind), _of_a_resource(resource)) for resource in RESOURCES),
    ("the past", _made([*_EVERYWHERE, *PAST_KEYS, *TABLE_KEYS])),
    (_name_of("flows"), _made([*_EVERYWHERE, *VIEW_KEYS, *TILE_KEYS, *FLOW_KEYS])),
    (_name_of("comparison"), _made([*_EVERYWHERE, *VIEW_KEYS, *TILE_KEYS, *COMPARE_KEYS])),
    (_name_of("test_helpers"), _made([*_EVERYWHERE, *VIEW_KEYS, *TILE_KEYS[:4], *HELPER_KEYS])),
]
TOGETHER: list[list[Binding]] = [bindings for _screen, bindings in _SCREENS]
BY_ID: dict[str, Binding] = {binding.id or "": binding for group in TOGETHER for binding in group}


def descriptions() -> dict[str, str]:
    """Return for each id the meanings of its key on all screens."""
    all_of: dict[str, list[str]] = {}
    for binding in (binding for group in TOGETHER for binding in group):
        texts = all_of.setdefault(binding.id or "", [])
        if not any(binding.description in text for text in texts):
            texts.append(binding.description)
    return {name: "; ".join(texts) for name, texts in all_of.items()}


_FEW_SCREENS = 4  # are named
# Keys of all screens that work only under a condition: their action, and the condition.
_NEEDS = {
    "repair": "repairs a demo's receiver: choose its row (tab on the overview) first",
    "sign_in": "signs in again: it needs a profile with the id of an app",
}


def use_elsewhere(key: str, own_keys: Mapping[str, str]) -> str:
    """Return a sentence with a letter's meanings and their screens; "" for a letter that does nothing.

    `own_keys` holds the user's own keys.
    """
    if len(key) != 1:
        return ""
    uses: dict[str, list[str]] = {}
    for screen, bindings in _SCREENS:
        for binding in bindings:
            name = binding.id or ""
            if not binding.show or key not in _split(own_keys.get(name, binding.key)):
                continue
            if need := _NEEDS.get(name):
                return f"{key} {need}."
            group = uses.setdefault(binding.description, [])
            if screen not in group:
                group.append(screen)
    if not uses:
        return ""
    screens = {screen for group in uses.values() for screen in group}
    where = "another screen" if len(screens) == 1 else "other screens"
    texts = [
        f"{description} ({', '.join(group) if len(group) <= _FEW_SCREENS else 'many screens'})"
        for description, group in uses.items()
    ]
    return f"{key} works on {where}: {', '.join(texts)}."


def _long_name(character: str) -> str:
    """Return the name of a character that is neither a letter nor a digit: `slash` for `/`."""
    name = unicodedata.name(character, character).lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)


_LONG = {character: _long_name(character) for character in string.punctuation}
_NAMED = {*(key.value for key in Keys if not key.value.startswith("<")), *_LONG.values(), "space"}
_SHORT = {long: character for character, long in _LONG.items()} | {
    "enter": "⏎",
    "escape": "esc",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "home": "Home",
    "end": "End",
    "pageup": "PgUp",
    "pagedown": "PgDn",
}
# Textual's own keys, which it handles before any binding.
_TAKEN = {"ctrl+p": "it opens the palette", "ctrl+q": "it quits", "ctrl+c": "the terminal uses it"}
_AS_ESC = "what a terminal sends for esc and the key after it"
_MODIFIED = re.compile(r"((?:(?:ctrl|shift|alt|super)\+)*)(.+)")
# Most terminals send the same bytes for both keys of a pair.
_SENT_AS = {
    "ctrl+i": "tab",
    "ctrl+m": "enter",
    "ctrl+left_square_bracket": "escape",
    "ctrl+h": "backspace",
}


def command_bindings(commands: Mapping[str, OwnCommand], keys: Mapping[str, str], file: str) -> list[Binding]:
    """Return a binding for each of the user's own commands.

    Raises BadConfig for an unknown key, a key in use, and an unknown screen.
    """
    keys_taken = {key: name for name, binding in BY_ID.items() for key in _split(keys.get(name, binding.key))}
    bindings_made = []
    for name, command in commands.items():
        for screen in command.screens:
            if screen not in PLACE_OF_KIND:
                raise BadConfig(f'{file}: commands.{name}.screens: there is no screen "{screen}".')
        for key in _split(command.key):
            modifiers, last = _parts(key)
            if "alt+" in modifiers and len(last) == 1:
                raise BadConfig(f'{file}: commands.{name}.key: "{key}" is {_AS_ESC}.')
            if (len(last) != 1 and last not in _NAMED) or key in _TAKEN:
                raise BadConfig(f'{file}: commands.{name}.key: "{key}" is not a key that can be used.')
            if (owner := keys_taken.setdefault(key, f"commands.{name}")) != f"commands.{name}":
                raise BadConfig(f'{file}: commands.{name}.key: "{key}" is already the key of {owner}.')
            bindings_made.append(Binding(key, f"own_command('{name}')", name, id=f"commands.{name}"))
    return bindings_made


def keymap(keys: Mapping[str, str], file: str) -> dict[str, str]:
    """Return the map for `App.set_keymap`. Raises BadConfig for an unknown id or key, or a key used twice."""
    for name, value in keys.items():
        if name not in BY_ID:
            raise BadConfig(f"{file}: keys.{name}: there is no such action; `ledger-tui keys` lists them.")
        for key in _split(value):
            modifiers, last = _parts(key)
            if len(last) != 1 and last not in _NAMED:
                raise BadConfig(f'{file}: keys.{name}: "{key}" is not a key.')
            if "alt+" in modifiers and len(last) == 1:
                raise BadConfig(f'{file}: keys.{name}: "{key}" is {_AS_ESC}.')
            if modifiers == "shift+" and (len(last) == 1 or last in _LONG.values()):
                raise BadConfig(f'{file}: keys.{name}: write the character that "{key}" types.')
            if key in _TAKEN:
                raise BadConfig(f'{file}: keys.{name}: "{key}" is reserved: {_TAKEN[key]}.')
    keys_by_name = {name: _split(keys.get(name, binding.key)) for name, binding in BY_ID.items()}
    for bindings in TOGETHER:
        _require_apart(bindings, keys_by_name, keys, file)
    # If one of several bindings with the same key changes, Textual changes them all, so the map lists the
    # unchanged ones too.
    return {name: ",".join(each) for name, each in keys_by_name.items()} if keys else {}


def _require_apart(
    bindings: list[Binding], keys_by_name: Mapping[str, list[str]], keys: Mapping[str, str], file: str
) -> None:
    names_by_key: dict[str, tuple[str, str]] = {}
    for binding in bindings:
        name = binding.id or ""
        for key in keys_by_name[name]:
            one, other = (name, key), names_by_key.setdefault(_SENT_AS.get(key, key), (name, key))
            if other[0] != name and (name in keys or other[0] in keys):
                (ours, own_pressed), (theirs, its) = (one, other) if name in keys else (other, one)
                why = "" if its == own_pressed else f': a terminal sends the same for "{its}"'
                raise BadConfig(f'{file}: keys.{ours}: "{own_pressed}" is already the key of {theirs}{why}.')


def _split(value: str) -> list[str]:
    return [_as_sent(key.strip()) for key in value.split(",")]


def _as_sent(key: str) -> str:
    """Return a key's name in events: `slash` for `/`, and `V` for `shift+v`, as a terminal sends it."""
    modifiers, last = _parts(key)
    if modifiers == "shift+" and len(last) == 1 and last.isalpha():
        return last.upper()
    return modifiers + _LONG.get(last, last)


def _parts(key: str) -> tuple[str, str]:
    """Split a key into its modifiers and the rest: `ctrl+f` into `ctrl+` and `f`."""
    match = _MODIFIED.fullmatch(key)
    return (match[1], match[2]) if match else ("", "")
