-- A retry is due at `due` by the ledger's clock. So `put_off`, the time by which all retries were postponed,
-- is added to `due` and dropped. `trusted` becomes `served`, the last time at which a server ran
-- (`ledger_engine.store.kept_time`).
UPDATE deliveries SET due = due + (SELECT put_off FROM kept_time)
 WHERE status = 'pending' AND (SELECT put_off FROM kept_time) <> 0;
ALTER TABLE kept_time DROP COLUMN put_off;
ALTER TABLE kept_time RENAME COLUMN trusted TO served;
