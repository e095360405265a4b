-- A positive balance is a debit balance, and `root` is the root of the account, as in the exports
-- (`ledger_engine.tools.export`). Metadata is compact JSON, in which no string contains `,"type":`, because a
-- quote in a string follows a backslash. The view searches this text because SQLite refuses JSON functions in
-- a view while it does not trust the schema.
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
