-- A positive balance is a debit balance, and `root` is the root of the account, as in the exports
-- (`ledger_engine.tools.export`).
CREATE OR REPLACE VIEW trial_balance AS
SELECT project, CASE livemode WHEN 1 THEN 'live' ELSE 'test' END AS mode, currency, name, balance,
       CASE WHEN balance > 0 THEN balance ELSE 0 END AS debit,
       CASE WHEN balance < 0 THEN -balance ELSE 0 END AS credit, root
FROM (
    SELECT project, livemode, currency, name || ' (' || id || ')' AS name, balance,
           CASE CAST(metadata AS json) ->> 'type' WHEN 'liability' THEN 'liabilities' WHEN 'equity' THEN 'equity'
               WHEN 'income' THEN 'income' WHEN 'expense' THEN 'expenses' ELSE 'assets' END AS root
    FROM accounts
    UNION ALL
    SELECT project, livemode, currency, 'settlement', balance, 'equity' FROM settlements
) AS sides;
