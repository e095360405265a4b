-- The data sets that were loaded into a project (`ledger_engine.tools.seed.loading`). A load is one transaction, so
-- nothing is stored any more to continue one.
ALTER TABLE seeds DROP COLUMN fingerprint;
ALTER TABLE seeds DROP COLUMN start;
ALTER TABLE seeds DROP COLUMN salt;
ALTER TABLE seeds DROP COLUMN stored_before;
ALTER TABLE seeds DROP COLUMN done;
