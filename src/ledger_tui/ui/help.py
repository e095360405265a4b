"""The help, which lists the keys of the screen, and the sentence about a letter that works elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from textwrap import wrap

from textual import on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from ledger_tui.formats.text import literal
from ledger_tui.ui.dialogs import FRAME, Dialog
from ledger_tui.ui.keymap import spelled, split_keys
from ledger_tui.ui.keys import BY_ID, SCREENS, usefulness

_FEW_SCREENS = 4  # if a key works on more screens, its sentence says "many screens" instead of their names
# Keys with a sentence of their own: the effect of the key, and what the user needs first.
_NEEDS = {
    "filter": "filters a list: go to a list first (1 to 5), or press : and type a name",
    "repair": "repairs a demo's receiver that fails: choose its row (tab on the overview) first",
    "sign_in": "signs in again: choose a profile with an app id first",
}
# Keys of other programs that scroll by half a page, and the id of the binding that scrolls by a page here.
_PAGES = {"ctrl+d": "move_pages.1", "ctrl+u": "move_pages.-1"}


def use_elsewhere(key: str, own_keys: Mapping[str, str]) -> str:
    """Return a sentence with the meanings of a letter or sign on other screens.

    The sentence also names these screens. For `^d` and `^u` it names the keys that move by a page. It is ""
    for any other key that no screen uses. `own_keys` holds the keys in the user's config file, by the id of
    the binding.
    """
    sign = spelled(key)
    if (page := BY_ID.get(_PAGES.get(key, ""))) is not None:
        keys = " or ".join(map(spelled, split_keys(own_keys.get(page.id or "", page.key))))
        return f"{sign} does nothing here; in lists {keys} moves a {page.description}."
    if len(sign) != 1 or not sign.isascii():
        return ""
    uses: dict[str, list[str]] = {}
    for screen, bindings in SCREENS:
        for binding in bindings:
            name = binding.id or ""
            if not binding.show or key not in split_keys(own_keys.get(name, binding.key)):
                continue
            if need := _NEEDS.get(name):
                return f"{sign} {need}."
            group = uses.setdefault(binding.description, [])
            if screen not in group:
                group.append(screen)
    if not uses:
        return ""
    screens = {screen for group in uses.values() for screen in group}
    where = "another screen" if len(screens) == 1 else "other screens"
    texts = [f"{description} ({_screens_in_words(group)})" for description, group in uses.items()]
    return f"{sign} works on {where}: {', '.join(texts)}."


def _screens_in_words(screens: list[str]) -> str:
    return ", ".join(screens) if len(screens) <= _FEW_SCREENS else "many screens"


_KEY_WIDTH = 10
_WIDEST = 100  # the maximum width of the help
_TWO_COLUMNS = 80  # the minimum width of a screen with two columns of help

# The help sorts actions into groups by the beginnings of their names: on an object, in time, everywhere.
_ON_OBJECT = (
    "open",
    "select",
    "edit",
    "act(",
    "go(",
    "send_again",
    "trace",
    "prove",
    "app.repair",
    "locate",
    "ids",
    "mark",
    "raw",
    "program",
    "screen.copy_id",
    "screen.compare",
)
_IN_TIME = ("step(", "past(")
# The group "everywhere" has this order on every screen.
_EVERYWHERE = (
    "take_back",
    "command_line",
    "show(",
    "command_palette",
    "travel(",
    "themes",
    "help",
    "app.quit",
    "app.",
    "suspend_process",
)
# Two actions share one line in the help if the names of both begin with the same text of this list. The
# number keys, which open the screens, also share a line.
_FAMILIES = ("move(", "choose(", "tile(", "window(", "widen(", "travel(", "step(", "program(")
_THE_SCREENS = "the screens"
# Typed commands that the help lists below the keys of a group.
_LINES = {"everywhere": (":flows", "money between accounts"), "in time": (":at -2h", "go to a moment")}


class HelpScreen(Dialog[None]):
    """Shows the keys that work on the screen below the dialog, in groups.

    The group of the chosen object ends with the keys that this object does not allow now, and with undo if
    there is nothing to undo. These keys are dimmed, and the reason stands above them. `/` searches: the
    dialog then shows only the lines that contain the typed text.
    """

    BINDINGS = [
        Binding("escape,question_mark,q", "dismiss", "close", show=True),
        Binding("slash", "search", "search", show=True),
    ]

    def __init__(
        self,
        bindings: Iterable[ActiveBinding],
        own_keys: Mapping[str, str],
        why_not: Callable[[Binding], str],
    ) -> None:
        """`own_keys` holds the keys in the user's config file, by the id of the binding. `why_not` returns
        the reason why a key does nothing now; "" if there is none.
        """
        super().__init__("help", "Keys")
        self._own_keys = own_keys
        # Leave out Textual's own bindings, which lack an id, except the binding of the palette.
        all_ours = [each for each in bindings if each.binding.id or _is_palette(each.binding.action)]
        enabled_count = sum(each.enabled for each in all_ours)
        ours = sorted(all_ours, key=lambda each: usefulness(each.binding.action) or enabled_count)
        self._shown_keys = [each.binding for each in ours if each.enabled]
        # If the server does not offer the data of a screen, the key of this screen does nothing, and the
        # search leaves this key out.
        self._lacking = {
            each.binding.description
            for each in ours
            if not each.enabled and each.binding.action.startswith("show(")
        }
        self._impossible_keys: dict[str, list[Binding]] = {}  # by the reason
        disabled = [each.binding for each in ours if not each.enabled]
        for binding in sorted(disabled, key=lambda each: each.action == "take_back"):  # undo comes last
            has_reason = binding.action in ("transfer", "take_back")
            if (has_reason or _group_of(binding.action) == "on this object") and (why := why_not(binding)):
                self._impossible_keys.setdefault(why, []).append(binding)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help", classes="dialog") as box:
            box.border_title = self._title
            box.set_class(self.app.size.width >= _TWO_COLUMNS, "-wide")
            line = Input(compact=True, placeholder="part of a key's description")
            line.display = False
            yield line
            yield Static(self._text())

    def on_mount(self) -> None:
        super().on_mount()
        box = self.query_one("#help", VerticalScroll)
        self.watch(box, "scroll_y", self._show_rest)
        self.watch(box, "virtual_size", self._show_rest_after_layout)

    def on_resize(self) -> None:
        self._show_rest_after_layout()

    def _show_rest_after_layout(self) -> None:
        self.call_after_refresh(self._show_rest)  # the box gets its new size at the layout

    def _show_rest(self) -> None:
        """Show on the border whether more keys follow below the visible part."""
        box = self.query_one("#help", VerticalScroll)
        rest = "↓ more" if box.scroll_y < box.max_scroll_y else ""
        if box.border_subtitle != rest:
            box.border_subtitle = rest
            # Draw the whole screen: in a frame with a new layout, Textual does not draw the box alone.
            self.refresh()

    def action_search(self) -> None:
        line = self.query_one(Input)
        line.display = True
        self.set_focus(line)

    @on(Input.Changed)
    def search(self, event: Input.Changed) -> None:
        self.query_one(Static).update(self._text(event.value.strip().casefold()))

    def _text(self, text: str = "") -> Content:
        """Return the lines that contain `text`: two groups for this screen and two for all screens.

        If there is a `text`, the other keys with this text follow below, with the names of their screens.
        """
        groups: dict[str, list[Content]] = {
            name: self._lines(name, text) for name in ("here", "on this object", "everywhere", "in time")
        }
        blocks = [
            [Content.styled(name.capitalize(), "bold"), *lines] if lines else []
            for name, lines in groups.items()
        ]
        width = (min(self.app.size.width, _WIDEST) - FRAME) // 2
        blocks[1] += self._impossible_lines(text, width)
        if self.app.size.width < _TWO_COLUMNS:
            rows = [line for block in blocks for line in block]
        else:
            rows = [
                Content.assemble(left.truncate(width - 1, ellipsis=True, pad=True), " ", right)
                for pair in (blocks[:2], blocks[2:])
                for left, right in zip_longest(*pair, fillvalue=Content(""))
            ]
        rows += self._lines_elsewhere(text) if text else []
        return Content("\n").join(
            rows or [Content.styled(f"No key is described by “{literal(text)}”.", "$muted")]
        )

    def _impossible_lines(self, text: str, width: int) -> list[Content]:
        """Return dimmed lines: each reason why keys do nothing now, followed by these keys.

        An empty line comes before each reason. Leave out the keys that do not contain `text`.
        """
        lines = []
        for why, bindings in self._impossible_keys.items():
            keys = [
                f"{self.app.get_key_display(each).rjust(_KEY_WIDTH)}  {each.description}" for each in bindings
            ]
            matches = [key for key in keys if text in key.casefold()]
            if matches:
                lines += ["", *wrap(f"Not now. {why}", width - 1), *_in_pairs(matches, width)]
        return [Content.styled(line, "$muted") for line in lines]

    def _lines_elsewhere(self, text: str) -> list[Content]:
        """Return a line for each key that contains `text` and is in none of the groups above."""
        impossible_keys = [binding for bindings in self._impossible_keys.values() for binding in bindings]
        here = {binding.description for binding in [*self._shown_keys, *impossible_keys]} | self._lacking
        screens_of: dict[tuple[str, str], list[str]] = {}
        for screen, bindings in SCREENS:
            for binding in bindings:
                if binding.description in here or text not in binding.description.casefold():
                    continue
                keys = split_keys(self._own_keys.get(binding.id or "", binding.key))
                screens_of.setdefault((" ".join(map(spelled, keys)), binding.description), []).append(screen)
        lines = [
            Content.assemble(
                (key.rjust(_KEY_WIDTH), "$muted"),
                f"  {description}",
                (f"  {_screens_in_words(screens)}", "$muted"),
            )
            for (key, description), screens in screens_of.items()
        ]
        return [Content.styled("Not now, or on other screens", "bold"), *lines] if lines else []

    def _lines(self, group: str, text: str) -> list[Content]:
        """Return the lines of a group that contain `text`."""
        # A line of the help shows a family of actions. For each family: its descriptions, each with its keys.
        families: dict[str, dict[str, list[str]]] = {}
        keys_shown = self._shown_keys
        if group == "everywhere":
            keys_shown = sorted(
                [each for each in keys_shown if _group_of(each.action) == group], key=_place_everywhere
            )
        for binding in keys_shown:
            action, key = binding.action, self.app.get_key_display(binding)
            if _group_of(action) != group:
                continue
            if action.startswith("show(") and key.isdigit():
                families.setdefault(_THE_SCREENS, {}).setdefault(_THE_SCREENS, [""])[0] += key
                continue
            family = next((name for name in _FAMILIES if action.startswith(name)), action)
            families.setdefault(family, {}).setdefault(binding.description, []).append(key)
        if families and group in _LINES:
            line, about = _LINES[group]
            families[line] = {about: [line]}
        lines = []
        for keys_of in families.values():
            keys = " ".join(dict.fromkeys(key for names in keys_of.values() for key in names))
            description = ", ".join(keys_of)
            if text in f"{keys} {description}".casefold():
                key_text = Content.styled(keys.rjust(_KEY_WIDTH), "bold $accent")
                lines.append(Content.assemble(key_text, f"  {description}"))
        return lines


def _in_pairs(keys: Sequence[str], width: int) -> Iterator[str]:
    """Yield lines with two keys each, or with one key if two are wider than `width`."""
    for left, right in zip_longest(keys[::2], keys[1::2], fillvalue=""):
        both = f"{left:<{2 * _KEY_WIDTH}}   {right.lstrip()}".rstrip()
        yield from [both] if not right or len(both) < width else [left, right]


def _is_palette(action: str) -> bool:
    return action.endswith("command_palette")


def _place_everywhere(binding: Binding) -> tuple[int, int, str]:
    """Return the place of a binding in the group "everywhere"."""
    place = next((n for n, each in enumerate(_EVERYWHERE) if binding.action.startswith(each)), -1)
    ids = [*BY_ID]
    return place, ids.index(binding.id) if binding.id in BY_ID else len(ids), binding.action


def _group_of(action: str) -> str:
    """Return the group of an action in the help."""
    if action.startswith(_IN_TIME):
        return "in time"
    if action.startswith(_EVERYWHERE) or _is_palette(action):
        return "everywhere"
    return "on this object" if action.startswith(_ON_OBJECT) else "here"
