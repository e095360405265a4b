-- Counts that an attempt compares when it is recorded: what was changed while it ran is not overwritten
-- (`ledger_engine.events.webhooks.attempts`). They count how often a delivery was resent, and how often an
-- endpoint was enabled or restored, and restored.
ALTER TABLE deliveries ADD COLUMN resends INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN enables INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN restores INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deleted_webhook_endpoints ADD COLUMN enables INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deleted_webhook_endpoints ADD COLUMN restores INTEGER NOT NULL DEFAULT 0;
