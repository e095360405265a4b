"""Make an account, a token, a posting and a list with the Python client of openapi-generator."""

import json
import os
from uuid import uuid4

from ledger_client import (
    AccountsApi,
    ApiClient,
    ApiKeyGrant,
    Configuration,
    CreateAccount,
    PostTransaction,
    TokenRequest,
    TokensApi,
    TransactionsApi,
)
from ledger_client.exceptions import ConflictException

url, key = os.environ["LEDGER_URL"], os.environ["LEDGER_API_KEY"]

grant = ApiKeyGrant(grant_type="api_key", api_key=key)
token = TokensApi(ApiClient(Configuration(host=url))).issue_token(TokenRequest(grant))
ledger = ApiClient(Configuration(host=url, access_token=token.access_token))

new = CreateAccount(name="Till", currency="EUR")
till = AccountsApi(ledger).create_account(new, idempotency_key=str(uuid4()))
transactions = TransactionsApi(ledger)
sale = PostTransaction(account=till.id, amount=1250, type="credit")
posted = transactions.post_transaction(sale, idempotency_key=f"sale-{till.id}")
try:
    transactions.post_transaction(sale, idempotency_key=f"sale-{till.id}")
    refused = None
except ConflictException as error:
    refused = error.data.error.code
page = transactions.list_transactions(account=till.id)

made = {"account": till.id, "transaction": posted.id, "listed": [each.id for each in page.data]}
print(json.dumps({**made, "refused": refused}))
