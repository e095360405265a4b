"""What happened, and who is sent it: the outbox, the live stream, webhooks and the request log."""
