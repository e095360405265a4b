-- The data sets that were loaded into a project (`ledger_engine.tools.seed.loading`). A data set is loaded in one
-- transaction, so the columns for continuing an interrupted load are not needed any more.
ALTER TABLE seeds DROP COLUMN fingerprint;
ALTER TABLE seeds DROP COLUMN start;
ALTER TABLE seeds DROP COLUMN salt;
ALTER TABLE seeds DROP COLUMN stored_before;
ALTER TABLE seeds DROP COLUMN done;
