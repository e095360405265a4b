"""What the palette offers: every screen and action that works here, recent objects, any id that is typed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from ledger_tui.resources.registry import BY_KIND, resource_of_id
from ledger_tui.state.text import literal
from ledger_tui.widgets.navigation import Exploring

_NOT_OFFERED = ("move", "open", "newest", "oldest")  # what only a key at hand is good for


class DashboardCommands(Provider):
    """Made from the bindings, so that whatever has a key can also be found by its name."""

    def _entries(self) -> Iterator[tuple[str, Callable[[], object]]]:
        yield from self._actions()
        yield from self._recent()

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

    def _recent(self) -> Iterator[tuple[str, Callable[[], object]]]:
        screen = self.screen
        if isinstance(screen, Exploring):
            for recent in screen.recent:
                kind = BY_KIND[recent.kind].singular.capitalize()
                name = f"{kind} {literal(recent.label)}".rstrip()
                yield f"{name}  {literal(recent.record_id)}", partial(screen.open_recent, recent)

    async def discover(self) -> Hits:
        for name, run in self._entries():
            yield DiscoveryHit(Content(name), run, text=name)

    async def search(self, query: str) -> Hits:
        screen, wanted = self.screen, query.strip()
        resource = resource_of_id(wanted)
        if isinstance(screen, Exploring) and resource is not None and resource.has_object_path:
            name = f"Open {resource.singular} {literal(wanted)}"
            yield Hit(1.0, Content(name), partial(screen.open_object, wanted), text=name)
        matcher = self.matcher(query)
        for name, run in self._entries():
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), run, text=name)
