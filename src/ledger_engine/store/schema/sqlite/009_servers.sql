-- Where each server runs, for `ledger-engine status`: `url`, `host`, `version`, the time of the server's start
-- (`started`), and the time of the last heartbeat (`beaten`).
ALTER TABLE servers ADD COLUMN url TEXT;
ALTER TABLE servers ADD COLUMN host TEXT;
ALTER TABLE servers ADD COLUMN version TEXT;
ALTER TABLE servers ADD COLUMN started INTEGER;
ALTER TABLE servers ADD COLUMN beaten INTEGER;
