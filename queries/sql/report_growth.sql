-- Runs that saw an artifact or bytes for the first time, with how many.
SELECT r.id, r.command, r.started_at, coalesce(a.n, 0) AS artifacts, coalesce(v.n, 0) AS versions
FROM run r
LEFT JOIN (SELECT first_run, count(*) AS n FROM artifact GROUP BY first_run) a ON a.first_run = r.id
LEFT JOIN (SELECT first_run, count(*) AS n FROM version GROUP BY first_run) v ON v.first_run = r.id
WHERE a.n IS NOT NULL OR v.n IS NOT NULL
ORDER BY r.id
