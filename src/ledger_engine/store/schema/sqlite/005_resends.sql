-- Counts that are compared when an attempt is recorded, so that it overwrites no change that was made while
-- it ran (`ledger_engine.events.webhooks.attempts`). `resends` counts how often a delivery was resent,
-- `enables` how often an endpoint was enabled or restored, and `restores` how often it was restored.
ALTER TABLE deliveries ADD COLUMN resends INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN enables INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN restores INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deleted_webhook_endpoints ADD COLUMN enables INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deleted_webhook_endpoints ADD COLUMN restores INTEGER NOT NULL DEFAULT 0;
