-- Where each server runs, for `ledger-engine status`: its address, machine and version, when it started, and when it
-- last beat.
ALTER TABLE servers ADD COLUMN url TEXT;
ALTER TABLE servers ADD COLUMN host TEXT;
ALTER TABLE servers ADD COLUMN version TEXT;
ALTER TABLE servers ADD COLUMN started INTEGER;
ALTER TABLE servers ADD COLUMN beaten INTEGER;
