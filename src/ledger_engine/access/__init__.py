"""Access: projects, plans, keys, tokens, OAuth, quotas and idempotency keys."""
