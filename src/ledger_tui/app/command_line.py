"""The command line at the bottom of the screen.

The command line is also a palette: a list above the input shows what the typed text can mean. The list shows
commands that begin with the text, actions that are possible here, and objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static

from ledger_tui.app.navigation import Navigation
from ledger_tui.client.names import AccountName, AccountNames
from ledger_tui.features.past.machine import MOMENTS, parse_moment
from ledger_tui.features.test_helpers import (
    HELPER_WORDS,
    HelperRequest,
    helper_completions,
    parse_helper,
)
from ledger_tui.formats.text import fit, literal, sentence
from ledger_tui.resources.base import Filter, Resource
from ledger_tui.resources.filtering import (
    BadLine,
    check_date,
    is_filter_line,
    parse_filters,
    split_words,
    usage,
)
from ledger_tui.resources.registry import BY_KIND, PLACES, TEST_HELPERS, is_id, resource_of_id
from ledger_tui.ui.dialogs import Dialog, Offers
from ledger_tui.ui.handlers import asks, while_running

Kind = Literal[
    "screen",
    "object",
    "profile",
    "key",
    "save",
    "theme",
    "helper",
    "at",
    "help",
    "quit",
    "prove",
    "date",
    "run",
]


@dataclass(frozen=True)
class Command:
    """The command that the user has typed or chosen.

    Depending on `kind`, `argument` holds an id, a date, or the name of a screen, a profile or a theme. If the
    command opens a list, `filters` are the filters to set in the list.
    """

    kind: Kind
    argument: str = ""
    filters: Mapping[str, str] = field(default_factory=dict)
    helper: HelperRequest | None = None
    ms: int | None = None  # for the kind "at": the moment to show; None is the present
    run: Callable[[], object] | None = None


class CommandOffer(NamedTuple):
    """A possible meaning of the typed line: a longer line, or an action if `run` is set.

    `also` holds further words that find the offer but are not shown.
    """

    text: str
    about: str = ""
    run: Callable[[], object] | None = None
    also: str = ""

    def has(self, words: Sequence[str]) -> bool:
        """Return whether the texts of this offer contain each of the words."""
        texts = f"{self.text} {self.about} {self.also}".casefold()
        return all(word in texts for word in words)

    def is_named(self, line: str) -> bool:
        """Return whether the line is the whole name of this offer."""
        return self.text.casefold() == line.strip().casefold()

    def rank(self, line: str) -> int:
        """Return how well a line matches this offer; 0 is the best.

        - 0: the line is the whole name
        - 1: the name begins with the line
        - 2: all words of the line are whole words of the name, the description or `also`
        - 3: the name and the description together contain all words of the line
        - 4: some words of the line are only in `also`
        """
        if self.is_named(line):
            return 0
        if self.text.casefold().startswith(line.strip().casefold()):
            return 1
        words = line.casefold().split()
        if set(words).issubset(f"{self.text} {self.about} {self.also}".casefold().split()):
            return 2
        return 3 if self._replace(also="").has(words) else 4


@dataclass(frozen=True)
class Choices:
    """The names that a line can contain in addition to screens: profiles, themes and known accounts.

    `snapshots` holds the names of the snapshots that the dashboard has read. `snapshots` is None if the
    server has no test helpers. `now_ms` is the present time of the ledger.
    """

    profiles: Sequence[str]
    themes: Sequence[str]
    names: AccountNames
    snapshots: Sequence[str] | None = ()
    now_ms: int = 0


# Further words that find a screen, a command or an action. An action has the same name here as in the key
# map.
_ALSO: Mapping[str, str] = {
    "accounts": "balances money",
    "transactions": "postings transfer payments reverse refund",
    "invoices": "bills pay void finalize cancel overdue",
    "users": "people customers members deactivate",
    "orders": "ship pay",
    "token": "credential limits quota plan sign in",
    "events": "webhooks deliveries endpoints receivers resend",
    "requests": "log errors failures",
    "api_keys": "secrets revoke roll",
    "overview": "status health",
    "profile": "server connect switch",
    "key": "credential",
    "theme": "colours dark light contrast",
    "at": "time travel past history machine",
    "flows": "sankey diagram movements",
    "help": "shortcuts",
    "quit": "exit leave",
    "clock": "time travel advance",
    "create": "add",
    "export": "csv jsonl save download",
    "trace": "why timeline history",
    "prove": "proof transparency log audit",
    "times": "time zone",
    "follow": "newest live",
    "arrange": "order",
    "act.reverse": "refund undo cancel",
    "act.void": "cancel",
    "act.deactivate": "delete remove",
    "copy_curl": "shell request",
}
NOTHING = "Nothing found. Try a screen (invoices), an action (pay), part of an account's name, or an id."

_SHORT = {"txn": "transactions", "webhooks": "events", "keys": "api_keys", "home": "overview", "q": "quit"}
# The command line also accepts the short names on the tabs, but offers only the long ones.
_KIND_OF = {place.short.lower(): place.kind for place in PLACES} | _SHORT


_ABOUT: dict[str, tuple[Kind, str]] = {
    "profile": ("profile", "connect to another server"),
    "key": ("key", "use another API key for this server"),
    "save": ("save", "save this connection as a profile"),
    "theme": ("theme", "change the colours"),
    "at": ("at", "show the ledger at another time: 2026-11-23 14:05, -2h, now"),
    "flows": ("screen", "show the flows of money between the accounts"),
    "date": ("date", "go to a date in this list, such as 2026-11-20"),
    "prove": ("prove", "save the proof of this transaction or event"),
    "help": ("help", "the keys"),
    "quit": ("quit", "quit"),
}


_HELPERS = (*HELPER_WORDS, TEST_HELPERS.kind)
FLOWS = CommandOffer("flows", _ABOUT["flows"][1], also=_ALSO["flows"])


# Instead of a filter's whole value, the user can type only its first characters, at least this many. No other
# value may begin with these characters.
_LETTERS_OF_A_VALUE = 2


# Values that the user can type without the name of the filter: `paid` means `status:paid`.
_WORDS = ("draft", "open", "paid", "void", "shipped", "credit", "debit", "member", "admin", "owner")


def parse_command(line: str, choices: Choices) -> Command:
    """Return the command that a line means. Raises BadLine."""
    line = line.strip().lstrip(":")
    if check_date(line) is None:
        return Command("date", line)
    first, _, rest = line.partition(" ")
    rest = rest.strip()
    if not first:
        raise BadLine("Type a screen, an id, or a command; tab completes it.")
    if is_id(first):
        return _object(first)
    word = _meant(first)
    if word not in _ABOUT and word not in HELPER_WORDS:
        return _screen(word, rest, choices)
    if word in HELPER_WORDS:
        return _helper(word, rest)
    kind = _ABOUT[word][0]
    if kind == "screen":
        return _screen(word, rest, choices)
    if kind == "at":
        return Command("at", ms=parse_moment(rest, choices.now_ms))
    names = {"profile": choices.profiles, "theme": choices.themes}.get(kind)
    matches = [name for name in names or () if rest and name.startswith(rest)]
    if len(matches) == 1 and rest not in (names or ()):
        rest = matches[0]
    if names is not None and rest not in names:
        raise BadLine(_unknown(kind, rest, names))
    if kind == "date" and (problem := check_date(rest)) is not None:
        raise BadLine(problem)
    if kind == "save" and not rest:
        raise BadLine("Name the profile: :save NAME")
    return Command(kind, rest)


def problem(line: str, choices: Choices) -> str:
    """Return the reason why the line is no command; "" if the line is one."""
    try:
        parse_command(line, choices)
    except BadLine as error:
        first, space, _rest = line.strip().lstrip(":").partition(" ")
        # A line whose first word is a whole command can lack only a correct argument.
        return str(error) if space and first.lower() in (*_commands(), *_HELPERS) else NOTHING
    return ""


def completions(line: str, choices: Choices) -> list[tuple[str, str]]:
    """Return the completions of the line, each with a short description."""
    if check_date(line.strip().lstrip(":")) is None:
        return [(f"date {line.strip().lstrip(':')}", _about("date"))]
    first, space, rest = line.lstrip(":").partition(" ")
    if not space:
        words = [*_commands(), *(_HELPERS if choices.snapshots is not None else ())]
        matches = [word for word in words if word.startswith(first.lower())]
        matches = matches or [kind for name, kind in _KIND_OF.items() if name.startswith(first.lower())]
        return [(word, _about(word)) for word in matches]
    try:
        word = _meant(first)
    except BadLine:
        return []
    before, _, last = rest.rpartition(" ")
    head = f"{first} {before} ".replace("  ", " ")
    return [(head + text, about) for text, about in _arguments(word, last, choices)]


def others(line: str, actions: Sequence[CommandOffer], choices: Choices) -> list[CommandOffer]:
    """Return the actions and commands that the words of a line describe, with the test helpers if the server
    has them.

    The words may be in any text of an offer: `exit` finds `quit`, because `exit` is a further word of this
    offer. Leave out commands that begin with the line, because `completions` returns these commands.
    """
    words = line.casefold().split()
    matches = [
        CommandOffer(word, _about(word), also=_ALSO.get(word, ""))
        for word in _commands()
        if word not in _SHORT
    ]
    if choices.snapshots is not None:
        matches += [CommandOffer(word, _about(word), also="test helpers") for word in _HELPERS]
    beginning = line.strip().casefold()
    commands = [each for each in matches if beginning and not each.text.startswith(beginning)]
    return [each for each in (*actions, *commands) if each.has(words)]


def action_offer(name: str, description: str, key: str, run: Callable[[], object]) -> CommandOffer:
    """Return the offer of an action; `name` is its name in the key map."""
    return CommandOffer(sentence(description), key, run, _ALSO.get(name, ""))


def _arguments(word: str, typed: str, choices: Choices) -> Iterator[tuple[str, str]]:
    names = {"profile": choices.profiles, "theme": choices.themes}.get(word)
    if names is not None:
        yield from ((name, "") for name in names if name.startswith(typed))
        return
    if word == "at":
        yield from ((text, about) for text, about in MOMENTS if text.startswith(typed))
        return
    if word in HELPER_WORDS:
        yield from helper_completions(word, typed, choices.snapshots or ())
        return
    resource = BY_KIND.get(word)
    for filter_ in resource.filters if resource is not None else ():
        yield from (
            (text, filter_.name) for text in _WORDS if text.startswith(typed) and _takes(filter_, text)
        )
        if f"{filter_.name}:".startswith(typed):
            yield f"{filter_.name}:", f"like {filter_.name}:{filter_.example}"
        if filter_.account and typed:
            name = typed.removeprefix(f"{filter_.name}:")
            yield from ((f"{filter_.name}:{one.id}", one.name) for one in choices.names.search(name))


def _commands() -> list[str]:
    return [*(place.kind for place in PLACES), *_SHORT, *_ABOUT]


def _about(word: str) -> str:
    kind = _SHORT.get(word, word)
    if kind in _ABOUT:
        return _ABOUT[kind][1]
    if kind in HELPER_WORDS:
        return HELPER_WORDS[kind]
    return next((place.title for place in (*PLACES, TEST_HELPERS) if place.kind == kind), "")


def _meant(word: str) -> str:
    """Return the screen or command whose name is the word or begins with the word. Raises BadLine."""
    word = word.lower()
    words = [*_commands(), *_KIND_OF]
    exact = word in words or word in _HELPERS
    matches = [word] if exact else [each for each in words if each.startswith(word)]
    # match test helpers last: few servers offer them, so their names must not make a short word ambiguous
    if not matches:
        matches = [each for each in _HELPERS if each.startswith(word)]
    kinds = list(dict.fromkeys(_KIND_OF.get(each, each) for each in matches))
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        raise BadLine(f"“{word}” may be {', '.join(kinds)}; write more of it.")
    raise BadLine(f"There is no command “{word}”; tab shows what there is.")


def _unknown(kind: Kind, name: str, names: Sequence[str]) -> str:
    """Return the message for an unknown name of a profile or theme; the message lists the existing names."""
    there = f"{kind.capitalize()}s: {', '.join(names)}." if names else ""
    if not name:
        return f"Which {kind}? {there or 'There are none yet; :save NAME makes one.'}"
    advice = f"Save this connection with :save {name}." if kind == "profile" else ""
    return " ".join(filter(None, (f"No {kind} is named “{name}”.", advice, there)))


def _object(record_id: str) -> Command:
    resource = resource_of_id(record_id)
    if resource is None or not resource.has_object_path:
        raise BadLine(f"No screen shows {record_id}.")
    return Command("object", record_id)


def _helper(word: str, rest: str) -> Command:
    """Return the command for a line that begins with the word of a test helper. Raises BadLine."""
    if word == "clock" and not rest:
        return Command("screen", TEST_HELPERS.kind)
    return Command("helper", word, helper=parse_helper(word, rest))


def _screen(kind: str, rest: str, choices: Choices) -> Command:
    resource = BY_KIND.get(kind)
    if not rest:
        return Command("screen", kind)
    if resource is None or not (resource.filters or is_id(rest)):
        raise BadLine(f"{kind} has no filters.")
    if is_id(rest) and resource_of_id(rest) is resource:
        return _object(rest)
    line = " ".join(_as_filter(word, resource) for word in _words(rest, resource))
    return Command("screen", kind, parse_filters(line, resource.filters, choices.names))


def _words(rest: str, resource: Resource) -> list[str]:
    """Return the words of a line.

    Consecutive words that are not filters form a name, such as the name of an account. This function returns
    such a name as one word in quotes.
    """
    words: list[str] = []
    name: list[str] = []
    for word in [*split_words(rest), ""]:
        if word and ":" not in word and _value(word, resource) is None:
            name.append(word.replace('"', ""))
            continue
        if name:
            words.append(f'"{" ".join(name)}"')
            name = []
        words.extend([word] if word else [])
    return words


def _as_filter(word: str, resource: Resource) -> str:
    """Return a word as a filter: `paid` as `status:paid`, an account's id or name as `account:…`."""
    if ":" in word:
        return word
    value = _value(word, resource)
    if value is not None:
        return value
    if account := next((each for each in resource.filters if each.account), None):
        return f"{account.name}:{word}"
    plain = word.replace('"', "")
    raise BadLine(f"“{plain}” is not one of {usage(resource.filters)}.")


def _value(word: str, resource: Resource) -> str | None:
    """Return the filter, such as `status:paid`, that a word means without the name of the filter.

    The word is a value, the beginning of exactly one value, or the name of a yes/no filter. Return None for
    any other word.
    """
    if is_filter_line(word, resource.filters):
        return word
    names = [each for each in _WORDS if each == word] or [each for each in _WORDS if each.startswith(word)]
    values = [f"{each.name}:{text}" for text in names for each in resource.filters if _takes(each, text)]
    if len(values) == 1 and len(word) >= _LETTERS_OF_A_VALUE:
        return values[0]
    return next((f"{each.name}:{word}" for each in resource.filters if _takes(each, word)), None)


def _takes(filter_: Filter, word: str) -> bool:
    """Return whether a filter has a list of values and the list contains this word.

    A filter without a list accepts any word, so the word alone does not tell that this filter is meant.
    """
    return filter_.check("?") is not None and filter_.check(word) is None


_EXAMPLES = "inv paid, txn acc_…, an action, a name, an id"
_SHOWN = 60
_WIDTH = 44
_LEAST_LOOKED_FOR = 3  # the minimum length of an unknown name that the command line looks up on the server
_TYPING_SECONDS = 0.3


class CommandScreen(Dialog[Command | None]):
    """The command line, which returns the typed or chosen command; None if the user closes it.

    tab completes the line, and `↑` and `↓` choose an offer. The actions in `actions` are possible now. The
    actions in `elsewhere` are possible on another screen or for another object; an empty line does not offer
    them. `navigation` finds objects by their names.
    """

    BINDINGS = [
        Binding("enter", "run_line", "run", show=True, priority=True),
        Binding("tab", "complete", "complete", show=True, priority=True),
        Binding("down", "choose(1)", "next", show=True, priority=True),
        Binding("up", "choose(-1)", show=False, priority=True),
        Binding("escape", "dismiss", "close", show=True),
    ]

    def __init__(
        self,
        choices: Choices,
        actions: Sequence[CommandOffer],
        elsewhere: Sequence[CommandOffer],
        navigation: Navigation,
        first_text: str = "",
    ) -> None:
        super().__init__("command-line")
        self._choices = choices
        self._actions = actions
        self._elsewhere = elsewhere
        self._navigation = navigation
        self._first_text = first_text  # the line to continue, with the cursor at its end
        self._offers: list[CommandOffer] = []

    def compose(self) -> ComposeResult:
        with Vertical(id="command-line"):
            yield Offers()
            yield Static(id="command-problem")
            yield Input(
                self._first_text,
                compact=True,
                select_on_focus=False,
                placeholder=("⏎ flows, or type: " if FLOWS in self._actions[:1] else "") + _EXAMPLES,
            )

    def on_mount(self) -> None:
        self.set_focus(self.query_one(Input))
        self._show(self._first_text)

    @on(Input.Changed)
    def typed(self, event: Input.Changed) -> None:
        self._show(event.value)
        line = event.value.strip()
        if len(line) >= _LEAST_LOOKED_FOR and not self._offers:
            self.set_timer(_TYPING_SECONDS, lambda: self._look_for(line))

    def _show(self, line: str) -> None:
        offers = [CommandOffer(*each) for each in completions(line, self._choices)]
        if line.strip():
            further = others(line, [*self._actions, *self._elsewhere], self._choices)
            found = [*offers, *self._objects(line.strip()), *further]
            found.sort(key=lambda each: each.rank(line))
            # Two sources can offer the same object, such as the known names and the recent objects; show it
            # once.
            self._offers = [*{(each.text, each.about): each for each in reversed(found)}.values()][::-1]
        else:
            offered = {each.text for each in self._actions}
            self._offers = [*self._actions, *(each for each in offers if each.text not in offered)]
        del self._offers[_SHOWN:]
        # If enter would run the first offer at once, highlight the offer, so that the user sees what enter
        # would do. On an empty line, enter runs only `FLOWS`, and `FLOWS` is the first offer only if the key
        # bar shows `: flows`.
        first = self._offers[0] if self._offers else None
        runs_first = first and first.run and (first.is_named(line) or not self._is_command(line))
        enter_runs_first = runs_first if line.strip() else first is FLOWS
        self.query_one(Offers).offer(
            (
                Content.assemble(fit(literal(each.text), _WIDTH), (f"  {literal(each.about)}", "$muted"))
                for each in self._offers
            ),
            0 if enter_runs_first else None,
        )
        self._say("" if self._offers else problem(line, self._choices), "$muted")

    def _is_command(self, line: str) -> bool:
        return not problem(line, self._choices)

    def _objects(self, text: str) -> Iterator[CommandOffer]:
        """Yield the object with this id, and the known accounts and users with this text.

        The text can be in their name, id or email.
        """
        navigation, resource = self._navigation, resource_of_id(text)
        if resource is not None and resource.has_object_path:
            yield CommandOffer(f"Open {resource.singular}", text, partial(navigation.open_object, text))
        for recent in navigation.named(text):
            kind = "Account" if isinstance(recent, AccountName) else "User"
            yield CommandOffer(f"{kind} {recent.name}", recent.id, partial(navigation.open_object, recent.id))

    @while_running
    def _look_for(self, text: str) -> None:
        """Ask the server for the name `text` if the input still contains this text."""
        if self.is_current and self.query_one(Input).value.strip() == text:
            self._read_names(text)

    @asks("names")
    async def _read_names(self, text: str) -> None:
        await self._navigation.look_up(text)
        self.call_later(self._names_read, text)

    @while_running
    def _names_read(self, text: str) -> None:
        if self.query_one(Input).value.strip() == text and self._navigation.named(text):
            self._show(text)

    def _say(self, text: str, style: str = "bold $error") -> None:
        line = self.query_one("#command-problem", Static)
        line.display = bool(text)
        line.update(Content.styled(literal(text), style))

    def action_choose(self, step: int) -> None:
        self.query_one(Input).placeholder = _EXAMPLES  # enter no longer opens the flows
        self.query_one(Offers).step(step)

    async def action_run_line(self) -> None:
        await self.query_one(Input).action_submit()

    def action_complete(self) -> None:
        """Complete the line with the highlighted offer; without a highlight, with the first offer."""
        if self._offers:
            self._take(self._offers[self.query_one(Offers).highlighted or 0])

    def _take(self, offer: CommandOffer) -> None:
        line = self.query_one(Input)
        line.value = offer.text if offer.run is not None or offer.text.endswith(":") else f"{offer.text} "
        line.cursor_position = len(line.value)

    @on(OptionList.OptionSelected)
    def clicked(self, event: OptionList.OptionSelected) -> None:
        offer = self._offers[event.option_index]
        if offer.run is not None:
            self.dismiss(Command("run", run=offer.run))
            return
        self._take(offer)
        self.set_focus(self.query_one(Input))

    @on(Input.Submitted)
    def run_line(self, event: Input.Submitted) -> None:
        event.stop()
        index = self.query_one(Offers).highlighted
        offer = self._offers[index] if index is not None else CommandOffer(event.value)
        if offer.run is not None:
            self.dismiss(Command("run", run=offer.run))
            return
        try:
            command = parse_command(offer.text, self._choices)
        except BadLine as error:
            self._say(f"✕ {error}")
        else:
            self.dismiss(command)
