-- Retries are due at `due` by the ledger's clock, and the time by which all of them were postponed goes. Which
-- time a server trusted goes too; when a server ran last stays (`ledger_engine.store.kept_time`).
UPDATE deliveries SET due = due + (SELECT put_off FROM kept_time)
 WHERE status = 'pending' AND (SELECT put_off FROM kept_time) <> 0;
ALTER TABLE kept_time DROP COLUMN put_off;
ALTER TABLE kept_time RENAME COLUMN trusted TO served;
