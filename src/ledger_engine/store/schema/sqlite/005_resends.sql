-- Counts that are compared when the outcome of an attempt is stored, so that the outcome overwrites no change
-- that was made during the attempt (`ledger_engine.events.webhooks.attempts`). `resends` counts how often a
-- delivery was resent, `enables` how often an endpoint was enabled or restored, and `restores` how often it
-- was restored.
ALTER TABLE deliveries ADD COLUMN resends INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN enables INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN restores INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deleted_webhook_endpoints ADD COLUMN enables INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deleted_webhook_endpoints ADD COLUMN restores INTEGER NOT NULL DEFAULT 0;
