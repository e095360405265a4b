// Makes an account, a token, a posting and a list with openapi-fetch and the types of openapi-typescript.
import createClient from "openapi-fetch";
import type { paths } from "./ledger";

declare const process: { env: Record<string, string> };

async function main() {
  const { LEDGER_URL: baseUrl, LEDGER_API_KEY: api_key } = process.env;
  const ledger = createClient<paths>({ baseUrl });
  const token = await ledger.POST("/v1/auth/token", { body: { grant_type: "api_key", api_key } });
  if (token.error) throw new Error(JSON.stringify(token.error));
  ledger.use({
    onRequest({ request }) {
      request.headers.set("Authorization", `Bearer ${token.data.access_token}`);
    },
  });

  const till = await ledger.POST("/v1/accounts", {
    params: { header: { "Idempotency-Key": crypto.randomUUID() } },
    body: { name: "Till", currency: "EUR" },
  });
  if (till.error) throw new Error(JSON.stringify(till.error));
  const account = till.data.id;
  const sale = {
    params: { header: { "Idempotency-Key": `sale-${account}` } },
    body: { account, amount: 1250, type: "credit" as const },
  };
  const posted = await ledger.POST("/v1/transactions", sale);
  if (posted.error) throw new Error(JSON.stringify(posted.error));
  const again = await ledger.POST("/v1/transactions", sale);
  const refused = typeof again.error?.error === "object" ? again.error.error.code : null;
  const page = await ledger.GET("/v1/transactions", { params: { query: { account } } });
  if (page.error) throw new Error(JSON.stringify(page.error));

  const listed = page.data.data.map((each) => each.id);
  console.log(JSON.stringify({ account, transaction: posted.data.id, listed, refused }));
}

main();
