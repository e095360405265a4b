"""The part of the main screen that runs actions, test helpers, the user's own commands and the command line.

For an action, such as paying an invoice, this module asks the user to confirm, sends the request, and shows
the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.binding import Binding
from textual.message import Message

from ledger_client.errors import LedgerError
from ledger_tui.app.navigation import Navigation
from ledger_tui.app.themes import use_theme
from ledger_tui.client.api import new_idempotency_key
from ledger_tui.client.errors import NotOffered
from ledger_tui.client.records import Record
from ledger_tui.client.session import Mode
from ledger_tui.features.past.machine import TimeMachine
from ledger_tui.features.test_helpers import MISSING, PART, ROOT, HelperRequest, outcome_of
from ledger_tui.formats.text import literal, with_article
from ledger_tui.forms.outcomes import in_words, outcome, uncertain
from ledger_tui.forms.questions import confirmation_of, named, question, way_back_sentence
from ledger_tui.forms.reversal_question import ReversalScreen, account_debited_back
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.base import Resource, ResourceAction
from ledger_tui.resources.registry import TEST_HELPERS
from ledger_tui.resources.transactions import REVERSE
from ledger_tui.resources.words import words_for
from ledger_tui.settings.config import write_private
from ledger_tui.settings.own_commands import OwnCommand, environment, run
from ledger_tui.ui.dialogs import ShownOnceScreen, confirm
from ledger_tui.ui.keys import LETTERS
from ledger_tui.ui.view import ActionRequested

if TYPE_CHECKING:
    from ledger_tui.app.command_line import Command


@dataclass
class ReconnectRequested(Message):
    """The user asks for the server of another profile, or for another API key for the current server."""

    profile: str | None = field(default=None, kw_only=True)
    key: str | None = field(default=None, kw_only=True)


@dataclass
class SaveProfileRequested(Message):
    """The user asks to save the connection as a profile."""

    name: str


def _start(navigation: Navigation, group: str, work: Coroutine[Any, Any, None]) -> None:
    navigation.app.run_worker(work, group=group, exit_on_error=False)


def _fail(navigation: Navigation, sentence: str) -> None:
    navigation.notify(sentence, severity="error", markup=False)


# ---------------------------------------------------------------------- actions on an object


def ask_action(navigation: Navigation, message: ActionRequested) -> None:
    """Run an action. Ask the user first if the action has lasting effects or needs caution; outside test
    mode, always ask first.
    """
    action, record, context = message.action, message.record, navigation.context
    mode = context.session.mode
    if not (action.final or action.caution(record)) and mode is Mode.TEST:
        _start(navigation, "act", _act(navigation, message))
        return
    way_back = way_back_sentence(message.resource, action, context.key_of, context.session.missing_parts)
    text = question(message.resource, action, record, context.names, way_back)
    ends_access = action.name == "revoke" and context.tokens.is_own(record)
    if ends_access:
        text += "\n\nThis dashboard uses this key and will lose access."
    # Outside test mode the user confirms every action, but types a text only if the effects are lasting.
    final = ends_access or (action.final and mode is not Mode.TEST)
    text_to_type, what = confirmation_of(record, context.names) if final else (None, "")
    navigation.app.clear_notifications()  # such as the message that asked the user to press the key again

    def act() -> None:
        _start(navigation, "act", _act(navigation, message))

    debited = account_debited_back(record) if action is REVERSE and text_to_type is None else None
    if debited is None:
        confirm(navigation.app, text, text_to_type, mode, act, what)
    else:
        _ask_reversal(navigation, text, record, debited, act)


def _ask_reversal(
    navigation: Navigation, text: str, record: Record, debited: str, act: Callable[[], None]
) -> None:
    """Ask before a reversal in test mode.

    If the reversal overdraws the account `debited`, ask again, and let the user type the amount.
    """
    context = navigation.context
    screen = ReversalScreen(text, record, debited, context)

    def answered(yes: bool | None) -> None:
        if yes:
            act()
        elif screen.overdraft:
            text_to_type, what = confirmation_of(record, context.names)
            asked = f"{text}\n\n{screen.overdraft}"
            confirm(navigation.app, asked, text_to_type, context.session.mode, act, what)

    navigation.app.push_screen(screen, answered)


async def _act(navigation: Navigation, request: ActionRequested) -> None:
    action = request.action
    path = request.resource.action_path(action, request.record)
    key = new_idempotency_key() if action.creates else None
    could_not = f"Could not {action.label}: "
    sent_at = navigation.context.session.clock()
    try:
        answer = await navigation.context.api.write(action.method, path, None, key, part=action.part)
    except NotOffered as error:
        why = f"this server does not offer the action, or the object does not exist ({literal(error)})"
        _fail(navigation, could_not + why)
        await _read_again(navigation, request)
    except LedgerError as error:
        unknown = uncertain(error)
        names, record = navigation.context.names, request.record
        why = in_words(error, names, record.get("id"), words_for(request.resource, record, names))
        _fail(navigation, f"{unknown} Check before you try again." if unknown else could_not + why)
        # If it is unknown whether the change was made, read nothing: the next polls show the object's state.
        if not unknown:
            await _read_again(navigation, request)
    else:
        # Remove a secret from the record at once. One dialog shows the secret, and the dashboard stores it
        # nowhere.
        record = dict(answer.record)
        secret = record.pop(action.shows_once, None) if action.shows_once else None
        shown_once = secret if isinstance(secret, str) else None
        navigation.call_later(_show_result, navigation, request, record, shown_once, sent_at)


async def _read_again(navigation: Navigation, request: ActionRequested) -> None:
    """Read the object of an action again, and show its state: somebody else may have changed it."""
    resource, api = request.resource, navigation.context.api
    record: Record | None = None
    sent_at = navigation.context.session.clock()
    if resource.has_object_path and resource.object_part not in navigation.context.session.missing_parts:
        with suppress(LedgerError):
            path = resource.object_path(request.record.get("id"))
            record = dict((await api.call("GET", path, part=resource.object_part)).record)
    navigation.call_later(_show_again, navigation, resource, record, sent_at)


def _show_again(navigation: Navigation, resource: Resource, record: Record | None, sent_at: float) -> None:
    """Show the present state of an object in its list.

    If `record` is None, or the object's state has changed since `sent_at`, read the list's rows instead.
    """
    for view in navigation.query(f"#{resource.kind}").results(ResourceView):
        view.detail.outdate()
        if record is not None and view.show_changed(record, sent_at):
            view.changed()
        else:
            view.poll_rows_soon()


def _show_result(
    navigation: Navigation, request: ActionRequested, record: Record, secret: str | None, sent_at: float
) -> None:
    """Show `record`, which is the server's answer to the action, and show a new secret this one time.

    The action was sent at `sent_at`. If the object's state has changed since then, read the object again.
    """
    answered_id = record.get("id")
    another = answered_id not in (None, request.record.get("id"))
    is_new = another and str(answered_id).startswith(request.resource.id_prefix)
    names = navigation.context.names
    sentence = outcome(request.resource, request.action, request.record, record, names)
    changed = record if is_new else request.record | record
    offer_undo(navigation, request.action.way_back, request.resource, changed, sentence)
    navigation.notify(sentence + undo_text(navigation), markup=False)
    for view in navigation.query(f"#{request.resource.kind}").results(ResourceView):
        view.detail.outdate()
        if answered_id == request.record.get("id") and not view.show_changed(record, sent_at):
            _start(navigation, "act", _read_again(navigation, request))
        if is_new or (request.action.creates and view.model.lacks(record)):
            view.show_created(record)
        elif another:
            view.action_follow()
    navigation.view.poll_soon()
    if secret is not None:
        note, tokens = "", navigation.context.tokens
        if request.action.name == "roll" and tokens.is_own(request.record):
            tokens.replace_key(secret)
            note = "This dashboard used the old key; it now uses the new one."
        navigation.app.push_screen(ShownOnceScreen(sentence, secret, note))


# ---------------------------------------------------------------------- undoing


def offer_undo(
    navigation: Navigation, action: ResourceAction | None, resource: Resource, record: Record, change: str
) -> None:
    """Remember the action that undoes the last change. `action` is None if the interface has no such action.

    The action would run on `record`, an object of the list `resource`. `change` is the sentence that
    describes the last change.
    """
    missing = navigation.context.session.missing_parts
    has_way = action is not None and action.part not in missing
    navigation.undo_request = ActionRequested(resource, action, record) if action and has_way else None
    navigation.why_no_undo = f"Nothing to undo: the last change cannot be undone ({change})."
    navigation.screen.refresh_bindings()


def undo_text(navigation: Navigation) -> str:
    """Return the text that ends the message about a change and names the key that undoes the change.

    Return "" if nothing undoes the change.
    """
    way = navigation.undo_request
    if way is None:
        return ""
    is_reversal = way.record.get("reverses") is not None
    key = navigation.context.key_of("take_back")
    return f" · {key} {'undoes the reversal' if is_reversal else f'{way.action.label}s it'}"


def why_no_undo(navigation: Navigation) -> str:
    """Return why there is no change to undo, and the effect of the key that reverses the selected object."""
    active = navigation.screen.active_bindings.values()
    own = [each.binding for each in active if each.enabled and each.binding.action in LETTERS["U"].actions]
    return " ".join([navigation.why_no_undo, *(effect_of(navigation, binding) for binding in own)]).rstrip()


def take_back(navigation: Navigation) -> None:
    """Undo the last change. If the action that undoes the change needs a question, ask the user first."""
    if navigation.undo_request is not None:
        ask_action(navigation, navigation.undo_request)


# ---------------------------------------------------------------------- test helpers


def ask_helper(navigation: Navigation, request: HelperRequest) -> None:
    """Send a request to a test helper; ask the user first if the request deletes data."""
    session = navigation.context.session
    if why := session.why_no_change:
        navigation.notify(why, markup=False)
    elif request.question:  # only test keys can use helpers, so the user need not type a text to confirm
        confirm(
            navigation.app,
            request.question,
            None,
            session.mode,
            lambda: _start(navigation, "act", _ask_helper(navigation, request)),
        )
    else:
        _start(navigation, "act", _ask_helper(navigation, request))


async def _ask_helper(navigation: Navigation, request: HelperRequest) -> None:
    api = navigation.context.api
    try:
        # Read the clock first, to learn whether the server has test helpers: a 404 to the request itself
        # could also mean a missing snapshot.
        await api.call("GET", f"{ROOT}/clock", part=PART)
        answer = await api.write(request.method, request.path, request.body, None)
        clock = await api.call("GET", f"{ROOT}/clock", part=PART)
    except NotOffered:
        _fail(navigation, MISSING)
    except LedgerError as error:
        _fail(navigation, uncertain(error) or literal(error))
    else:
        navigation.call_later(_show_helper_result, navigation, request, answer.record, clock.record)


async def _show_helper_result(
    navigation: Navigation, request: HelperRequest, answer: Record, clock: Record
) -> None:
    """Report the result of a test helper; if the helper replaced the ledger, read everything again."""
    navigation.context.session.saw_clock(clock.get("offset_ms"))
    if request.rewinds:
        await navigation.forget()
    navigation.notify(outcome_of(request, answer), markup=False)
    navigation.view.poll_soon()


# ---------------------------------------------------------------------- own commands and proofs


def ask_own_command(navigation: Navigation, name: str) -> None:
    """Run a command of the config file on the selected record; outside test mode ask the user first."""
    context, view = navigation.context, navigation.view
    command, record, mode = context.commands[name], view.selected, context.session.mode
    if record is None or (command.screens and view.place.kind not in command.screens):
        needed = " and ".join(command.screens) or "a record"
        navigation.notify(f"{name} works on {needed}: select one first.")
        return
    variables = environment(record, view.place.kind, context.session.url)
    if mode is Mode.TEST:
        _start(navigation, "own-command", _run(navigation, command, variables))
        return
    object_name = literal(record.get("id", ""))
    if isinstance(view.place, Resource):
        object_name = named(view.place, record, context.names)
    text = f"Run {name} with {object_name}?\n\n{literal(command.run)}"
    start_run = partial(_run, navigation, command, variables)
    confirm(navigation.app, text, None, mode, lambda: _start(navigation, "own-command", start_run()))


async def _run(navigation: Navigation, command: OwnCommand, variables: Mapping[str, str]) -> None:
    navigation.notify(await run(command, variables, navigation.context.key_variables), markup=False)


# The beginnings of the names of actions that change data.
CHANGES = (
    "create",
    "transfer",
    "edit",
    "act(",
    "send_again",
)
_NO_OBJECT = "There is no object under the cursor."
# The reasons why a key does nothing now, for actions whose key works on all screens. For any other action,
# the view gives the reason.
WHY_NOT = {
    "step(1)": "The screen shows the present; , goes back.",
    "travel(-1)": "No view comes before this one.",
    "travel(1)": "No view comes after this one.",
    "screen.compare": "Mark two to five accounts with space first: d compares them.",
    "export": "There is no list here to export.",
    "raw": _NO_OBJECT,
    "screen.copy_id": _NO_OBJECT,
    "ids": "There is no id in this record.",
    f"show('{TEST_HELPERS.kind}')": MISSING,
}
CHOOSE_PROVEN = "Choose a transaction or an event first: only they have a proof."


def proof_kind(record_id: str) -> str | None:
    """Return the list that contains the object with this id: "transactions" or "events".

    Return None for other objects, because the log has no proofs of them.
    """
    return {"txn": "transactions", "evt": "events"}.get(record_id[:3])


def prove(navigation: Navigation, *, save: bool = False) -> None:
    """Show the position of the selected transaction or event in the transparency log.

    With `save`, save the proof of the transaction or event to a file instead.
    """
    _start(navigation, "prove", _prove(navigation, save))


async def _prove(navigation: Navigation, save: bool) -> None:
    """Read the proof of the selected object.

    With `save`, write the proof to a file in the working directory, to which exports go too.
    """
    from ledger_tui.resources.proofs import NO_LOG, place_in_log, read_proof

    record_id = navigation.view.selected_id
    kind = proof_kind(record_id)
    if kind is None:
        navigation.notify(CHOOSE_PROVEN)
        return
    file = Path(f"{record_id}.tlog-proof")
    try:
        proof = await read_proof(navigation.context.api, kind, record_id)
        if proof is None:
            navigation.notify(NO_LOG)
            return
        if save:
            await asyncio.to_thread(write_private, file, proof.text)
    except NotOffered:
        navigation.notify(NO_LOG)
    except LedgerError as error:
        _fail(navigation, f"No proof: {literal(error)}")
    except OSError as error:
        _fail(navigation, f"Not saved: {literal(error)}")
    else:
        saved = f"Saved {file}; `ledger-engine check-proof` checks it against the event's body."
        now = datetime.fromtimestamp(navigation.context.session.present_time, UTC)
        place = f"{place_in_log(proof, now)}. :prove saves the proof."
        navigation.notify(saved if save else place, markup=False)


# ---------------------------------------------------------------------- the command line


def open_command_line(navigation: Navigation, line: str = "") -> None:
    """Open the command line, with `line` already typed."""
    from ledger_tui.app import command_offers
    from ledger_tui.app.command_line import Choices, CommandScreen

    context = navigation.context
    helpers = None if PART in context.session.missing_parts else navigation.snapshot_names
    now_ms = round(context.session.present_time * 1000)
    choices = Choices(context.profiles, [*context.themes], context.names, helpers, now_ms)
    actions = [*command_offers.actions_here(navigation), *command_offers.recent_objects(navigation)]
    here = {offer.text for offer in actions}
    elsewhere = [offer for offer in command_offers.actions_elsewhere(navigation) if offer.text not in here]
    # Notifications would cover the command line. Clear them before the command line opens, because Textual
    # clears only the notifications of the topmost screen.
    navigation.app.clear_notifications()
    navigation.app.push_screen(
        CommandScreen(choices, actions, elsewhere, navigation, line), partial(_run_command, navigation)
    )


def effect_of(navigation: Navigation, binding: Binding) -> str:
    """Return a sentence with the effect of a key that creates or changes an object; "" for any other key."""
    view, key = navigation.view, navigation.app.get_key_display(binding)
    if not isinstance(view, ResourceView):
        return ""
    resource = view.resource
    if binding.action == "edit" and resource.edits:
        return f"{key} edits {resource.edits}."
    if binding.action == "create" and view.opened and resource.form_inside is not None:
        return f"{key} posts to this {resource.singular}."
    if binding.action == "create" and resource.form is not None:
        return f"{key} creates {with_article(resource.singular)}."
    if binding.action == "transfer" and resource.transfer is not None:
        return f"{key} moves money between two accounts."
    action = resource.action(binding.action.removeprefix("act('").removesuffix("')"))
    return action.effect_sentence(key, resource.singular) if action is not None else ""


async def _run_command(navigation: Navigation, command: Command | None) -> None:
    if command is None:
        return
    view = navigation.view
    match command.kind:
        case "run":
            if command.run is not None and isawaitable(awaitable := command.run()):
                await awaitable
        case "screen":
            await navigation.go(command.argument)
            if isinstance(view := navigation.view, ResourceView):
                view.set_filters(dict(command.filters))
        case "object":
            await navigation.open_object(command.argument)
        case "profile":
            navigation.post_message(ReconnectRequested(profile=command.argument))
        case "key":
            from ledger_tui.ui.dialogs import KeyScreen

            navigation.app.push_screen(KeyScreen(), partial(_use_key, navigation))
        case "save":
            navigation.post_message(SaveProfileRequested(command.argument))
        case "theme":
            use_theme(navigation, command.argument)
        case "helper":
            if command.helper is not None:
                ask_helper(navigation, command.helper)
        case "at":
            navigation.screen.query_one(TimeMachine).go(command.ms)
        case "date":
            if isinstance(view, ResourceView) and view.record_list.takes_moments:
                view.record_list.go_to_date(command.argument.replace(" ", "T"))
            else:
                navigation.notify("Only transactions and requests have dates to go to: press 2 or 8 first.")
        case "prove":
            prove(navigation, save=True)
        case "help":
            await navigation.screen.run_action("help")
        case "quit":
            await navigation.app.action_quit()


def _use_key(navigation: Navigation, key: str | None) -> None:
    if key is not None:
        navigation.post_message(ReconnectRequested(key=key))
