"""The question before a reversal in test mode: it reads the balance of the account that the reversal debits.

If the reversal would overdraw the account, the user must type the amount, as for a transfer.
"""

from __future__ import annotations

from contextlib import suppress

from ledger_client.errors import LedgerError
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.client.session import Mode
from ledger_tui.forms.questions import Movement
from ledger_tui.resources.accounts import ACCOUNTS
from ledger_tui.ui.dialogs import ConfirmScreen
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.view import Context


def account_debited_back(transaction: Record) -> str | None:
    """Return the id of the account that the reversal of a transaction debits; None if there is none."""
    debited = transaction.get("account" if transaction.get("type") == "credit" else "destination")
    return debited if isinstance(debited, str) else None


def overdraft_text(transaction: Record, account: Record, names: AccountNames) -> str:
    """Return a line such as `Till is left with −5.00 EUR, overdrawn`.

    Return "" if the reversal of the transaction does not overdraw the account.
    """
    name, amount, balance = names.get(account.get("id")), transaction.get("amount"), account.get("balance")
    if name is None or not isinstance(amount, int) or not isinstance(balance, int):
        return ""
    movement = Movement(name, "debit", amount, None, balance - amount)
    return movement.in_words("\n", is_done=False).partition("\n")[2] if movement.overdraws else ""


class ReversalScreen(ConfirmScreen):
    """Asks whether to reverse a transaction, and meanwhile reads the balance of the account `account_id`.

    If the reversal overdraws this account, the dialog closes and returns False. Then `overdraft` is the line
    that `overdraft_text` returns. A `y` that comes before the balance waits for the balance.
    """

    def __init__(self, question: str, transaction: Record, account_id: str, context: Context) -> None:
        super().__init__(question, None, Mode.TEST)
        self._transaction = transaction
        self._account_id = account_id
        self._api, self._names = context.api, context.names
        self.overdraft = ""
        self._is_confirmed = False

    def on_mount(self) -> None:
        self.working = True
        self._read_balance()

    async def action_dismiss(self, result: bool | None = None) -> None:
        if result and self.working:
            self._is_confirmed = True
            self.notes.display = True
            self.note("Reading the balance…")
        else:
            self.dismiss(result)

    @property
    def unfinished(self) -> str:
        return ""

    @asks("reversal")
    async def _read_balance(self) -> None:
        """Read the account once. If no answer comes, the user confirms with `y` alone."""
        account: Record = {}
        with suppress(LedgerError):
            account = (await self._api.call("GET", ACCOUNTS.object_path(self._account_id))).record
            self._names.learn([account])
        self.call_later(self._take_balance, overdraft_text(self._transaction, account, self._names))

    @while_running
    def _take_balance(self, overdraft: str) -> None:
        if not self.is_attached:
            return
        self.rest("")
        if overdraft:
            self.overdraft = overdraft
            self.dismiss(False)
        elif self._is_confirmed:
            self.dismiss(True)
