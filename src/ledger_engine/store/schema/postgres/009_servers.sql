-- Where each server runs, for `ledger-engine status`: `url`, `host`, `version`, the time of its start, and
-- the time of its last heartbeat.
ALTER TABLE servers ADD COLUMN url TEXT;
ALTER TABLE servers ADD COLUMN host TEXT;
ALTER TABLE servers ADD COLUMN version TEXT;
ALTER TABLE servers ADD COLUMN started BIGINT;
ALTER TABLE servers ADD COLUMN beaten BIGINT;
