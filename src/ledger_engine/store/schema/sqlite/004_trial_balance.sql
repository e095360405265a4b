-- A positive balance is a debit balance, as in the exports (`ledger_engine.tools.export`), and `root` is the one that
-- an account has there. Of the stored metadata, compact JSON, `,"type":` is in no string, where each quote has a
-- backslash before it; SQLite takes no function for JSON in the view of a schema that it does not trust.
DROP VIEW trial_balance;
CREATE VIEW trial_balance AS
SELECT project, CASE livemode WHEN 1 THEN 'live' ELSE 'test' END AS mode, currency, name, balance,
       CASE WHEN balance > 0 THEN balance ELSE 0 END AS debit,
       CASE WHEN balance < 0 THEN -balance ELSE 0 END AS credit, root
FROM (
    SELECT project, livemode, currency, name || ' (' || id || ')' AS name, balance,
           CASE WHEN instr(',' || substr(metadata, 2), ',"type":"liability"') > 0 THEN 'liabilities'
               WHEN instr(',' || substr(metadata, 2), ',"type":"equity"') > 0 THEN 'equity'
               WHEN instr(',' || substr(metadata, 2), ',"type":"income"') > 0 THEN 'income'
               WHEN instr(',' || substr(metadata, 2), ',"type":"expense"') > 0 THEN 'expenses'
               ELSE 'assets' END AS root
    FROM accounts
    UNION ALL
    SELECT project, livemode, currency, 'settlement', balance, 'equity' FROM settlements
);
