"""The key map: the config file's keys, checked, and completed for `App.set_keymap`."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Mapping

from textual.binding import Binding, BindingType
from textual.keys import KEY_NAME_REPLACEMENTS, Keys

from ledger_tui.resources.base import Resource
from ledger_tui.resources.registry import PLACE_OF_KIND, RESOURCES
from ledger_tui.settings.config import BadConfig
from ledger_tui.settings.own_commands import OwnCommand
from ledger_tui.ui import keys as actions

_EVERYWHERE = [*actions.APP_KEYS, *actions.GLOBAL_KEYS]


def _of_a_resource(resource: Resource) -> list[Binding]:
    its = {f"act('{action.name}')" for action in resource.actions}
    its |= {f"go('{related_view.name}')" for related_view in resource.related}
    has = {
        "edit": bool(resource.edits),
        "create": resource.form is not None,
        "transfer": resource.transfer is not None,
        "follow": not resource.still,
        "batch": bool(resource.batch),
    }
    own = [
        each
        for each in _made(actions.RESOURCE_KEYS)
        if (each.action in its if each.action.startswith(("act(", "go(")) else has.get(each.action, True))
    ]
    return [*_made(_EVERYWHERE), *own, *_made(actions.LIST_TABLE_KEYS)]


def _made(bindings: list[BindingType]) -> list[Binding]:
    return [binding for binding in bindings if isinstance(binding, Binding)]


def spelled(key: str) -> str:
    """Return a key as the user sees it: `^f`, `PgUp`, `?`."""
    modifiers, _, last = key.rpartition("+")
    before = modifiers.replace("ctrl", "^").replace("^+", "^")
    joint = "+" if before and not before.endswith("^") else ""
    return before + joint + _SHORT.get(last, last)


# Groups of bindings that are active at the same time: within a group a key has one meaning.
TOGETHER: list[list[Binding]] = [
    _made([*_EVERYWHERE, *actions.VIEW_KEYS, *actions.TOKEN_KEYS]),
    _made([*_EVERYWHERE, *actions.VIEW_KEYS, *actions.EVENTS_KEYS, *actions.LIST_TABLE_KEYS]),
    _made([*_EVERYWHERE, *actions.VIEW_KEYS, *actions.REQUESTS_KEYS, *actions.LIST_TABLE_KEYS]),
    _made([*_EVERYWHERE, *actions.VIEW_KEYS, *actions.TRACE_KEYS, *actions.TABLE_KEYS]),
    *map(_of_a_resource, RESOURCES),
    _made([*_EVERYWHERE, *actions.PAST_KEYS, *actions.TABLE_KEYS]),
    _made([*_EVERYWHERE, *actions.VIEW_KEYS, *actions.TILE_KEYS, *actions.FLOW_KEYS]),
    _made([*_EVERYWHERE, *actions.VIEW_KEYS, *actions.TILE_KEYS, *actions.COMPARE_KEYS]),
    _made([*_EVERYWHERE, *actions.VIEW_KEYS, *actions.TILE_KEYS[:4], *actions.HELPER_KEYS]),
]
BY_ID: dict[str, Binding] = {binding.id or "": binding for group in TOGETHER for binding in group}


def _long_name(character: str) -> str:
    """Return the name of a character that is no letter or digit: `slash` for `/`."""
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
_MODIFIED = re.compile(r"((?:(?:ctrl|shift|alt|super)\+)*)(.+)")
# For each of these, most terminals send the same bytes as for the other.
_SENT_AS = {
    "ctrl+i": "tab",
    "ctrl+m": "enter",
    "ctrl+left_square_bracket": "escape",
    "ctrl+h": "backspace",
}


def command_bindings(commands: Mapping[str, OwnCommand], keys: Mapping[str, str], file: str) -> list[Binding]:
    """Return a binding for each of the user's own commands.

    Raises BadConfig for an unknown key, one that is taken, and an unknown screen.
    """
    taken = {key: name for name, binding in BY_ID.items() for key in _split(keys.get(name, binding.key))}
    made = []
    for name, command in commands.items():
        for screen in command.screens:
            if screen not in PLACE_OF_KIND:
                raise BadConfig(f'{file}: commands.{name}.screens: there is no screen "{screen}".')
        for key in _split(command.key):
            last = _parts(key)[1]
            if (len(last) != 1 and last not in _NAMED) or key in _TAKEN:
                raise BadConfig(f'{file}: commands.{name}.key: "{key}" is not a key that can be used.')
            if (owner := taken.setdefault(key, f"commands.{name}")) != f"commands.{name}":
                raise BadConfig(f'{file}: commands.{name}.key: "{key}" is already the key of {owner}.')
            made.append(Binding(key, f"own_command('{name}')", name, id=f"commands.{name}"))
    return made


def keymap(keys: Mapping[str, str], file: str) -> dict[str, str]:
    """Return the map for `App.set_keymap`. Raises BadConfig for an unknown id or key, or a key used twice."""
    for name, value in keys.items():
        if name not in BY_ID:
            raise BadConfig(f"{file}: keys.{name}: there is no such action; `ledger-tui keys` lists them.")
        for key in _split(value):
            modifiers, last = _parts(key)
            if len(last) != 1 and last not in _NAMED:
                raise BadConfig(f'{file}: keys.{name}: "{key}" is not a key.')
            if modifiers == "shift+" and (len(last) == 1 or last in _LONG.values()):
                raise BadConfig(f'{file}: keys.{name}: write the character that "{key}" types.')
            if key in _TAKEN:
                raise BadConfig(f'{file}: keys.{name}: "{key}" is reserved: {_TAKEN[key]}.')
    chosen = {name: _split(keys.get(name, binding.key)) for name, binding in BY_ID.items()}
    for bindings in TOGETHER:
        _require_apart(bindings, chosen, keys, file)
    # Textual changes every binding that shares a key with a changed one, so the others are listed too.
    return {name: ",".join(each) for name, each in chosen.items()} if keys else {}


def _require_apart(
    bindings: list[Binding], chosen: Mapping[str, list[str]], keys: Mapping[str, str], file: str
) -> None:
    taken: dict[str, tuple[str, str]] = {}
    for binding in bindings:
        name = binding.id or ""
        for key in chosen[name]:
            one, other = (name, key), taken.setdefault(_SENT_AS.get(key, key), (name, key))
            if other[0] != name and (name in keys or other[0] in keys):
                (ours, pressed), (theirs, its) = (one, other) if name in keys else (other, one)
                why = "" if its == pressed else f': a terminal sends the same for "{its}"'
                raise BadConfig(f'{file}: keys.{ours}: "{pressed}" is already the key of {theirs}{why}.')


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
    found = _MODIFIED.fullmatch(key)
    return (found[1], found[2]) if found else ("", "")
