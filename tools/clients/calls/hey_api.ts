// Makes an account, a token, a posting and a list with the client of @hey-api/openapi-ts.
import { createAccount, issueToken, listTransactions, postTransaction } from "./client";
import { client } from "./client/client.gen";

declare const process: { env: Record<string, string>; exitCode?: number };

async function main() {
  const { LEDGER_URL: baseUrl, LEDGER_API_KEY: api_key } = process.env;
  client.setConfig({ baseUrl });
  const body = { grant_type: "api_key", api_key } as const;
  const { data: token } = await issueToken({ body, throwOnError: true });
  client.setConfig({ auth: () => token.access_token });

  const { data: till } = await createAccount({
    body: { name: "Till", currency: "EUR" },
    headers: { "Idempotency-Key": crypto.randomUUID() },
    throwOnError: true,
  });
  const sale = {
    body: { account: till.id, amount: 1250, type: "credit" },
    headers: { "Idempotency-Key": `sale-${till.id}` },
  } as const;
  const { data: posted } = await postTransaction({ ...sale, throwOnError: true });
  const again = await postTransaction(sale);
  const refused = typeof again.error?.error === "object" ? again.error.error.code : null;
  const { data: page } = await listTransactions({ query: { account: till.id }, throwOnError: true });

  const listed = page.data.map((each) => each.id);
  console.log(JSON.stringify({ account: till.id, transaction: posted.id, listed, refused }));
}

main().catch((error) => {
  console.error(JSON.stringify(error));
  process.exitCode = 1;
});
