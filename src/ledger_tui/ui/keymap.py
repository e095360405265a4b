"""Checks the config file's keys, completes them for `App.set_keymap`, and spells keys for the user."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Mapping

from textual.binding import Binding
from textual.keys import KEY_NAME_REPLACEMENTS, Keys

from ledger_tui.resources.registry import PLACE_OF_KIND
from ledger_tui.settings.config import BadConfig
from ledger_tui.settings.own_commands import OwnCommand
from ledger_tui.ui.keys import BY_ID, TOGETHER


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
# The keys that the config file must not assign, each with the reason.
_TAKEN = {"ctrl+p": "it opens the palette", "ctrl+q": "it quits", "ctrl+c": "it leaves or quits"}
_AS_ESC = "what a terminal sends for esc and the key after it"
_MODIFIED = re.compile(r"((?:(?:ctrl|shift|alt|super)\+)*)(.+)")
# Most terminals send the same bytes for the two keys of each pair.
_SENT_AS = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+left_square_bracket": "escape", "ctrl+h": "backspace"}


def command_bindings(commands: Mapping[str, OwnCommand], keys: Mapping[str, str], file: str) -> list[Binding]:
    """Return a binding for each of the user's own commands.

    Raises BadConfig for an unknown key, for a key that another action uses, and for an unknown screen.
    """
    keys_taken = {
        key: name for name, binding in BY_ID.items() for key in split_keys(keys.get(name, binding.key))
    }
    bindings_made = []
    for name, command in commands.items():
        for screen in command.screens:
            if screen not in PLACE_OF_KIND:
                raise BadConfig(f'{file}: commands.{name}.screens: there is no screen "{screen}".')
        for key in split_keys(command.key):
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
        for key in split_keys(value):
            modifiers, last = _parts(key)
            if len(last) != 1 and last not in _NAMED:
                raise BadConfig(f'{file}: keys.{name}: "{key}" is not a key.')
            if "alt+" in modifiers and len(last) == 1:
                raise BadConfig(f'{file}: keys.{name}: "{key}" is {_AS_ESC}.')
            if modifiers == "shift+" and (len(last) == 1 or last in _LONG.values()):
                raise BadConfig(f'{file}: keys.{name}: write the character that "{key}" types.')
            if key in _TAKEN:
                raise BadConfig(f'{file}: keys.{name}: "{key}" is reserved: {_TAKEN[key]}.')
    keys_by_name = {name: split_keys(keys.get(name, binding.key)) for name, binding in BY_ID.items()}
    for bindings in TOGETHER:
        _require_apart(bindings, keys_by_name, keys, file)
    # If the map changes one of several bindings that have the same key, Textual changes them all. So the map
    # lists the unchanged bindings too.
    return {name: ",".join(each) for name, each in keys_by_name.items()} if keys else {}


def _require_apart(
    bindings: list[Binding], keys_by_name: Mapping[str, list[str]], keys: Mapping[str, str], file: str
) -> None:
    """Raise BadConfig if a key that the config file sets belongs to two of these bindings."""
    names_by_key: dict[str, tuple[str, str]] = {}
    for binding in bindings:
        name = binding.id or ""
        for key in keys_by_name[name]:
            one, other = (name, key), names_by_key.setdefault(_SENT_AS.get(key, key), (name, key))
            if other[0] != name and (name in keys or other[0] in keys):
                (ours, own_key), (theirs, taken_key) = (one, other) if name in keys else (other, one)
                why = "" if taken_key == own_key else f': a terminal sends the same for "{taken_key}"'
                raise BadConfig(f'{file}: keys.{ours}: "{own_key}" is already the key of {theirs}{why}.')


def split_keys(value: str) -> list[str]:
    return [_as_sent(key.strip()) for key in value.split(",")]


def _as_sent(key: str) -> str:
    """Return the name of a key in Textual's events: `slash` for `/`; `V` for `shift+v`, as terminals send
    it.
    """
    modifiers, last = _parts(key)
    if modifiers == "shift+" and len(last) == 1 and last.isalpha():
        return last.upper()
    return modifiers + _LONG.get(last, last)


def _parts(key: str) -> tuple[str, str]:
    """Split a key into its modifiers and the rest: `ctrl+f` into `ctrl+` and `f`."""
    match = _MODIFIED.fullmatch(key)
    return (match[1], match[2]) if match else ("", "")


def spelled(key: str) -> str:
    """Return a key as the user sees it: `^f`, `PgUp`, `?`."""
    modifiers, _, last = key.rpartition("+")
    before = modifiers.replace("ctrl", "^").replace("^+", "^")
    joint = "+" if before and not before.endswith("^") else ""
    return before + joint + _SHORT.get(last, last)
