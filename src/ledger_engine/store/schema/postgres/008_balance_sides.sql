-- A positive balance is a debit in an account of assets or expenses and a credit in every other account, with
-- the same `root` as in the exports (`ledger_engine.tools.export`). The row of the settlement makes the sums of
-- debits and credits equal.
CREATE OR REPLACE VIEW trial_balance AS
WITH typed AS NOT MATERIALIZED (
    SELECT project, livemode, currency, id, name, balance,
           CASE CAST(metadata AS json) ->> 'type' WHEN 'liability' THEN 'liabilities' WHEN 'equity' THEN 'equity'
               WHEN 'income' THEN 'income' WHEN 'expense' THEN 'expenses' ELSE 'assets' END AS root
    FROM accounts
)
SELECT project, CASE livemode WHEN 1 THEN 'live' ELSE 'test' END AS mode, currency, name, balance,
       CASE WHEN side > 0 THEN side ELSE 0 END AS debit,
       CASE WHEN side < 0 THEN -side ELSE 0 END AS credit, root
FROM (
    SELECT project, livemode, currency, name || ' (' || id || ')' AS name, balance,
           CASE WHEN root IN ('assets', 'expenses') THEN balance ELSE -balance END AS side, root
    FROM typed
    UNION ALL
    SELECT s.project, s.livemode, s.currency, 'settlement', s.balance,
           s.balance + CAST(2 * coalesce(c.credits, 0) AS bigint),
           CASE c.has_assets WHEN 0 THEN 'assets' ELSE 'equity' END
    FROM settlements AS s
    LEFT JOIN (
        SELECT project, livemode, currency,
               sum(CASE WHEN root IN ('assets', 'expenses') THEN 0 ELSE balance END) AS credits,
               max(CASE root WHEN 'assets' THEN 1 ELSE 0 END) AS has_assets
        FROM typed GROUP BY project, livemode, currency
    ) AS c ON c.project = s.project AND c.livemode = s.livemode AND c.currency = s.currency
) AS sides;
