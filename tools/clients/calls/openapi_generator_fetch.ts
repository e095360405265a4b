// Makes an account, a token, a posting and a list with the typescript-fetch client of openapi-generator.
import { AccountsApi, Configuration, ResponseError, TokensApi, TransactionsApi } from "./client";

declare const process: { env: Record<string, string> };

async function main() {
  const { LEDGER_URL: basePath, LEDGER_API_KEY: apiKey } = process.env;
  const strangers = new Configuration({ basePath });
  const tokenRequest = { grantType: "api_key", apiKey } as const;
  const { accessToken } = await new TokensApi(strangers).issueToken({ tokenRequest });

  // It writes "Bearer" before the token of the scheme `bearer`, but not before that of `oauth`.
  const bearer = async (scheme?: string) => (scheme === "oauth" ? `Bearer ${accessToken}` : accessToken);
  const ledger = new Configuration({ basePath, accessToken: bearer });
  const createAccount = { name: "Till", currency: "EUR" };
  const till = await new AccountsApi(ledger).createAccount({ createAccount, idempotencyKey: crypto.randomUUID() });
  const transactions = new TransactionsApi(ledger);
  const postTransaction = { account: till.id, amount: 1250, type: "credit" } as const;
  const sale = { postTransaction, idempotencyKey: `sale-${till.id}` };
  const posted = await transactions.postTransaction(sale);
  const refused = await transactions.postTransaction(sale).then(
    () => null,
    async (error: ResponseError) => (await error.response.json()).error.code,
  );
  const page = await transactions.listTransactions({ account: till.id });

  const listed = page.data.map((each) => each.id);
  console.log(JSON.stringify({ account: till.id, transaction: posted.id, listed, refused }));
}

main();
