-- A retry is due at `due` by the ledger's clock. `put_off` is the time by which all retries were postponed. This
-- migration adds `put_off` to `due`, and drops the column `put_off`. It renames `trusted` to `served`, the last
-- time at which a server ran (`ledger_engine.store.kept_time`).
UPDATE deliveries SET due = due + (SELECT put_off FROM kept_time)
 WHERE status = 'pending' AND (SELECT put_off FROM kept_time) <> 0;
ALTER TABLE kept_time DROP COLUMN put_off;
ALTER TABLE kept_time RENAME COLUMN trusted TO served;
