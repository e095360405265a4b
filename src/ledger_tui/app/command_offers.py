"""Returns the actions that the command line offers: on this screen, on other screens, and recent objects."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ledger_tui.app.command_line import FLOWS, CommandOffer, action_offer
from ledger_tui.app.navigation import Navigation
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.base import Resource, ResourceAction
from ledger_tui.resources.registry import BY_KIND, RESOURCES
from ledger_tui.resources.transactions import TRANSACTIONS
from ledger_tui.ui.key_bar import by_use, caption
from ledger_tui.ui.keys import BY_ID

# Bindings that the command line does not offer: moves of the cursor, the key that opens the command line, and
# the keys of screens, because the name of each screen is itself a command.
_NOT_OFFERED = ("move", "choose", "newest", "oldest", "show.", "command_line")


def actions_here(navigation: Navigation) -> Iterator[CommandOffer]:
    """Yield the actions that have a key on this screen, without the actions that open a screen.

    The actions on the key bar come first, in the order of the bar. No action that opens a screen is needed,
    because the name of each screen is a command. There is one exception: if the bar shows `: flows`, `:flows`
    comes before all actions, so that `:` and enter open the flows.
    """
    app = navigation.app
    if navigation.view.lines_offered == FLOWS.text:
        yield FLOWS
    bindings = [
        (node, binding)
        for node, binding in by_use(navigation.screen)
        if binding.id and not binding.id.startswith(_NOT_OFFERED)
    ]
    for node, binding in sorted(bindings, key=lambda each: not each[1].show):
        run_it = partial(app.run_action, binding.action, node)
        label = caption(node, binding)
        yield action_offer(binding.id or "", label, app.get_key_display(binding), run_it)


def actions_elsewhere(navigation: Navigation) -> Iterator[CommandOffer]:
    """Yield the changes that are possible on other screens or objects. A chosen change opens its screen."""
    session, key_of = navigation.context.session, navigation.context.key_of
    if session.forbids_changes:
        return
    view = navigation.view
    yield action_offer("transfer", "transfer", "between two accounts", partial(_transfer, navigation))
    is_list = isinstance(view, ResourceView) and view.selected is not None and not view.opened
    if is_list and navigation.resource_view.resource.form_inside is not None:
        about = f"open the {navigation.resource_view.resource.singular}, then {key_of('create')}"
        run_it = partial(_post_to_selected, navigation)
        yield action_offer("create", "post to this account", about, run_it)
    for resource in (resource for resource in RESOURCES if "{" not in resource.path):
        if resource.part in session.missing_parts:
            continue
        if resource.form is not None:
            run_it = partial(_begin, navigation, resource)
            yield action_offer("create", f"new {resource.singular}", resource.title, run_it)
        for action in resource.actions:
            if action.part not in session.missing_parts:
                key = key_of(f"act.{action.name}")
                why = _why_not_here(navigation, resource, action)
                about = why or f"{resource.title}: choose a row, then {key}"
                effect = action.effect_sentence(key, resource.singular)
                advice = f"{effect}\n{why}" if why else f"Choose a row: {key} {action.label}s it."
                run_it = partial(_begin, navigation, resource, advice)
                yield action_offer(f"act.{action.name}", action.label, about, run_it)


def _why_not_here(navigation: Navigation, resource: Resource, action: ResourceAction) -> str:
    """Return why the chosen row does not allow the action; "" if no row of this resource is chosen."""
    view = navigation.view
    if not isinstance(view, ResourceView) or view.place.kind != resource.kind or view.selected is None:
        return ""
    return view.why_not(BY_ID[f"act.{action.name}"])


async def _begin(navigation: Navigation, resource: Resource, advice: str = "") -> None:
    """Go to the screen where a change is made. Show `advice`, which says how to continue there; without
    advice, open the form of a new object.
    """
    if navigation.view.place is not resource:
        await navigation.go(resource.kind)
    if advice:
        navigation.notify(advice, markup=False)
    else:
        if resource.form_inside is not None:
            navigation.resource_view.open(False)  # the key opens the form of a new object in the list only
        await navigation.screen.run_action("create")


async def _transfer(navigation: Navigation) -> None:
    """Open the form of a transfer, on the transactions if the screen has no such form."""
    view = navigation.view
    if not isinstance(view, ResourceView) or view.resource.transfer is None:
        await navigation.go(TRANSACTIONS.kind)
    # If the chosen account allows no transfer, the action shows the reason.
    await navigation.screen.run_action("transfer")


async def _post_to_selected(navigation: Navigation) -> None:
    navigation.resource_view.action_open()
    await navigation.screen.run_action("create")


def recent_objects(navigation: Navigation) -> Iterator[CommandOffer]:
    """Yield the recently opened objects."""
    for recent in navigation.context.recent:
        name = f"{BY_KIND[recent.kind].singular.capitalize()} {recent.label}".rstrip()
        open_it = partial(navigation.open_object, recent.record_id, recent.kind)
        yield CommandOffer(name, recent.record_id, open_it)
