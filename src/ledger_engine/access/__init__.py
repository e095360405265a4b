"""Who may send requests and what they may do: projects, plans, keys, tokens, OAuth, quotas, idempotency."""
