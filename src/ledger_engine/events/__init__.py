"""Events: the outbox, the live stream, webhooks and the request log."""
