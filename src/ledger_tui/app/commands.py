"""The command palette: each screen and action available here, recent objects, and any id that is typed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from functools import partial

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from ledger_tui.app.dashboard import Dashboard
from ledger_tui.app.navigation import Navigation
from ledger_tui.client.names import AccountName
from ledger_tui.formats.text import literal
from ledger_tui.resources.registry import BY_KIND, resource_of_id

_NAMED_SCORE = 0.9  # of a match by name, below that of a typed id
_LEAST_LOOKED_FOR = 3  # characters of a name that is not known, until the server is asked for it
_TYPING_SECONDS = 0.3
_NOT_OFFERED = ("move", "open", "newest", "oldest")  # useful only as keys


class Palette(CommandPalette):
    """Textual's palette, whose search may go on while the dashboard closes and its widgets are gone."""

    async def _watch__show_busy(self) -> None:
        if len(self.query("LoadingIndicator, CommandList")) == 2:
            await super()._watch__show_busy()


class DashboardCommands(Provider):
    """Commands built from the bindings, so that whatever has a key can also be found by its name."""

    def _entries(self, but: Collection[str] = ()) -> Iterator[tuple[str, Callable[[], object]]]:
        """Yield the actions and the recent objects; `but` has the ids of objects to leave out."""
        yield from self._actions()
        yield from self._recent(but)

    def _actions(self) -> Iterator[tuple[str, Callable[[], object]]]:
        seen: set[str] = set()
        for node, binding, enabled, _tip in self.screen.active_bindings.values():
            if not enabled or not binding.id or binding.action in seen or binding.id.startswith(_NOT_OFFERED):
                continue
            seen.add(binding.action)
            name = binding.description[0].upper() + binding.description[1:]
            yield (
                f"{name}  ({self.app.get_key_display(binding)})",
                partial(self.app.run_action, binding.action, node),
            )

    def _recent(self, but: Collection[str]) -> Iterator[tuple[str, Callable[[], object]]]:
        screen = self.screen
        if isinstance(screen, Dashboard):
            for recent in screen.navigation.recent:
                if recent.record_id in but:
                    continue
                kind = BY_KIND[recent.kind].singular.capitalize()
                name = f"{kind} {literal(recent.label)}".rstrip()
                yield f"{name}  {literal(recent.record_id)}", partial(screen.navigation.open_recent, recent)

    async def discover(self) -> Hits:
        for name, run in self._entries():
            yield DiscoveryHit(Content(name), run, text=name)

    async def search(self, query: str) -> Hits:
        screen, wanted = self.screen, query.strip()
        navigation = screen.navigation if isinstance(screen, Dashboard) else None
        resource = resource_of_id(wanted)
        if navigation is not None and resource is not None and resource.has_object_path:
            name = f"Open {resource.singular} {literal(wanted)}"
            yield Hit(1.0, Content(name), partial(navigation.open_object, wanted), text=name)
        if navigation is not None and wanted:
            for hit in self._named(navigation, wanted):
                yield hit
        by_name = (
            {named.id for named in navigation.named(wanted)} if navigation is not None and wanted else set()
        )
        matcher = self.matcher(query)
        for name, run in self._entries(but=by_name):
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), run, text=name)
        if navigation is not None and len(wanted) >= _LEAST_LOOKED_FOR and not navigation.named(wanted):
            # The palette cancels this when another key is pressed.
            await asyncio.sleep(_TYPING_SECONDS)
            await navigation.look_up(wanted)
            for hit in self._named(navigation, wanted):
                yield hit

    def _named(self, navigation: Navigation, wanted: str) -> Iterator[Hit]:
        """Yield the known accounts and users with this text in their name."""
        for named in navigation.named(wanted):
            kind = "Account" if isinstance(named, AccountName) else "User"
            name = f"{kind} {literal(named.name)}  {literal(named.id)}"
            yield Hit(_NAMED_SCORE, Content(name), partial(navigation.open_object, named.id), text=name)
