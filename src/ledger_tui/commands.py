"""What the palette offers: every screen, every action that works here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider


class DashboardCommands(Provider):
    """Made from the bindings, so that whatever has a key can also be found by its name."""

    def _entries(self) -> Iterator[tuple[str, Callable[[], object]]]:
        seen: set[str] = set()
        for node, binding, enabled, _tip in self.screen.active_bindings.values():
            if not enabled or not binding.id or binding.action in seen or binding.action.startswith("move"):
                continue
            seen.add(binding.action)
            name = binding.description[0].upper() + binding.description[1:]
            yield (
                f"{name}  ({self.app.get_key_display(binding)})",
                partial(self.app.run_action, binding.action, node),
            )

    async def discover(self) -> Hits:
        for name, run in self._entries():
            yield DiscoveryHit(name, run)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, run in self._entries():
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), run)
