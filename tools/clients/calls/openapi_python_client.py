"""Make an account, a token, a posting and a list with the client of openapi-python-client."""

import json
import os
from uuid import uuid4

from ledger_client import AuthenticatedClient, Client, models
from ledger_client.api.accounts import create_account
from ledger_client.api.tokens import issue_token
from ledger_client.api.transactions import list_transactions, post_transaction

url, key = os.environ["LEDGER_URL"], os.environ["LEDGER_API_KEY"]

grant = models.ApiKeyGrant(grant_type="api_key", api_key=key)
token = issue_token.sync(client=Client(base_url=url), body=grant)
assert isinstance(token, models.TokenPair), token
ledger = AuthenticatedClient(base_url=url, token=token.access_token)

new = models.CreateAccount(name="Till", currency="EUR")
till = create_account.sync(client=ledger, body=new)
assert isinstance(till, models.Account), till
sale = models.PostTransaction(account=till.id, amount=1250, type_=models.PostTransactionType.CREDIT)
sale_key = str(uuid4())  # kept with the sale, and sent with each attempt
posted = post_transaction.sync(client=ledger, body=sale, idempotency_key=sale_key)
assert isinstance(posted, models.Transaction), posted
page = list_transactions.sync(client=ledger, account=till.id)
assert isinstance(page, models.TransactionList), page
again = post_transaction.sync(client=ledger, body=sale, idempotency_key=sale_key)
assert isinstance(again, models.LedgerError), again

made = {"account": till.id, "transaction": posted.id, "listed": [each.id for each in page.data]}
print(json.dumps({**made, "refused": str(again.error.code)}))
