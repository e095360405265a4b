// Makes an account, a token, a posting and a list with the client of oapi-codegen.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"calls/client"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	url, key := os.Getenv("LEDGER_URL"), os.Getenv("LEDGER_API_KEY")
	var request client.TokenRequest
	must(request.FromApiKeyGrant(client.ApiKeyGrant{GrantType: "api_key", ApiKey: key}))
	strangers, err := client.NewClientWithResponses(url)
	must(err)
	token, err := strangers.IssueTokenWithResponse(ctx, request)
	must(err)
	bearer := func(_ context.Context, sent *http.Request) error {
		sent.Header.Set("Authorization", "Bearer "+token.JSON200.AccessToken)
		return nil
	}
	ledger, err := client.NewClientWithResponses(url, client.WithRequestEditorFn(bearer))
	must(err)

	first := fmt.Sprint("till-", time.Now().UnixNano())
	till, err := ledger.CreateAccountWithResponse(ctx, &client.CreateAccountParams{IdempotencyKey: &first},
		client.CreateAccount{Name: "Till", Currency: "EUR"})
	must(err)
	second := "sale-" + till.JSON201.Id
	key2 := &client.PostTransactionParams{IdempotencyKey: &second}
	sale := client.PostTransaction{Account: till.JSON201.Id, Amount: 1250, Type: "credit"}
	posted, err := ledger.PostTransactionWithResponse(ctx, key2, sale)
	must(err)
	again, err := ledger.PostTransactionWithResponse(ctx, key2, sale)
	must(err)
	page, err := ledger.ListTransactionsWithResponse(ctx,
		&client.ListTransactionsParams{Account: &till.JSON201.Id})
	must(err)

	listed := []string{}
	for _, each := range page.JSON200.Data {
		listed = append(listed, each.Id)
	}
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"account": till.JSON201.Id, "transaction": posted.JSON201.Id,
		"listed": listed, "refused": again.JSON409.Error.Code,
	}))
}
